#include "coordinator/spec/env_names.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "common/config/text.h"

namespace muster {
namespace {

// Whether `name` is one of the words of `lists`, or begins with one that ends in '*'.
template <size_t N>
bool IsIn(const std::array<std::string_view, N>& lists, std::string_view name) {
  for (std::string_view rest : lists) {
    while (!rest.empty()) {
      std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (word == name) return true;
      if (word.ends_with('*') && name.starts_with(word.substr(0, word.size() - 1))) return true;
    }
  }
  return false;
}

// R16 and the launcher's own. Set for every rank, whatever else is written anywhere.
constexpr auto kLauncherOwned = std::to_array<std::string_view>({
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE LOCAL_SIZE CROSS_RANK CROSS_SIZE",
    "GROUP_RANK GROUP_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT",
    "HABANA_VISIBLE_MODULES HLS_MODULE_ID ID",
    "MUSTER_JOB_ID MUSTER_ATTEMPT MUSTER_NODE",
});

constexpr auto kPerHost = std::to_array<std::string_view>({
    // The host, the shell, the login session.
    "HOSTNAME PWD OLDPWD SHLVL _ HOME",
    "SSH_* TMUX TMUX_PANE STY WINDOWID XDG_RUNTIME_DIR XDG_SESSION_* DBUS_SESSION_BUS_ADDRESS",
    // Devices.
    "HABANA_VISIBLE_* HLS_MODULE_ID ID",
    // Batch systems.
    "SLURM_* SLURMD_* PBS_* LSB_* SGE_*",
    // MPI and torchrun: with these a library believes that it was started by them.
    "OMPI_COMM_WORLD_* OMPI_UNIVERSE_SIZE OMPI_FILE_LOCATION PMI_* PMIX_* PALS_* MPI_LOCALRANKID",
    "MPI_LOCALNRANKS MV2_COMM_WORLD_* TORCHELASTIC_* ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE "
    "FC_TASK_INDEX",
    // systemd.
    "NOTIFY_SOCKET LISTEN_FDS LISTEN_PID LISTEN_FDNAMES WATCHDOG_* INVOCATION_ID JOURNAL_STREAM",
});

// R9 with the list of optimum-habana's former MPI path (seed_systems.md 1.4), what DeepSpeed
// exports today (2.8), and what users set for Gaudi runs.
constexpr auto kForwarded = std::to_array<std::string_view>({
    "HCCL_* HCL_* HABANA_* PT_* GC_* SYN* LOG_LEVEL_* ENABLE_CONSOLE DATA_LOADER_AEON_LIB_PATH",
    "MAX_WAIT_ATTEMPTS PYTORCH_MODULES_ROOT_PATH BUILD_ROOT_LATEST SOCKET_NTHREADS NSOCK_PERTHREAD",
    "MULTI_HLS_IPS MULTI_STREAMS_ENABLE",
    "FI_* RDMAV_* MLX5_* UCX* MV2* NCCL_* GLOO_* TORCH_* OMP_* KMP_* PYTHON* DS_*",
    "HF_* HUGGING_FACE_* TRANSFORMERS_* TOKENIZERS_* WANDB_* MLFLOW*",
    "DLTS_JOB_ID DLTS_NUM_WORKER NEBULA_* AML_* AZUREML_* FC_TASKROLE_NAME",
    "http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY",
});

// In the list above by their beginning, but they belong to one installation (R9).
constexpr auto kNotForwarded =
    std::to_array<std::string_view>({"PYTHONPATH PYTHONHOME PYTHONEXECUTABLE"});

bool IsWordEnd(std::string_view name, size_t end) { return end == name.size() || name[end] == '_'; }

}  // namespace

bool IsValidEnvName(std::string_view name) {
  if (name.empty() || IsDigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsAlpha(c) || IsDigit(c) || c == '_'; });
}

bool IsLauncherOwned(std::string_view name) { return IsIn(kLauncherOwned, name); }

bool IsPerHost(std::string_view name) { return IsIn(kPerHost, name); }

bool IsForwardedByDefault(std::string_view name) {
  return IsIn(kForwarded, name) && !IsIn(kNotForwarded, name) && !IsPerHost(name) &&
         !IsLauncherOwned(name);
}

bool ForwardRule::Matches(std::string_view name) const {
  return is_prefix ? name.starts_with(pattern) : name == pattern;
}

bool ParseForwardRule(std::string_view text, ForwardRule& rule) {
  rule = ForwardRule{};
  rule.removes = text.starts_with('-');
  if (rule.removes) text.remove_prefix(1);
  rule.is_prefix = text.ends_with('_') || text.ends_with('*');
  if (text.ends_with('*')) text.remove_suffix(1);
  rule.pattern = text;
  // "*" alone: everything that may travel at all.
  return IsValidEnvName(text) || (text.empty() && rule.is_prefix);
}

bool IsForwarded(std::string_view name, std::span<const ForwardRule> rules) {
  if (!IsValidEnvName(name) || IsLauncherOwned(name) || IsPerHost(name)) return false;
  for (size_t i = rules.size(); i > 0; --i) {
    if (rules[i - 1].Matches(name)) return !rules[i - 1].removes;
  }
  return IsForwardedByDefault(name);
}

bool IsSecretName(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  for (const std::string_view part : {"SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL"}) {
    if (upper.find(part) != std::string::npos) return true;
  }
  for (size_t at = upper.find("TOKEN"); at != std::string::npos; at = upper.find("TOKEN", at + 1)) {
    if (std::string_view(upper).substr(at + 5).starts_with("IZ")) continue;  // TOKENIZERS_...
    return true;
  }
  // The end of a word: API_KEY, AWS_ACCESS_KEY_ID, APIKEYS, but not KEYBOARD.
  for (const std::string_view word : {"KEY", "KEYS"}) {
    for (size_t at = upper.find(word); at != std::string::npos; at = upper.find(word, at + 1)) {
      if (IsWordEnd(upper, at + word.size())) return true;
    }
  }
  // Whole words only: PATH has PAT in it.
  for (const std::string_view word : {"AUTH", "CREDS", "COOKIE", "PAT", "PASS"}) {
    for (size_t at = upper.find(word); at != std::string::npos; at = upper.find(word, at + 1)) {
      if ((at == 0 || upper[at - 1] == '_') && IsWordEnd(upper, at + word.size())) return true;
    }
  }
  return false;
}

std::string DisplayEnvValue(std::string_view name, std::string_view value) {
  if (value.empty()) return {};
  if (IsSecretName(name)) return kMaskedValue;
  // Proxies and stores carry a password or a token in front of the host.
  std::string out;
  while (true) {
    const size_t scheme = value.find("://");
    if (scheme == std::string_view::npos) return out += value;
    const size_t authority = scheme + 3;
    const size_t end = std::min(value.find_first_of("/?# \t\n,;\"'", authority), value.size());
    const size_t at = value.substr(0, end).rfind('@');
    out += value.substr(0, authority);
    if (at != std::string_view::npos && at > authority) {
      out += kMaskedValue;
      value.remove_prefix(at);
    } else {
      value.remove_prefix(authority);
    }
  }
}

}  // namespace muster
