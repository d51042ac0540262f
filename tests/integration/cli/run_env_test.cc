// What of env files and of the submitting shell arrives in a rank of another node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Sandbox;

namespace fs = std::filesystem;

class RunEnv : public ::testing::Test {
 protected:
  RunEnv() {
    box_.Hosts(2, 1);
    box_.Write("show.py", R"(import os, sys
with open('env.' + os.environ['RANK'], 'w') as stream:
    for name in sys.argv[1:]:
        stream.write(name + '=' + ascii(os.environ.get(name)) + '\n')
)");
  }

  // Runs ranks that write down these variables; what the command said.
  std::string Show(const std::vector<std::string>& names) {
    std::vector<std::string> arguments = {"spawn", "--hostfile", "hosts", "show.py"};
    arguments.insert(arguments.end(), names.begin(), names.end());
    CommandRun run = box_.Run(arguments);
    EXPECT_EQ(run.Wait(), 0) << run.err();
    return run.err();
  }

  Sandbox box_;
};

TEST_F(RunEnv, FileOfTheWorkingDirectoryOfTheRanksIsRead) {
  fs::create_directory(box_.Path("work"));
  box_.Write("work/.deepspeed_env", "FROM_WORK=yes\n");
  CommandRun run =
      box_.Run({"spawn", "--hostfile", "hosts", "--cwd", "work", "../show.py", "FROM_WORK"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(box_.Read("work/env.1"), "FROM_WORK='yes'\n");
}

TEST_F(RunEnv, FileArrivesOnEveryNode) {
  box_.Write(".deepspeed_env",
             "\xEF\xBB\xBF"
             "export SCHEDULE = cosine # chosen in May\n"
             "# WARMUP=100\n"
             "\n"
             "EMPTY_LIST=\n"
             "PATHS=:/opt/a:\n"
             "KEY_BLOCK='begin\n  a=b\nend'\n"
             "LAST=no newline");
  const std::string said = Show({"SCHEDULE", "WARMUP", "EMPTY_LIST", "PATHS", "KEY_BLOCK", "LAST"});
  for (const char* file : {"env.0", "env.1"}) {
    EXPECT_EQ(box_.Read(file),
              "SCHEDULE='cosine'\nWARMUP=None\nEMPTY_LIST=''\nPATHS=':/opt/a:'\n"
              "KEY_BLOCK='begin\\n  a=b\\nend'\nLAST='no newline'\n");
  }
  EXPECT_THAT(said, HasSubstr("read env files: " + box_.Path(".deepspeed_env")));
}

TEST_F(RunEnv, FilesAreLayeredAndTheCommandSaysWhichItRead) {
  EXPECT_THAT(Show({}), HasSubstr("no .deepspeed_env in " + box_.Path("home")));
  box_.Write("home/.deepspeed_env", "DATA=from home\nCACHE=from home\n");
  box_.Write(".deepspeed_env", "DATA=from here\n");
  box_.Write("night.env", "ONLY=night\n");
  EXPECT_THAT(Show({"DATA", "CACHE"}), AllOf(HasSubstr(box_.Path("home/.deepspeed_env")),
                                             HasSubstr(box_.Path(".deepspeed_env"))));
  EXPECT_EQ(box_.Read("env.1"), "DATA='from here'\nCACHE='from home'\n");
  box_.Set("DS_ENV_FILE", "night.env");
  EXPECT_THAT(Show({"DATA", "ONLY"}), HasSubstr(box_.Path("night.env")));
  EXPECT_EQ(box_.Read("env.1"), "DATA=None\nONLY='night'\n");
}

TEST_F(RunEnv, BrokenFileStartsNothing) {
  for (const char* line : {"SEED", "DATA=\"/data/a", "2ND=x", "MY NAME=x"}) {
    box_.Write(".deepspeed_env", std::string("GOOD=1\n") + line + "\n");
    CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "show.py"});
    EXPECT_EQ(run.Wait(), 2) << line;
    EXPECT_THAT(run.err(), HasSubstr(".deepspeed_env:2: ")) << line;
    EXPECT_FALSE(box_.Has("env.0") || box_.Has("env.1")) << line;
    EXPECT_THAT(box_.Processes(), IsEmpty());
  }
}

