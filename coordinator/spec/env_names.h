// What the name of an environment variable says: who owns it, whether it travels, whether its value
// may be shown. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// True for `[A-Za-z_][A-Za-z0-9_]*`.
bool IsValidEnvName(std::string_view name);

// True for variables that the launcher sets for every rank and that nobody else may set: RANK,
// LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, LOCAL_SIZE, CROSS_RANK, CROSS_SIZE, GROUP_RANK,
// GROUP_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT, HABANA_VISIBLE_MODULES, HLS_MODULE_ID, ID,
// MUSTER_JOB_ID, MUSTER_ATTEMPT, MUSTER_NODE.
bool IsLauncherOwned(std::string_view name);

// True for variables that describe one host, session or allocation and are wrong anywhere else:
// HOSTNAME, PWD, HOME, SSH_*, SLURM_*, HABANA_VISIBLE_*, HLS_MODULE_ID, ID, ... They are never
// carried from the submitting shell or from an env file.
bool IsPerHost(std::string_view name);

// True for variables of the submitting shell that travel to all hosts without being asked for: the
// settings of Gaudi software, Python, Hugging Face, proxies and the like. LD_LIBRARY_PATH, PATH,
// LD_PRELOAD and PYTHONPATH do not: the node's own value is usually the right one.
bool IsForwardedByDefault(std::string_view name);

// One entry of `forward_env`: `NAME`, a prefix (`HCCL_` or `HCCL*`), or either with `-` in front
// to leave a variable of the default list at home.
struct ForwardRule {
  std::string pattern;
  bool is_prefix = false;
  bool removes = false;

  bool Matches(std::string_view name) const;
};

// Reads one entry of `forward_env`. False when it is none of the forms above.
bool ParseForwardRule(std::string_view text, ForwardRule& rule);

// Whether a variable of the submitting shell travels: never when it is launcher-owned or per-host
// or has an invalid name; else as the last rule that matches says; else as the default list says.
bool IsForwarded(std::string_view name, std::span<const ForwardRule> rules);

// True when the name says that the value is a secret: it has TOKEN, SECRET, PASSW, CREDENTIAL, a
// word that ends in KEY, and the like. TOKENIZERS_PARALLELISM is none.
bool IsSecretName(std::string_view name);

// What is shown instead of a secret.
inline constexpr char kMaskedValue[] = "********";

// The value as it may be shown: kMaskedValue when the name says secret and the value is not empty;
// otherwise the value with what stands in front of the `@` of a `scheme://user:password@host`
// masked.
std::string DisplayEnvValue(std::string_view name, std::string_view value);

}  // namespace muster
