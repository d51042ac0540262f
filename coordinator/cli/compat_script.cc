#include "coordinator/cli/compat_script.h"

#include <fmt/format.h>

namespace muster {
namespace {

constexpr std::string_view kMark = "\n# muster-compat: ";
constexpr std::string_view kSetting = "\nCOORDINATOR = ";

// As Python writes bytes.
std::string PythonBytes(std::string_view bytes) {
  std::string text = "b\"";
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code > 0x7E || c == '"' || c == '\\') {
      text += fmt::format("\\x{:02x}", code);
    } else {
      text += c;
    }
  }
  return text + '"';
}

}  // namespace

bool IsCompatScript(std::string_view content) {
  // Behind the first line, which names the interpreter.
  const size_t line = content.find('\n');
  return content.starts_with("#!") && line != std::string_view::npos &&
         content.substr(line).starts_with(kMark);
}

absl::StatusOr<std::string> MakeCompatScript(std::string_view original,
                                             std::string_view coordinator) {
  const size_t setting = original.find(kSetting);
  if (!IsCompatScript(original) || setting == std::string_view::npos) {
    return absl::FailedPreconditionError("is not as it was packaged (install Muster again)");
  }
  const size_t value = setting + kSetting.size();
  const size_t end = original.find('\n', value);
  if (end == std::string_view::npos) {
    return absl::FailedPreconditionError("is cut off (install Muster again)");
  }
  return fmt::format("{}{}{}", original.substr(0, value), PythonBytes(coordinator),
                     original.substr(end));
}

}  // namespace muster