TEST_F(RunEnv, ReferencesAreFilledInOnTheNodeAndNothingIsExecuted) {
  // Agents of --local have the environment of the command for their own.
  box_.Set("SITE_LIBS", "/site/lib");
  box_.Write(".deepspeed_env",
             "ROOT=/opt/kit\n"
             "LIBS=$ROOT/lib:${SITE_LIBS}\n"
             "GONE=<${NEVER_SET}>\n"
             "PLAIN='$ROOT'\n"
             "STAMP=$(touch ran)\n"
             "OLD=`touch ran`\n"
             "CACHE=~/cache\n"
             "COST=5$\n");
  EXPECT_THAT(Show({"LIBS", "GONE", "PLAIN", "STAMP", "OLD", "CACHE", "COST"}),
              AllOf(HasSubstr("'STAMP'"), HasSubstr("'OLD'")));
  EXPECT_EQ(box_.Read("env.1"),
            "LIBS='/opt/kit/lib:/site/lib'\nGONE='<>'\nPLAIN='$ROOT'\nSTAMP='$(touch ran)'\n"
            "OLD='`touch ran`'\nCACHE='" +
                box_.Path("home/cache") + "'\nCOST='5$'\n");
  EXPECT_FALSE(box_.Has("ran"));
}

TEST_F(RunEnv, StaleValuesOfAnEarlierJobReachNobody) {
  box_.Write(".deepspeed_env",
             "MASTER_ADDR=10.9.9.9\nMASTER_PORT=1\nRANK=70\nLOCAL_RANK=6\nHOSTNAME=retired\n"
             "STEPS=1\nSTEPS=2\n");
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "CROSS_SIZE"}) {
    box_.Set(name, "64");
  }
  const std::string said = Show({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                 "NODE_RANK", "CROSS_SIZE", "HOSTNAME", "STEPS"});
  EXPECT_EQ(box_.Read("env.1"),
            "RANK='1'\nLOCAL_RANK='0'\nWORLD_SIZE='2'\nLOCAL_WORLD_SIZE='1'\nNODE_RANK='1'\n"
            "CROSS_SIZE='2'\nHOSTNAME=None\nSTEPS='2'\n");
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "RANK", "HOSTNAME", "STEPS"}) {
    EXPECT_THAT(said, HasSubstr("'" + std::string(name) + "'"));
  }
  Show({"MASTER_ADDR", "MASTER_PORT"});
  EXPECT_EQ(box_.Read("env.0"), box_.Read("env.1"));
  EXPECT_THAT(box_.Read("env.1"),
              AllOf(Not(HasSubstr("10.9.9.9")), Not(HasSubstr("='1'\n")), Not(HasSubstr("None"))));
}

