// R30: every flag that gaudi_spawn.py and deepspeed document, in both spellings, and what it means
// here; docs/compat.md says the same of each.
#include "coordinator/cli/launcher_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "common/base/annotate.h"
#include "coordinator/cli/job_builder.h"
#include "tests/process/cli_job/user_folder.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Args = std::vector<std::string>;

enum class Verdict { kHonoured, kNoEffect, kRefused };

struct Row {
  // As documented, without dashes.
  std::string flag;
  std::string value;
  Verdict verdict;
  // Flags that it needs beside it.
  Args with;
  // What of the job it decides, and how that then is; or a piece of the warning or error.
  std::function<std::string(const SpawnFlags&, const BuiltJob&)> shown;
  std::string want;
};

std::string HostsOf(const SpawnFlags&, const BuiltJob& job) {
  std::string text;
  for (const v1::HostEntry& host : job.spec.hosts()) {
    text += fmt::format("{}:{}", host.host(), host.slot_count());
    for (const uint32_t slot : host.selected_slots()) text += fmt::format("/{}", slot);
    text += ' ';
  }
  return text;
}

std::string ProgramOf(const SpawnFlags&, const BuiltJob& job) {
  const v1::Program& program = job.spec.program();
  return fmt::format("{} {}{}", v1::Program::Kind_Name(program.kind()), program.target(),
                     program.local_rank_argument() ? " --local_rank" : "");
}

std::string BindingOf(const SpawnFlags&, const BuiltJob& job) {
  return job.spec.bind() + " " + job.spec.bind_core_list();
}

std::string EnvOf(const SpawnFlags&, const BuiltJob& job) {
  std::string text = job.spec.program().interpreter();
  for (const v1::EnvAssignment& assignment : job.spec.env()) {
    text += fmt::format(" {}={}", assignment.name(), assignment.parts(0).literal());
    if (assignment.parts_size() > 1) text += "$" + assignment.parts(1).variable();
  }
  return text;
}

const Args kHostfile = {"--hostfile", "hosts"};
constexpr auto kHonoured = Verdict::kHonoured;

std::vector<Row> GaudiSpawnRows() {
  return {
      {"world_size", "3", kHonoured, {}, HostsOf, "localhost:3 "},
      {"hostfile", "hosts", kHonoured, {}, HostsOf, "node-1:4 node-2:4 "},
      {"use_mpi", "", kHonoured, {"--world_size", "2"}, BindingOf, "cores "},
      {"use_deepspeed", "", kHonoured, kHostfile, EnvOf, " PYTHONPATH=CWD:$PYTHONPATH"},
      {"master_port",
       "29511",
       kHonoured,
       {},
       [](const SpawnFlags&, const BuiltJob& job) {
         return std::to_string(job.spec.master_port());
       },
       "29511"},
  };
}

