#include "coordinator/spec/env_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

std::vector<ForwardRule> Rules(const std::vector<std::string>& texts) {
  std::vector<ForwardRule> rules;
  for (const std::string& text : texts)
    EXPECT_TRUE(ParseForwardRule(text, rules.emplace_back())) << text;
  return rules;
}

TEST(IsValidEnvName, TakesLettersDigitsAndUnderscores) {
  for (const std::string name : {"A", "_", "a1_B", "PATH"})
    EXPECT_TRUE(IsValidEnvName(name)) << name;
  for (const std::string name : {"", "1A", "A B", "A-B", "A.B", "A=B", "\xC3\x84", "A\n"}) {
    EXPECT_FALSE(IsValidEnvName(name)) << name;
  }
}

TEST(IsLauncherOwned, R16KnowsTheRankVariables) {
  for (const std::string name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "CROSS_RANK",
        "CROSS_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
        "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "ID", "MUSTER_JOB_ID", "MUSTER_ATTEMPT",
        "MUSTER_NODE"}) {
    EXPECT_TRUE(IsLauncherOwned(name)) << name;
    EXPECT_FALSE(IsForwardedByDefault(name)) << name;
  }
  for (const std::string name :
       {"RANKS", "rank", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PATH", "IDS"}) {
    EXPECT_FALSE(IsLauncherOwned(name)) << name;
  }
}

TEST(IsPerHost, R9KnowsWhatNeverTravels) {
  for (const std::string name :
       {"HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "HOME", "SSH_CONNECTION", "SLURM_PROCID",
        "SLURM_NODELIST", "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "ID",
        "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "NOTIFY_SOCKET"}) {
    EXPECT_TRUE(IsPerHost(name)) << name;
    EXPECT_FALSE(IsForwardedByDefault(name)) << name;
  }
  for (const std::string name : {"HABANA_LOGS", "HOMES", "OMPI_MCA_btl_vader_single_copy_mechanism",
                                 "USER", "HCCL_SOCKET_IFNAME", "LD_LIBRARY_PATH"}) {
    EXPECT_FALSE(IsPerHost(name)) << name;
  }
}

TEST(IsForwardedByDefault, R9CarriesTheSettingsOfATrainingRun) {
  for (const std::string name : {"PT_HPU_LAZY_MODE",
                                 "HABANA_LOGS",
                                 "HCCL_SOCKET_IFNAME",
                                 "LOG_LEVEL_ALL",
                                 "ENABLE_CONSOLE",
                                 "GC_KERNEL_PATH",
                                 "WANDB_PROJECT",
                                 "HF_HOME",
                                 "PYTHONHASHSEED",
                                 "OMP_NUM_THREADS",
                                 "HCL_CONFIG_PATH",
                                 "LOG_LEVEL_SYN_API",
                                 "MAX_WAIT_ATTEMPTS",
                                 "FI_PROVIDER",
                                 "RDMAV_FORK_SAFE",
                                 "MLX5_SINGLE_THREADED",
                                 "KMP_AFFINITY",
                                 "TRANSFORMERS_CACHE",
                                 "TOKENIZERS_PARALLELISM",
                                 "MLFLOW_TRACKING_URI",
                                 "DATA_LOADER_AEON_LIB_PATH",
                                 "http_proxy",
                                 "https_proxy",
                                 "no_proxy",
                                 "HTTP_PROXY",
                                 "HTTPS_PROXY",
                                 "NO_PROXY",
                                 "UCX_TLS",
                                 "MV2_DEBUG",
                                 "DS_SKIP_CUDA_CHECK",
                                 "SYNAPSE_DEBUG"}) {
    EXPECT_TRUE(IsForwardedByDefault(name)) << name;
  }
}

TEST(IsForwardedByDefault, R9LeavesThePathsOfTheNodeAlone) {
  for (const std::string name : {"LD_LIBRARY_PATH", "PATH", "LD_PRELOAD", "PYTHONPATH",
                                 "PYTHONHOME", "EDITOR", "LANG", "MY_SETTING"}) {
    EXPECT_FALSE(IsForwardedByDefault(name)) << name;
  }
}

TEST(IsForwarded, AddsAndRemovesByRule) {
  const auto rules = Rules({"MY_", "EDITOR", "PATH", "-WANDB_", "WANDB_PROJECT", "-PYTHON*"});
  for (const std::string name : {"MY_X", "EDITOR", "PATH", "WANDB_PROJECT", "HF_HOME"}) {
    EXPECT_TRUE(IsForwarded(name, rules)) << name;
  }
  for (const std::string name : {"EDITORS", "WANDB_API_KEY", "PYTHONHASHSEED", "LD_PRELOAD"}) {
    EXPECT_FALSE(IsForwarded(name, rules)) << name;
  }
}

TEST(IsForwarded, NeverCarriesRankAndHostVariables) {
  const auto rules = Rules({"*", "RANK", "HOSTNAME", "SLURM_"});
  EXPECT_TRUE(IsForwarded("ANYTHING", rules));
  for (const std::string name : {"RANK", "HOSTNAME", "SLURM_JOB_ID", "BASH_FUNC_x%%", "HOME"}) {
    EXPECT_FALSE(IsForwarded(name, rules)) << name;
  }
}

TEST(ParseForwardRule, RefusesWhatIsNoName) {
  ForwardRule rule;
  for (const std::string text : {"", "-", "A B", "1A", "A*B", "A=1", "--A", "$A"}) {
    EXPECT_FALSE(ParseForwardRule(text, rule)) << text;
  }
}

TEST(IsSecretName, R11FindsSecretsByName) {
  for (const std::string name :
       {"WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DB_PASSWORD",
        "MYSQL_PASSWD", "GOOGLE_APPLICATION_CREDENTIALS", "APIKEY", "hf_token", "AZUREML_RUN_TOKEN",
        "AZUREML_BLOB_ACCOUNT_KEY", "SSH_KEYS", "GITHUB_PAT", "KEY", "BASIC_AUTH",
        "TOKEN_TOKENIZER"}) {
    EXPECT_TRUE(IsSecretName(name)) << name;
  }
  for (const std::string name :
       {"TOKENIZERS_PARALLELISM", "PATH", "KEYBOARD_LAYOUT", "LD_LIBRARY_PATH", "AUTHOR", "HOME",
        "COMPASS", "XAUTHORITY", "TOKENIZER"}) {
    EXPECT_FALSE(IsSecretName(name)) << name;
  }
}

TEST(DisplayEnvValue, R11MasksSecretsAndPasswordsOfUrls) {
  EXPECT_EQ(DisplayEnvValue("HF_TOKEN", "hf_demo"), kMaskedValue);
  EXPECT_EQ(DisplayEnvValue("HF_TOKEN", ""), "");
  EXPECT_EQ(DisplayEnvValue("A", "plain"), "plain");
  EXPECT_EQ(DisplayEnvValue("https_proxy", "http://joe:pw@proxy:8080/x"),
            "http://********@proxy:8080/x");
  EXPECT_EQ(DisplayEnvValue("R", "git+https://ghp_demo@github.com/a@v1"),
            "git+https://********@github.com/a@v1");
  EXPECT_EQ(DisplayEnvValue("L", "http://a:b@c,http://d:e@f"),
            "http://********@c,http://********@f");
  EXPECT_EQ(DisplayEnvValue("L", "http://a/b@c"), "http://a/b@c");
  EXPECT_EQ(DisplayEnvValue("L", "://@"), "://@");
}

}  // namespace
}  // namespace muster