TEST_F(RunEnv, SettingsOfTheShellAreCarriedAndWhatBelongsToThisHostIsNot) {
  // Seen in the plan: agents of --local would have them anyhow.
  const std::vector<std::string> carried = {"PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES",
                                            "HABANA_PROFILE",
                                            "HCCL_COMM_ID",
                                            "HCL_LOG",
                                            "LOG_LEVEL_HCL",
                                            "GC_KERNEL_PATH",
                                            "WANDB_MODE",
                                            "HF_DATASETS_CACHE",
                                            "PYTHONWARNINGS",
                                            "OMP_PROC_BIND",
                                            "FI_EFA_USE_DEVICE_RDMA",
                                            "RDMAV_HUGEPAGES_SAFE"};
  const std::vector<std::string> kept_back = {"SLURM_JOB_ID", "SSH_CLIENT", "HOSTNAME",
                                              "HABANA_VISIBLE_DEVICES", "OMPI_COMM_WORLD_RANK"};
  for (const std::string& name : carried) box_.Set(name, "to-all");
  for (const std::string& name : kept_back) box_.Set(name, "of-this-host");
  CommandRun run = box_.Run({"spawn", "--dry-run", "--hostfile", "hosts", "show.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  for (const std::string& name : carried) {
    EXPECT_THAT(run.out(), HasSubstr("\"" + name + "\": \"to-all\""));
    EXPECT_THAT(run.err(), HasSubstr(name)) << "the command says what it carries";
  }
  EXPECT_THAT(run.out(), Not(HasSubstr("of-this-host")));
}

TEST_F(RunEnv, LongPathListsArriveWhole) {
  std::string list;
  for (int i = 0; i < 2000; ++i) list += "/opt/stack/" + std::to_string(i) + "/lib:";
  box_.Write(".deepspeed_env", "LIBRARY_DIRS=" + list + "\n");
  Show({"LIBRARY_DIRS"});
  EXPECT_EQ(box_.Read("env.1"), "LIBRARY_DIRS='" + list + "'\n");
}

TEST_F(RunEnv, ProxiesAreForTheRanksOnly) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "HTTP_PROXY",
                           "HTTPS_PROXY", "ALL_PROXY"}) {
    box_.Set(name, "http://203.0.113.4:8080");
  }
  box_.Set("no_proxy", "");
  box_.Write(".deepspeed_env", "https_proxy=203.0.113.7:3128\n");
  Show({"http_proxy", "https_proxy"});
  EXPECT_EQ(box_.Read("env.1"),
            "http_proxy='http://203.0.113.4:8080'\nhttps_proxy='203.0.113.7:3128'\n");
}

TEST_F(RunEnv, SecretsAreOnNoCommandLineAndInNoOutput) {
  const std::vector<std::string> secrets = {"sample-9f2c", "sample-7a1e", "sample-3b8d"};
  box_.Set("HF_TOKEN", secrets[0]);
  box_.Write(".deepspeed_env", "DB_PASSWORD=" + secrets[1] + "\n");
  box_.Write("wait.py", R"(import os
names = ('HF_TOKEN', 'DB_PASSWORD', 'WANDB_API_KEY')
open('lengths.' + os.environ['RANK'], 'w').write(repr([len(os.environ[n]) for n in names]))
open('up.' + os.environ['RANK'], 'w').close()
os.close(os.open('gate', os.O_RDONLY))
)");
  box_.Write("job.yaml", "hostfile: hosts\nscript: wait.py\nlog_dir: logs\nenv: {WANDB_API_KEY: " +
                             secrets[2] + "}\n");
  ASSERT_EQ(::mkfifo(box_.Path("gate").c_str(), 0600), 0);
  CommandRun run = box_.Start({"submit", "job.yaml"});
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1")) << run.err();
  std::string seen;
  std::vector<pid_t> pids = box_.Processes();
  EXPECT_GE(pids.size(), 6u) << "agents, shims and ranks of two nodes";
  pids.push_back(run.pid());
  for (const pid_t pid : pids) {
    for (const std::string& word : Sandbox::Words(pid)) seen += word + "\n";
  }
  const std::string job = fs::read_symlink(box_.Path("logs/latest"));
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"status", job, "-o", "json"},
                                             {"list", "-o", "json"},
                                             {"explain", "job.yaml"},
                                             {"submit", "--dry-run", "job.yaml"}}) {
    CommandRun shown = box_.Run(command);
    EXPECT_EQ(shown.Wait(), 0) << shown.err();
    seen += shown.out() + shown.err();
  }
  std::ofstream(box_.Path("gate")).close();
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(box_.Read("lengths.1"), "[11, 11, 11]");
  seen += run.out() + run.err();
  // Logs of the ranks and of every program; the job itself is stored where only its owner reads.
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(box_.path())) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".log" && extension != ".err")) continue;
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    seen += text.str();
    ++files;
  }
  EXPECT_GE(files, 4);
  EXPECT_EQ(fs::status(box_.Path("local")).permissions(), fs::perms::owner_all);
  for (const std::string& secret : secrets) EXPECT_THAT(seen, Not(HasSubstr(secret)));
}

}  // namespace
}  // namespace muster
