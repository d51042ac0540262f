#include "coordinator/cli/env_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/plan/env_text.h"
#include "muster/v1/job_spec.pb.h"
#include "tests/process/cli_job/user_folder.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class EnvLayersTest : public ::testing::Test {
 protected:
  // "NAME=shown value|layer|source" per assignment.
  std::vector<std::string> Layers() {
    v1::JobSpec spec;
    notes_.clear();
    diagnostics_ = {};
    AddEnvLayers(user_.client, request_, *spec.mutable_env(), diagnostics_, notes_);
    std::vector<std::string> out;
    for (const v1::EnvAssignment& assignment : spec.env()) {
      out.push_back(assignment.name() + "=" + ShownValue(assignment) + "|" +
                    std::string(LayerName(assignment.layer())) + "|" + assignment.source());
    }
    return out;
  }

  UserFolder user_;
  EnvRequest request_{user_.client.cwd, {}, {}, {}};
  Diagnostics diagnostics_;
  std::vector<std::string> notes_;
};

TEST_F(EnvLayersTest, ReadsHomeThenFolderThenNamedFiles) {
  user_.Write("../home/.deepspeed_env", "A=home\nB=home\n");
  user_.Write(".deepspeed_env", "A=cwd\n");
  user_.Write("more.env", "A=$A:more\n");
  request_.files = {{"more.env", user_.client.cwd + "/more.env", {}}};
  EXPECT_THAT(Layers(), ElementsAre("A=home|.deepspeed_env|~/.deepspeed_env:1",
                                    "B=home|.deepspeed_env|~/.deepspeed_env:2",
                                    "A=cwd|.deepspeed_env|.deepspeed_env:1",
                                    "A=${A}:more|env file|more.env:1"));
  EXPECT_THAT(notes_,
              ElementsAre("read env files: " + user_.client.home + "/.deepspeed_env, " +
                          user_.client.cwd + "/.deepspeed_env, " + user_.client.cwd + "/more.env"));
}

TEST_F(EnvLayersTest, SaysWhereItLookedWhenThereIsNone) {
  EXPECT_THAT(Layers(), IsEmpty());
  EXPECT_THAT(notes_,
              ElementsAre("no .deepspeed_env in " + user_.client.home + " or " + user_.client.cwd));
}

TEST_F(EnvLayersTest, LetsTheShellRenameBothFiles) {
  user_.Write("../home/.deepspeed_env", "A=1\n");
  user_.Write(".job2_env", "C=job2\n");
  user_.client.environ = {{"DS_ENV_FILE", ".job2_env"}};
  EXPECT_THAT(Layers(), Contains("C=job2|.deepspeed_env|.job2_env:1"));
  EXPECT_THAT(Layers(), Not(Contains(HasSubstr("A=1"))));
  user_.client.environ = {{"DS_ENV_FILE", user_.client.cwd + "/.job2_env"}};
  EXPECT_THAT(Layers(), Contains(HasSubstr("C=job2")));
  user_.client.environ = {{"DS_ENV_FILE", "/no/such/env"}};
  Layers();
  EXPECT_THAT(notes_, Contains("no env file /no/such/env"));
}

TEST_F(EnvLayersTest, ReadsAFileOnce) {
  user_.Write(".deepspeed_env", "A=1\n");
  user_.client.home = user_.client.cwd;
  EXPECT_THAT(Layers(), ElementsAre("A=1|.deepspeed_env|~/.deepspeed_env:1"));
  request_.files = {{".deepspeed_env", user_.client.cwd + "/.deepspeed_env", {}}};
  EXPECT_THAT(Layers(), ElementsAre("A=1|env file|.deepspeed_env:1"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("read env files")));
}

TEST_F(EnvLayersTest, ForwardsTheDefaultListByName) {
  user_.client.environ = {
      {"WANDB_PROJECT", "p"}, {"HCCL_SOCKET_IFNAME", "eth0"},  {"HOSTNAME", "login"},
      {"RANK", "3"},          {"HABANA_VISIBLE_DEVICES", "0"}, {"UNRELATED", "1"},
      {"HF_TOKEN", "demo"}};
  EXPECT_THAT(Layers(), ElementsAre("HCCL_SOCKET_IFNAME=eth0|forwarded|submitting shell",
                                    "HF_TOKEN=********|forwarded|submitting shell",
                                    "WANDB_PROJECT=p|forwarded|submitting shell"));
  EXPECT_THAT(notes_,
              Contains("forwarded from this shell: HCCL_SOCKET_IFNAME, HF_TOKEN, WANDB_PROJECT"));
}

