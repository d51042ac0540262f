// The programs that `coordinator compat install` makes, run as people run what they stand in for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <random>
#include <set>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Sandbox;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr char kPython[] = "/usr/bin/python3";

// Writes its arguments, each with a NUL behind it, and some variables.
constexpr char kTell[] = R"(import os, sys
rank = os.environ['RANK']
with open('argv.' + rank, 'wb') as stream:
    stream.write(b''.join(os.fsencode(word) + b'\0' for word in sys.argv[1:]))
with open('env.' + rank, 'w') as stream:
    for name in ('LOCAL_RANK', 'WORLD_SIZE', 'MARKER', 'PYTHONPATH'):
        stream.write(name + '=' + str(os.environ.get(name)) + '\n')
    stream.write(sys.executable + '\n')
)";

class Compat : public ::testing::Test {
 protected:
  Compat() {
    box_.Set("SANDBOX", box_.path());
    box_.Set("PYTHONPATH", "");
    box_.Unset("MUSTER_LOCAL");
    box_.Write("tell.py", kTell);
    fs::create_directory(box_.Path("bin"));
    CommandRun made = box_.Run({"compat", "install", "--directory", "bin"});
    EXPECT_EQ(made.Wait(), 0) << made.err();
    EXPECT_EQ(made.out(), "bin/deepspeed\nbin/gaudi_spawn.py\n");
  }

  static std::string Joined(const Words& words) {
    std::string text;
    for (const std::string& word : words) text += word + '\0';
    return text;
  }

  // `python3 bin/NAME WORD...`
  CommandRun Start(const std::string& name, Words words) {
    words.insert(words.begin(), box_.Path("bin/" + name));
    return box_.StartProgram(kPython, words);
  }
  CommandRun Done(const std::string& name, const Words& words, int status = 0) {
    CommandRun run = Start(name, words);
    EXPECT_EQ(run.Wait(), status) << run.err();
    return run;
  }

  Sandbox box_;
};

TEST_F(Compat, GaudiSpawnRunsOneRankOnThisMachine) {
  const CommandRun run = Done("gaudi_spawn.py", {"tell.py"});
  EXPECT_THAT(run.err(), HasSubstr("runs on this machine alone"));
  EXPECT_THAT(box_.Read("env.0"), HasSubstr("LOCAL_RANK=0\nWORLD_SIZE=1\n"));
  EXPECT_EQ(box_.Read("argv.0"), "");
}

TEST_F(Compat, GaudiSpawnRunsItsWorldOnThisMachineByMpiOrDeepspeed) {
  for (const char* way : {"--use_mpi", "--use_deepspeed"}) {
    Done("gaudi_spawn.py",
         {"--world_size", "2", way, "--master_port", "0", "tell.py", "--lr", "1"});
    EXPECT_THAT(box_.Read("env.1"), HasSubstr("LOCAL_RANK=1\nWORLD_SIZE=2\n")) << way;
    EXPECT_EQ(box_.Read("argv.1"), Joined({"--lr", "1"})) << way;
  }
  EXPECT_THAT(box_.Read("env.1"), HasSubstr("PYTHONPATH=" + box_.path() + ":"));
}

TEST_F(Compat, R9PrefixedVariablesReachEveryRank) {
  box_.Hosts(2, 1);
  box_.Set("PT_HPU_LAZY_MODE", "1");
  const CommandRun run = Done("gaudi_spawn.py", {"--hostfile", "hosts", "--use_deepspeed",
                                                 "--local", "--dry_run", "tell.py"});
  EXPECT_THAT(run.out(), HasSubstr("\"PT_HPU_LAZY_MODE\": \"1\""));
}

TEST_F(Compat, R10EnvFileCountsOnOneNodeToo) {
  box_.Write(".deepspeed_env", "MARKER=from file\n");
  Done("deepspeed", {"--num_gpus", "2", "tell.py"});
  EXPECT_THAT(box_.Read("env.1"), HasSubstr("MARKER=from file\n"));
}