std::vector<Row> DeepspeedRows() {
  const auto master = [](const SpawnFlags&, const BuiltJob& job) {
    return fmt::format("{}:{}", job.spec.master_addr(), job.spec.master_port());
  };
  const auto log = [](const SpawnFlags& flags, const BuiltJob& job) {
    return fmt::format("{} {} {}", flags.run.log_level, flags.run.quiet,
                       job.log_dir.substr(job.log_dir.rfind('/') + 1));
  };
  constexpr auto kNoEffect = Verdict::kNoEffect;
  constexpr auto kRefused = Verdict::kRefused;
  return {
      {"hostfile", "hosts", kHonoured, {}, HostsOf, "node-1:4 node-2:4 "},
      {"include", "node-2:1,0@node-1:0-1", kHonoured, kHostfile, HostsOf,
       "node-1:4/0/1 node-2:4/0/1 "},
      {"exclude", "node-1:0", kHonoured, kHostfile, HostsOf, "node-1:4/1/2/3 node-2:4 "},
      {"num_nodes", "1", kHonoured, kHostfile, HostsOf, "node-1:4 "},
      {"num_gpus", "2", kHonoured, kHostfile, HostsOf, "node-1:2 node-2:2 "},
      {"num_accelerators", "2", kHonoured, {}, HostsOf, "localhost:2 "},
      {"master_port", "29511", kHonoured, {}, master, ":29511"},
      {"master_addr", "192.0.2.1", kHonoured, {}, master, "192.0.2.1:0"},
      {"module", "", kHonoured, {}, ProgramOf, "MODULE t.py --local_rank"},
      {"no_python", "", kHonoured, {}, ProgramOf, "COMMAND t.py --local_rank"},
      {"no_local_rank", "", kHonoured, {}, ProgramOf, "SCRIPT t.py"},
      {"bind_cores_to_rank", "", kHonoured, {}, BindingOf, "cores "},
      {"bind_core_list", "0-9,20-29", kHonoured, {}, BindingOf, "cores 0-9,20-29"},
      {"enable_each_rank_log", "logs", kHonoured, {}, log, " false logs"},
      {"log_level", "critical", kHonoured, {}, log, "error false "},
      {"quiet", "", kHonoured, {}, log, " true "},
      {"save_pid",
       "",
       kHonoured,
       {},
       [](const SpawnFlags& flags, const BuiltJob&) -> std::string {
         return flags.save_pid ? "yes" : "no";
       },
       "yes"},
      {"venv_script",
       "/opt/v/bin/activate",
       kHonoured,
       {},
       EnvOf,
       "/opt/v/bin/python VIRTUAL_ENV=/opt/v PATH=/opt/v/bin:$PATH PYTHONPATH=CWD:$PYTHONPATH"},
      {"launcher", "OpenMPI", kNoEffect, {}, {}, "agents of the nodes"},
      {"no_ssh", "", kNoEffect, {}, {}, "no SSH here"},
      {"no_ssh_check", "", kNoEffect, {}, {}, "no SSH here"},
      {"ssh_port", "3022", kNoEffect, {}, {}, "no SSH here"},
      {"force_multi", "", kNoEffect, {}, {}, "are run alike"},
      {"node_rank", "1", kRefused, {}, {}, "start the command once"},
      {"launcher_args", "-x", kRefused, {}, {}, "--env"},
      {"autotuning", "tune", kRefused, {}, {}, "autotuner by itself"},
      {"elastic_training", "", kRefused, {}, {}, "--num-nodes"},
      {"min_elastic_nodes", "2", kRefused, {}, {}, "--num-nodes"},
      {"max_elastic_nodes", "2", kRefused, {}, {}, "--num-nodes"},
  };
}

class LauncherFlagTest : public ::testing::TestWithParam<std::pair<SpawnStyle, Row>> {
 protected:
  LauncherFlagTest() { user_.Write("hosts", "node-1 slots=4\nnode-2 slots=4\n"); }

  // Checks one spelling of the row.
  void Check(const Args& flag_words) {
    const auto& [style, row] = GetParam();
    SCOPED_TRACE(fmt::format("{}", fmt::join(flag_words, " ")));
    Args args = row.with;
    args.insert(args.end(), flag_words.begin(), flag_words.end());
    args.insert(args.end(), {"t.py", "--" + row.flag});
    absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args, style);
    if (row.verdict == Verdict::kRefused) {
      EXPECT_THAT(std::string(MessageOf(flags.status())), HasSubstr("not supported"));
      EXPECT_THAT(std::string(MessageOf(flags.status())), HasSubstr(row.want));
      return;
    }
    ASSERT_TRUE(flags.ok()) << flags.status();
    EXPECT_THAT(flags->args, ::testing::ElementsAre("--" + row.flag)) << "that is the script's";
    flags->default_hostfile = user_.client.cwd + "/none";
    const absl::StatusOr<BuiltJob> job = BuildFromFlags(*flags, user_.client);
    ASSERT_TRUE(job.ok()) << job.status();
    const std::string warnings = fmt::format("{}", fmt::join(job->warnings, "\n"));
    if (row.verdict == Verdict::kNoEffect) {
      EXPECT_THAT(warnings, HasSubstr("has no effect"));
      EXPECT_THAT(warnings, HasSubstr(row.want));
      return;
    }
    EXPECT_THAT(warnings, Not(HasSubstr("has no effect")));
    std::string shown = row.shown(*flags, *job);
    const std::string& cwd = user_.client.cwd;
    if (const size_t at = shown.find(cwd); at != std::string::npos) {
      shown.replace(at, cwd.size(), "CWD");
    }
    EXPECT_EQ(shown, row.want);
  }

  UserFolder user_;
};