TEST_F(EnvLayersTest, ForwardsMoreAndLessOnRequest) {
  user_.client.environ = {{"MY_A", "1"}, {"WANDB_X", "2"}, {"SLURM_JOB_ID", "3"}};
  request_.forward = {{"MY_", true, false},
                      {"WANDB_", true, true},
                      {"SLURM_JOB_ID", false, false},
                      {"NOT_SET", false, false}};
  EXPECT_THAT(Layers(), ElementsAre(HasSubstr("MY_A=1")));
  EXPECT_THAT(
      diagnostics_.WarningTexts(),
      ElementsAre(HasSubstr("SLURM_JOB_ID belongs to one host"), HasSubstr("NOT_SET is not set")));
}

TEST_F(EnvLayersTest, PutsTheFolderInFrontOfPythonpathForDeepspeed) {
  request_.pythonpath_folder = "/w";
  EXPECT_THAT(Layers(), ElementsAre("PYTHONPATH=/w:${PYTHONPATH}|forwarded|--use_deepspeed"));
}

TEST_F(EnvLayersTest, ReportsEveryFileThatIsWrong) {
  user_.Write("../home/.deepspeed_env", "A=1\nnonsense\n");
  std::filesystem::create_directory(user_.client.cwd + "/.deepspeed_env");
  request_.files = {{"gone.env", user_.client.cwd + "/gone.env", {"job.yaml", 7}}};
  Layers();
  EXPECT_THAT(diagnostics_.ErrorText(), HasSubstr("~/.deepspeed_env:2: "));
  EXPECT_THAT(diagnostics_.ErrorText(),
              HasSubstr(user_.client.cwd + "/.deepspeed_env: is a folder"));
  EXPECT_THAT(diagnostics_.ErrorText(), HasSubstr("job.yaml:7: env file gone.env: no such file"));
}

TEST_F(EnvLayersTest, DropsStaleLauncherVariablesWithOneWarningEach) {
  user_.Write(".deepspeed_env", "RANK=5\nMASTER_ADDR=old\nRANK=6\nHOSTNAME=old\nKEEP=1\n");
  EXPECT_THAT(Layers(), ElementsAre(HasSubstr("KEEP=1")));
  EXPECT_THAT(diagnostics_.WarningTexts(),
              testing::UnorderedElementsAre(HasSubstr("RANK"), HasSubstr("MASTER_ADDR"),
                                            HasSubstr("HOSTNAME")));
}

TEST(AddEnvFlag, TakesValuesAndNamesOfTheShell) {
  ClientEnv client;
  client.environ = {{"FROM_SHELL", "x y"}};
  v1::JobSpec spec;
  Diagnostics diagnostics;
  for (const char* text : {"A=1=2", "EMPTY=", "FROM_SHELL", "D=$HOME"}) {
    AddEnvFlag(text, client, *spec.mutable_env(), diagnostics);
  }
  EXPECT_TRUE(diagnostics.ok());
  ASSERT_EQ(spec.env_size(), 4);
  EXPECT_EQ(ShownValue(spec.env(0)), "1=2");
  EXPECT_EQ(ShownValue(spec.env(1)), "");
  EXPECT_EQ(ShownValue(spec.env(2)), "x y");
  EXPECT_EQ(spec.env(3).parts(0).literal(), "$HOME");
  EXPECT_EQ(spec.env(0).source(), "--env");
  for (const char* text : {"RANK=1", "1X=2", "NOT_SET", "=x"}) {
    AddEnvFlag(text, client, *spec.mutable_env(), diagnostics);
  }
  EXPECT_EQ(diagnostics.errors.size(), 4u);
  EXPECT_EQ(spec.env_size(), 4);
}

}  // namespace
}  // namespace muster
