// Collects the environment of a job, layer by layer, from the submitting shell and the env files.
// Reads files, so it may block. For one thread at a time.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "coordinator/cli/client_env.h"
#include "coordinator/spec/env_names.h"
#include "muster/v1/types.pb.h"

namespace muster {

// An env file that the user named.
struct NamedFile {
  // As messages name it.
  std::string shown;
  // Absolute.
  std::string path;
  // Where the user named it.
  Origin at;
};

struct EnvRequest {
  // Folder whose .deepspeed_env is read after that of the home directory. DS_ENV_FILE renames both.
  std::string folder;
  std::vector<NamedFile> files;
  // Beyond the default list.
  std::vector<ForwardRule> forward;
  // Not empty: put this folder in front of PYTHONPATH, as the deepspeed launcher does.
  std::string pythonpath_folder;
};

// Appends the layers from ENV_LAYER_FORWARDED to ENV_LAYER_ENV_FILE to `env`, in order. Problems of
// files go to `diagnostics`; `notes` gets what was read and forwarded.
void AddEnvLayers(const ClientEnv& client, const EnvRequest& request,
                  google::protobuf::RepeatedPtrField<v1::EnvAssignment>& env,
                  Diagnostics& diagnostics, std::vector<std::string>& notes);

// Appends one `NAME=VALUE`, or `NAME` for the value in the submitting shell, at ENV_LAYER_JOB.
void AddEnvFlag(std::string_view text, const ClientEnv& client,
                google::protobuf::RepeatedPtrField<v1::EnvAssignment>& env,
                Diagnostics& diagnostics);

}  // namespace muster