TEST_P(LauncherFlagTest, R30MeansWhatThePageSaysInBothSpellings) {
  const Row& row = GetParam().second;
  std::string dashes = row.flag;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  for (const std::string& name : {row.flag, dashes}) {
    if (row.value.empty()) {
      Check({"--" + name});
    } else {
      Check({"--" + name, row.value});
      Check({"--" + name + "=" + row.value});
    }
  }
}

TEST_P(LauncherFlagTest, R30MeansTheSameToSpawn) {
  const Row& row = GetParam().second;
  Args args = row.with;
  args.push_back("--" + row.flag);
  if (!row.value.empty()) args.push_back(row.value);
  args.push_back("t.py");
  const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args);
  EXPECT_EQ(flags.ok(), row.verdict != Verdict::kRefused) << flags.status();
  if (!flags.ok()) return;
  EXPECT_EQ(flags->run.warnings.empty(), row.verdict == kHonoured && !flags->use_mpi);
}

std::vector<std::pair<SpawnStyle, Row>> Of(SpawnStyle style, const std::vector<Row>& rows) {
  std::vector<std::pair<SpawnStyle, Row>> all;
  all.reserve(rows.size());
  for (const Row& row : rows) all.emplace_back(style, row);
  return all;
}

std::string NameOf(const ::testing::TestParamInfo<std::pair<SpawnStyle, Row>>& info) {
  return info.param.second.flag;
}

INSTANTIATE_TEST_SUITE_P(GaudiSpawn, LauncherFlagTest,
                         ::testing::ValuesIn(Of(SpawnStyle::kGaudiSpawn, GaudiSpawnRows())),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Deepspeed, LauncherFlagTest,
                         ::testing::ValuesIn(Of(SpawnStyle::kDeepspeed, DeepspeedRows())), NameOf);

// Flag to verdict of one table of docs/compat.md.
std::map<std::string, Verdict> PageTable(const std::string& heading) {
  std::ifstream page(COMPAT_PAGE);
  std::map<std::string, Verdict> table;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (!inside || !line.starts_with("| `--")) continue;
    const std::string flag = line.substr(5, line.find_first_of(" `", 5) - 5);
    const size_t last = line.rfind(" | ");
    const std::string here = line.substr(last + 3);
    EXPECT_TRUE(here.starts_with("honoured") || here.starts_with("no effect") ||
                here.starts_with("refused"))
        << line;
    table[flag] = here.starts_with("honoured")    ? kHonoured
                  : here.starts_with("no effect") ? Verdict::kNoEffect
                                                  : Verdict::kRefused;
  }
  return table;
}

std::set<std::string> Underscored(std::span<const std::string_view> names) {
  std::set<std::string> all;
  for (const std::string_view name : names) {
    std::string underscored(name);
    std::replace(underscored.begin(), underscored.end(), '-', '_');
    all.insert(underscored);
  }
  return all;
}

TEST(CompatPage, R30HasEveryFlagWithWhatBecomesOfIt) {
  const std::tuple<std::string, std::vector<Row>, std::set<std::string>> launchers[] = {
      {"Flags of gaudi_spawn.py", GaudiSpawnRows(), Underscored(GaudiSpawnFlagNames())},
      {"Flags of deepspeed", DeepspeedRows(), Underscored(DeepspeedFlagNames())},
  };
  for (const auto& [heading, rows, names] : launchers) {
    std::map<std::string, Verdict> tested;
    std::set<std::string> flags;
    for (const Row& row : rows) {
      tested[row.flag] = row.verdict;
      flags.insert(row.flag);
    }
    EXPECT_EQ(PageTable(heading), tested) << heading;
    EXPECT_EQ(flags, names) << heading;
  }
}

