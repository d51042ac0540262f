#include "coordinator/plan/env_text.h"

#include <fmt/format.h>

#include "coordinator/spec/env_names.h"

namespace muster {

std::string ShownValue(const v1::EnvAssignment& assignment) {
  std::string text;
  for (const v1::EnvPart& part : assignment.parts()) {
    switch (part.part_case()) {
      case v1::EnvPart::kLiteral:
        text += part.literal();
        break;
      case v1::EnvPart::kVariable:
        text += fmt::format("${{{}}}", part.variable());
        break;
      case v1::EnvPart::kHome:
        text += '~';
        break;
      case v1::EnvPart::PART_NOT_SET:
        break;
    }
  }
  return DisplayEnvValue(assignment.name(), text);
}

std::string_view LayerName(v1::EnvLayer layer) {
  switch (layer) {
    case v1::ENV_LAYER_AGENT:
      return "agent";
    case v1::ENV_LAYER_DEFAULT:
      return "default";
    case v1::ENV_LAYER_FORWARDED:
      return "forwarded";
    case v1::ENV_LAYER_DEEPSPEED_ENV:
      return ".deepspeed_env";
    case v1::ENV_LAYER_ENV_FILE:
      return "env file";
    case v1::ENV_LAYER_JOB:
      return "job";
    case v1::ENV_LAYER_NODE:
      return "node";
    case v1::ENV_LAYER_LAUNCHER:
      return "launcher";
    default:
      return "unknown";
  }
}

}  // namespace muster