TEST_F(Compat, R4ArgumentsPassTheProgramsByteForByte) {
  // As rows of what a shell would do to them.
  const Words nasty = {"",
                       "*.py",
                       "a;b",
                       "a&b",
                       "two\nlines",
                       "$HOME",
                       "`ls`",
                       "$(ls)",
                       "it's",
                       "(x)",
                       "say \"hi\" now",
                       "{\"a\": 1}",
                       "\\",
                       "\xFF\xFE\x01",
                       "%n %h %u",
                       "--help",
                       "--",
                       "--world_size"};
  Words words = {"--world_size", "1", "tell.py"};
  words.insert(words.end(), nasty.begin(), nasty.end());
  Done("gaudi_spawn.py", words);
  EXPECT_EQ(box_.Read("argv.0"), Joined(nasty));
  words[0] = "--num_gpus";
  Done("deepspeed", words);
  Words with_rank = nasty;
  with_rank.insert(with_rank.begin(), "--local_rank=0");
  EXPECT_EQ(box_.Read("argv.0"), Joined(with_rank));
}

TEST_F(Compat, R4RandomArgumentsReachTheRanksByteForByte) {
  std::mt19937 random(20'261'201);
  for (int round = 0; round < 4; ++round) {
    Words words;
    for (int i = 0; i < 100; ++i) {
      std::string word(random() % 60, '\0');
      for (char& c : word) c = static_cast<char>(1 + random() % 255);
      words.push_back(std::move(word));
    }
    Words arguments = {"--world_size", "1", "tell.py"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    Done("gaudi_spawn.py", arguments);
    EXPECT_EQ(box_.Read("argv.0"), Joined(words));
  }
}

TEST_F(Compat, DeepspeedGivesTheLocalRankUnlessToldNotTo) {
  Done("deepspeed", {"--num_gpus", "2", "tell.py", "x"});
  EXPECT_EQ(box_.Read("argv.1"), Joined({"--local_rank=1", "x"}));
  Done("deepspeed", {"--num_gpus", "2", "--no_local_rank", "tell.py", "x"});
  EXPECT_EQ(box_.Read("argv.1"), Joined({"x"}));
}

TEST_F(Compat, DeepspeedTakesAShellLineInOnePiece) {
  Done("deepspeed", {"--num_gpus", "2", "--no_local_rank", "--no_python", "/bin/bash", "-c",
                     "MARKER=inside exec python3 -u tell.py \"a  b\""});
  EXPECT_EQ(box_.Read("argv.1"), Joined({"a  b"}));
  EXPECT_THAT(box_.Read("env.1"), HasSubstr("MARKER=inside\n"));
}

TEST_F(Compat, RanksGetTheInterpreterThatRunsTheProgram) {
  fs::create_directories(box_.Path("venv/bin"));
  fs::create_symlink(kPython, box_.Path("venv/bin/python3"));
  CommandRun run = box_.StartProgram(box_.Path("venv/bin/python3"),
                                     {box_.Path("bin/gaudi_spawn.py"), "tell.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(box_.Read("env.0"), HasSubstr(box_.Path("venv/bin/python3")));
  Done("gaudi_spawn.py", {"--python", kPython, "tell.py"});
  EXPECT_THAT(box_.Read("env.0"), HasSubstr(std::string("\n") + kPython + "\n"));
}

TEST_F(Compat, AVenvScriptIsEnteredWithoutBeingSourced) {
  fs::create_directories(box_.Path("venv/bin"));
  fs::create_symlink(kPython, box_.Path("venv/bin/python"));
  box_.Write("venv/bin/activate", "touch sourced\n");
  box_.Write("see.py",
             "import os, sys\nprint(sys.executable, os.environ['VIRTUAL_ENV'], "
             "os.environ['PATH'].split(':')[0])\n");
  const CommandRun run =
      Done("deepspeed", {"--num_gpus", "1", "--venv_script", "venv/bin/activate", "see.py"});
  const std::string venv = box_.Path("venv");
  EXPECT_EQ(run.out(), "[0@localhost] " + venv + "/bin/python " + venv + " " + venv + "/bin\n");
  EXPECT_FALSE(box_.Has("sourced"));
}

TEST_F(Compat, R22TheStatusIsThatOfTheRankThatFailedFirst) {
  box_.Write("fail.py", "import sys\nsys.exit(3)\n");
  box_.Write("die.py", "import os\nos.kill(os.getpid(), 9)\n");
  for (const char* name : {"deepspeed", "gaudi_spawn.py"}) {
    Done(name, {"fail.py"}, 3);
    Done(name, {"die.py"}, 137);
    Done(name, {"--hostfile", "gone", "tell.py"}, 2);
    Done(name, {"--no_such_flag", "tell.py"}, 2);
    Done(name, {"gone.py"}, 120);
  }
}

TEST_F(Compat, AHostfileNeedsACoordinatorOrLocal) {
  box_.Hosts(2, 1);
  EXPECT_THAT(Done("deepspeed", {"--hostfile", "hosts", "tell.py"}, 122).err(),
              HasSubstr("--local"));
  Done("deepspeed", {"--local", "--hostfile", "hosts", "tell.py"});
  EXPECT_THAT(box_.Read("env.1"), HasSubstr("LOCAL_RANK=0\nWORLD_SIZE=2\n"));
}

TEST_F(Compat, R20SigtermToTheProgramEndsAllRanksBeforeIt) {
  box_.Write("wait.py",
             "import os\nopen('up.' + os.environ['RANK'], 'w').close()\nos.mkfifo('g.' + "
             "os.environ['RANK'])\nopen('g.' + os.environ['RANK']).read()\n");
  CommandRun run = Start("gaudi_spawn.py", {"--world_size", "2", "--grace", "2", "wait.py"});
  ASSERT_TRUE(box_.WaitFor("up.0") && box_.WaitFor("up.1"));
  run.Send(SIGTERM);
  EXPECT_EQ(run.Wait(), 143) << run.err();
  EXPECT_THAT(box_.Processes(), IsEmpty());
}

TEST_F(Compat, R3AJobLeavesTheFolderAndTheHomeAsTheyWere) {
  box_.Hosts(2, 1);
  box_.Write(".deepspeed_env", "MARKER=x\n");
  box_.Write("home/.deepspeed_env", "MARKER=y\n");
  box_.Write("nothing.py", "print('here')\n");
  box_.Set("TMPDIR", box_.Path("tmp"));
  fs::create_directory(box_.Path("tmp"));
  box_.Set("PYTHONDONTWRITEBYTECODE", "1");
  // Files, their sizes and when they were written; not what Muster keeps of its own.
  const auto listing = [this] {
    std::set<std::string> files;
    for (auto entry = fs::recursive_directory_iterator(box_.path());
         entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().lexically_relative(box_.path()).string();
      const bool of_the_sandbox = name.starts_with("stdout.") || name.starts_with("stderr.");
      if (name == "local" || name == "leases" || of_the_sandbox) {
        entry.disable_recursion_pending();
        continue;
      }
      if (!entry->is_regular_file()) {
        files.insert(name);
        continue;
      }
      const auto written = entry->last_write_time().time_since_epoch().count();
      files.insert(name + " " + std::to_string(entry->file_size()) + " " + std::to_string(written));
    }
    return files;
  };
  const std::set<std::string> before = listing();
  Done("gaudi_spawn.py", {"--local", "--hostfile", "hosts", "--use_deepspeed", "nothing.py"});
  EXPECT_EQ(listing(), before);
}

TEST_F(Compat, R31RanksHaveAllThatDeepspeedsLauncherGives) {
  box_.Hosts(2, 1);
  box_.Write(
      "show.py",
      "import os\nopen('all.' + os.environ['RANK'], 'w').write('\\n'.join(f'{n}={v}' for n, v in "
      "sorted(os.environ.items())) + '\\n')\n");
  Done("deepspeed", {"--local", "--hostfile", "hosts", "show.py"});
  const std::string all = "\n" + box_.Read("all.1");
  for (const char* variable :
       {"RANK=1", "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_SIZE=1", "CROSS_RANK=1", "CROSS_SIZE=2"}) {
    EXPECT_THAT(all, HasSubstr(std::string("\n") + variable + "\n"));
  }
  // With one of these missing, DeepSpeed asks MPI.
  EXPECT_THAT(all, AllOf(::testing::ContainsRegex("\nMASTER_ADDR=[0-9.]+\n"),
                         ::testing::ContainsRegex("\nMASTER_PORT=[0-9]+\n")));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("OMPI_")));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST_F(Compat, SavePidTellsWhatToSignal) {
  box_.Write("wait.py",
             "import os\nos.mkfifo('gate')\nopen('up', 'w').close()\nopen('gate').read()\n");
  CommandRun run = Start("deepspeed", {"--num_gpus", "1", "--save_pid", "wait.py"});
  ASSERT_TRUE(box_.WaitFor("up"));
  const std::string file = "/tmp/" + std::to_string(run.pid()) + ".deepspeed";
  CommandRun cat = box_.StartProgram("/bin/cat", {file});
  EXPECT_EQ(cat.Wait(), 0);
  EXPECT_EQ(cat.out(), std::to_string(run.pid()));
  ::kill(std::stoi(cat.out()), SIGTERM);
  EXPECT_EQ(run.Wait(), 143) << run.err();
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(Compat, InstallLeavesFilesOfOthersAlone) {
  fs::create_directory(box_.Path("taken"));
  box_.Write("taken/gaudi_spawn.py", "print('mine')\n");
  for (const char* what : {"install", "remove"}) {
    CommandRun run = box_.Run({"compat", what, "--directory", "taken"});
    EXPECT_EQ(run.Wait(), 2);
    EXPECT_THAT(run.err(), HasSubstr("taken/gaudi_spawn.py is not of Muster"));
    EXPECT_EQ(box_.Read("taken/gaudi_spawn.py"), "print('mine')\n");
    EXPECT_FALSE(box_.Has("taken/deepspeed")) << "nothing is done by halves";
  }
  // A link is not followed, even to a program of ours.
  fs::create_symlink("../bin/deepspeed", box_.Path("taken/deepspeed"));
  EXPECT_EQ(box_.Run({"compat", "install", "--directory", "taken", "deepspeed"}).Wait(), 2);
}

TEST_F(Compat, InstallAgainAndRemoveAreRepeatable) {
  EXPECT_EQ(box_.Run({"compat", "install", "--directory", "bin"}).Wait(), 0);
  struct stat file {};
  ASSERT_EQ(::stat(box_.Path("bin/deepspeed").c_str(), &file), 0);
  EXPECT_NE(file.st_mode & S_IXUSR, 0u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(box_.Run({"compat", "remove", "--directory", "bin"}).Wait(), 0);
    EXPECT_THAT(fs::is_empty(box_.Path("bin")), true);
  }
  EXPECT_EQ(box_.Run({"compat", "install", "--directory", "bin", "deepspeed"}).Wait(), 0);
  EXPECT_FALSE(box_.Has("bin/gaudi_spawn.py"));
}

TEST_F(Compat, InstallMakesTheFolderAndItsParents) {
  CommandRun run = box_.Run({"compat", "install", "--directory", "a/new/bin"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_TRUE(box_.Has("a/new/bin/deepspeed"));
  EXPECT_TRUE(box_.Has("a/new/bin/gaudi_spawn.py"));
}

TEST_F(Compat, WordsThatItDoesNotKnowAreRefused) {
  for (const auto& [words, text] : std::vector<std::pair<Words, std::string>>{
           {{}, "expected install or remove"},
           {{"instal"}, "got 'instal'"},
           {{"install", "mpirun"}, "expected deepspeed or gaudi_spawn.py, got 'mpirun'"},
           {{"remove", "--directory", "gone"}, "gone is no folder"},
           {{"install", "--directory", "bin/deepspeed/in"},
            "bin/deepspeed/in is no folder (Not a"}}) {
    Words arguments = {"compat"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    CommandRun run = box_.Run(arguments);
    EXPECT_EQ(run.Wait(), 2);
    EXPECT_THAT(run.err(), HasSubstr(text));
  }
}

TEST_F(Compat, AProgramWithoutACoordinatorSaysSo) {
  std::string script = box_.Read("bin/deepspeed");
  const size_t at = script.find("COORDINATOR = b\"") + 16;
  script.replace(at, script.find('"', at) - at, "/no/such/coordinator");
  box_.Write("bin/deepspeed", script);
  box_.Set("PATH", "/nowhere");
  EXPECT_THAT(Done("deepspeed", {"tell.py"}, 127).err(),
              HasSubstr("is Muster's coordinator installed?"));
}

}  // namespace
}  // namespace muster