class LauncherStyles : public ::testing::Test {
 protected:
  BuiltJob Build(const Args& args, SpawnStyle style) {
    absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args, style);
    EXPECT_TRUE(flags.ok()) << flags.status();
    if (!flags.ok()) return {};
    flags->default_hostfile = user_.client.cwd + "/job-hosts";
    absl::StatusOr<BuiltJob> job = BuildFromFlags(*flags, user_.client);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : BuiltJob();
  }
  std::string ErrorOf(const Args& args, SpawnStyle style = SpawnStyle::kDeepspeed) {
    absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args, style);
    if (!flags.ok()) return std::string(MessageOf(flags.status()));
    flags->default_hostfile = user_.client.cwd + "/job-hosts";
    return std::string(MessageOf(BuildFromFlags(*flags, user_.client).status()));
  }
  static std::string Hosts(const BuiltJob& job) { return HostsOf({}, job); }

  UserFolder user_;
};

TEST_F(LauncherStyles, R30LettersOfDeepspeedAreItsLongFlags) {
  user_.Write("hosts", "node-1 slots=4\nnode-2 slots=4\n");
  const SpawnStyle style = SpawnStyle::kDeepspeed;
  EXPECT_EQ(Hosts(Build({"-H", "hosts", "-i", "node-2", "t.py"}, style)), "node-2:4 ");
  EXPECT_EQ(Hosts(Build({"-Hhosts", "-e", "node-2:0-2", "t.py"}, style)), "node-1:4 node-2:4/3 ");
  EXPECT_TRUE(ParseSpawnFlags(Args{"-q", "t.py"}, style)->run.quiet);
}

TEST_F(LauncherStyles, R13DeepspeedReadsItsDefaultHostfileOnlyIfItIsThere) {
  const SpawnStyle style = SpawnStyle::kDeepspeed;
  BuiltJob job = Build({"t.py"}, style);
  EXPECT_EQ(Hosts(job), "localhost:0 ") << "every slot of this machine";
  EXPECT_TRUE(job.this_machine);
  EXPECT_THAT(fmt::format("{}", fmt::join(job.notes, "\n")),
              HasSubstr("job-hosts: the job is for this machine"));
  EXPECT_EQ(Hosts(Build({"--num_nodes", "1", "--num_gpus", "2", "t.py"}, style)), "localhost:2 ");
  EXPECT_EQ(Hosts(Build({"--include", "localhost:4,5", "t.py"}, style)), "localhost:0/4/5 ");
  user_.Write("job-hosts", "node-7 slots=2\n");
  job = Build({"t.py"}, style);
  EXPECT_EQ(Hosts(job), "node-7:2 ");
  EXPECT_FALSE(job.this_machine);
  EXPECT_EQ(Hosts(Build({"t.py"}, SpawnStyle::kGaudiSpawn)), "localhost:1 ");
  user_.Write("job-hosts", "node-7 slots=0\n");
  EXPECT_THAT(ErrorOf({"t.py"}), HasSubstr("job-hosts:1: slots must be at least 1"));
}

TEST_F(LauncherStyles, R13AHostfileThatIsNamedAndMissingIsAnError) {
  for (const SpawnStyle style : {SpawnStyle::kDeepspeed, SpawnStyle::kGaudiSpawn}) {
    EXPECT_THAT(ErrorOf({"--hostfile", "gone", "t.py"}, style), HasSubstr("gone: no such file"));
  }
}

TEST_F(LauncherStyles, R5LocalRankIsInsertedAsTheLauncherOfThatNameDoes) {
  const auto inserted = [this](const Args& args, SpawnStyle style) {
    return Build(args, style).spec.program().local_rank_argument();
  };
  EXPECT_TRUE(inserted({"t.py"}, SpawnStyle::kDeepspeed));
  EXPECT_FALSE(inserted({"--no_local_rank", "t.py"}, SpawnStyle::kDeepspeed));
  EXPECT_FALSE(inserted({"t.py"}, SpawnStyle::kGaudiSpawn));
  EXPECT_FALSE(inserted({"--use_deepspeed", "t.py"}, SpawnStyle::kSpawn));
  EXPECT_TRUE(inserted({"--local_rank", "t.py"}, SpawnStyle::kSpawn));
}

TEST_F(LauncherStyles, R30WorldSizeWithAHostfileIsChecked) {
  user_.Write("hosts", "node-1 slots=8\nnode-2 slots=8\n");
  const SpawnStyle style = SpawnStyle::kGaudiSpawn;
  EXPECT_THAT(
      ErrorOf({"--hostfile", "hosts", "--world_size", "8", "--use_deepspeed", "t.py"}, style),
      HasSubstr("--world_size: 8 does not fit the hosts, which give 16 ranks"));
  EXPECT_EQ(Build({"--hostfile", "hosts", "--world_size", "16", "t.py"}, style)
                .spec.expected_world_size(),
            16u);
}

TEST_F(LauncherStyles, R30BeginningsOfFlagsAreTakenAsTheOtherLaunchersDo) {
  EXPECT_EQ(Hosts(Build({"--num_gpu", "3", "t.py"}, SpawnStyle::kDeepspeed)), "localhost:3 ");
  EXPECT_EQ(Hosts(Build({"--world=3", "t.py"}, SpawnStyle::kGaudiSpawn)), "localhost:3 ");
  EXPECT_THAT(ErrorOf({"--no", "t.py"}), HasSubstr("unknown flag --no"));
  EXPECT_EQ(Hosts(Build({"--num_gpu", "3", "t.py"}, SpawnStyle::kSpawn)), "localhost:3 ");
  // Of our own flags, --log-dir begins like that, too.
  EXPECT_EQ(ErrorOf({"--log", "debug", "t.py"}), "");
  EXPECT_THAT(ErrorOf({"--log", "debug", "t.py"}, SpawnStyle::kSpawn),
              HasSubstr("unknown flag --log"));
  EXPECT_THAT(ErrorOf({"--num_gpu", "3", "t.py"}, SpawnStyle::kGaudiSpawn),
              HasSubstr("did you mean --num-gpus?"));
}

TEST_F(LauncherStyles, BindingFlagsThatMakeNoSenseAreRefused) {
  for (const char* list : {"", "a", "3-1", "0-", "0,,1", "-1", "0-99999999", "1.5"}) {
    EXPECT_THAT(ErrorOf({"--bind_core_list", list, "t.py"}),
                HasSubstr("--bind-core-list: expected"))
        << list;
  }
  EXPECT_THAT(ErrorOf({"--bind", "none", "--bind_core_list", "0", "t.py"}),
              HasSubstr("--bind none contradicts"));
  EXPECT_THAT(ErrorOf({"--bind", "sockets", "t.py"}), HasSubstr("expected numa, cores or none"));
  const BuiltJob job = Build({"--bind", "numa", "--use_mpi", "t.py"}, SpawnStyle::kGaudiSpawn);
  EXPECT_EQ(job.spec.bind(), "numa") << "said by the user";
}

TEST_F(LauncherStyles, LaunchersThatDoNotExistAreRefused) {
  for (const char* name :
       {"pdsh", "openmpi", "mvapich", "slurm", "mpich", "impi", "PDSH", "Slurm"}) {
    EXPECT_EQ(ErrorOf({"--launcher", name, "t.py"}), "") << name;
  }
  for (const char* name : {"", "ssh", "pdsh "}) {
    EXPECT_THAT(ErrorOf({"--launcher", name, "t.py"}), HasSubstr("--launcher: expected pdsh"))
        << name;
  }
  EXPECT_THAT(ErrorOf({"--ssh_port", "x", "t.py"}), HasSubstr("--ssh-port: expected a port"));
}

TEST_F(LauncherStyles, AVenvScriptThatIsNoneIsRefused) {
  for (const char* script : {"setup.sh", "/bin/activate", "bin/activate.csh"}) {
    EXPECT_THAT(ErrorOf({"--venv_script", script, "t.py"}), HasSubstr("--python")) << script;
  }
  const BuiltJob job =
      Build({"--venv_script", "v/bin/activate", "--python", "py", "t.py"}, SpawnStyle::kDeepspeed);
  EXPECT_EQ(job.spec.program().interpreter(), "py") << "said by the user";
  EXPECT_EQ(job.spec.env(0).parts(0).literal(), user_.client.cwd + "/v");
}

TEST_F(LauncherStyles, SavePidNeedsAProcessThatStays) {
  const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(Args{"--save_pid", "--detach", "t.py"});
  ASSERT_TRUE(flags.ok());
  EXPECT_FALSE(flags->save_pid);
  EXPECT_THAT(flags->run.warnings, ::testing::ElementsAre(HasSubstr("coordinator cancel")));
}

}  // namespace
}  // namespace muster
