// The tables of docs/compat.md about files: hostfile lines, include and exclude, env file lines.
// Every row of the page has its row here and is tried, so that the page stays true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "common/base/annotate.h"
#include "coordinator/cli/job_builder.h"
#include "coordinator/spec/env_file.h"
#include "coordinator/spec/hostfile.h"
#include "tests/process/cli_job/user_folder.h"
#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Cells = std::vector<std::string>;

// Rows of the table below a heading of the page, without the two of its head.
std::vector<Cells> TableOf(const std::string& heading) {
  std::ifstream page(COMPAT_PAGE);
  std::vector<Cells> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (!inside || !line.starts_with("| ")) continue;
    Cells cells;
    for (size_t at = 2; at < line.size();) {
      const size_t end = std::min(line.find(" |", at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end + 3;
    }
    rows.push_back(std::move(cells));
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

std::string NameOf(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name.empty() ? "row" : name;
}

struct HostfileRow {
  // First cell of the page.
  std::string cell;
  std::string text;
  // Whether each of the former parsers took the line.
  bool optimum;
  bool deepspeed;
  // Whether it is taken here; then the hosts, else a piece of the reason.
  bool taken;
  std::string outcome;
};

std::ostream& operator<<(std::ostream& out, const HostfileRow& row) { return out << row.cell; }

std::vector<HostfileRow> HostfileRows() {
  return {
      {"`10.0.0.1 slots=8`", "10.0.0.1 slots=8", true, true, true, "10.0.0.1:8 "},
      {"blank", "", true, true, true, ""},
      {"`# comment`", "# comment", false, true, true, ""},
      {"`h slots=8 # note`", "h slots=8 # note", false, true, true, "h:8 "},
      {"`h slots=8 max_slots=8`", "h slots=8 max_slots=8", false, true, true, "h:8 "},
      {"`h max_slots=4 slots=8`", "h max_slots=4 slots=8", false, false, false,
       "max_slots=4 is below slots=8"},
      {"`h slots=8x`", "h slots=8x", false, true, false, "slots must be a whole number, got '8x'"},
      {"`h gpus=8`", "h gpus=8", true, false, false, "unknown key 'gpus' (write slots=N)"},
      {"`h slots=-1`", "h slots=-1", true, false, false, "slots must be at least 1, got -1"},
      {"`h slots=0`", "h slots=0", true, true, false,
       "slots must be at least 1, got 0 (remove the line"},
      {"`h slots = 8`", "h slots = 8", false, false, true, "h:8 "},
      {"`h`", "h", false, false, true, "h:0 "},
      {"a host twice", "h slots=8\nh slots=8", false, false, false,
       "hosts:2: host 'h' is already on line 1"},
      {"`a:22 slots=8`", "a:22 slots=8", true, true, false, "port"},
      {"`u@a slots=8`", "u@a slots=8", true, true, true, "a:8 "},
      {"`a,b slots=8`", "a,b slots=8", true, true, false, "one host per line"},
      {"a byte order mark in front", "\xEF\xBB\xBFh slots=8", true, true, true, "h:8 "},
      {"`A slots=8` and `a slots=8`", "A slots=8\na slots=8", true, true, true, "A:8 a:8 "},
      {"`h slots=99999999999999999999`", "h slots=99999999999999999999", true, true, false,
       "slots must be at most 4096"},
  };
}

class HostfileGrammars : public ::testing::TestWithParam<HostfileRow> {};

TEST_P(HostfileGrammars, R12AcceptsOrGivesAReason) {
  const HostfileRow& row = GetParam();
  // A second host, so that lines without a host are about themselves.
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile(row.text + "\nlast slots=1\n", "hosts", diagnostics);
  if (row.taken) {
    EXPECT_EQ(diagnostics.ErrorText(), "");
    EXPECT_EQ(ShowHosts(hosts), row.outcome + "last:1");
  } else {
    EXPECT_THAT(diagnostics.ErrorText(), HasSubstr(row.outcome));
    ASSERT_FALSE(diagnostics.errors.empty());
    EXPECT_GT(diagnostics.errors[0].line, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Page, HostfileGrammars, ::testing::ValuesIn(HostfileRows()),
                         [](const auto& tried) {
                           return fmt::format("{}_{}", tried.index, NameOf(tried.param.cell));
                         });

TEST(CompatPage, R12HasEveryHostfileLineWithWhatBecomesOfIt) {
  std::map<std::string, std::vector<bool>> tested;
  for (const HostfileRow& row : HostfileRows()) {
    tested[row.cell] = {row.optimum, row.deepspeed, row.taken};
  }
  // Files rather than lines; see R13 in hostfile_test.cc and job_from_flags_test.cc.
  tested["an empty file"] = {true, false, false};
  tested["a missing file"] = {false, true, false};
  std::map<std::string, std::vector<bool>> written;
  const auto is_taken = [](const std::string& cell) {
    return !cell.starts_with("error") && !cell.starts_with("refused");
  };
  for (const Cells& cells : TableOf("Hostfile")) {
    ASSERT_EQ(cells.size(), 4u) << cells[0];
    written[cells[0]] = {is_taken(cells[1]), is_taken(cells[2]), is_taken(cells[3])};
    if (cells[3].starts_with("two entries")) continue;
    EXPECT_TRUE(cells[3].starts_with("taken") || cells[3].starts_with("refused")) << cells[3];
  }
  EXPECT_EQ(written, tested);
}

struct SelectionRow {
  std::string flags;
  // Hosts, or a piece of the reason when it does not end in a blank.
  std::string outcome;
};

std::ostream& operator<<(std::ostream& out, const SelectionRow& row) { return out << row.flags; }

std::vector<SelectionRow> SelectionRows() {
  return {
      {"--include w0@w1:0,2", "w0:4 w1:4[0,2] "},
      {"--include w1:2,0@w0:1", "w0:4[1] w1:4[0,2] "},
      {"--include w0", "w0:4 "},
      {"--include w1:9", "host 'w1' has no slot 9"},
      {"--include w0:-1", "--include:"},
      {"--include w0:0-2", "w0:4[0,1,2] "},
      {"--include w[0-1]:0", "w0:4[0] w1:4[0] "},
      {"--include [fe80::1]:0", "fe80::1:4[0] "},
      {"--include w0:1@w0:2", "twice"},
      {"--exclude w1:0", "w0:4 w1:4[1,2,3] "},
      {"--exclude w0@w1", "no host is left"},
      {"--include w0 --exclude w1", "mutually exclusive"},
      {"--include w0 --num_nodes 1", "cannot be used with include"},
      {"--num_nodes 3", "3 nodes are asked for, but there are 2"},
      {"--num_gpus 5", "5 slots"},
  };
}

class SelectionGrammar : public ::testing::TestWithParam<SelectionRow> {};

TEST_P(SelectionGrammar, R14SelectsOrGivesAReason) {
  const SelectionRow& row = GetParam();
  UserFolder user;
  const bool ipv6 = row.flags.find("fe80") != std::string::npos;
  user.Write("hosts", ipv6 ? "fe80::1 slots=4\n" : "w0 slots=4\nw1 slots=4\n");
  std::vector<std::string> args = {"-H", "hosts"};
  std::istringstream words(row.flags);
  for (std::string word; words >> word;) args.push_back(word);
  args.push_back("t.py");
  const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args);
  ASSERT_TRUE(flags.ok()) << flags.status();
  const absl::StatusOr<BuiltJob> job = BuildFromFlags(*flags, user.client);
  if (row.outcome.ends_with(' ')) {
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(ShowHosts({job->spec.hosts().begin(), job->spec.hosts().end()}) + " ", row.outcome);
  } else {
    EXPECT_THAT(std::string(MessageOf(job.status())), HasSubstr(row.outcome));
  }
}

INSTANTIATE_TEST_SUITE_P(Page, SelectionGrammar, ::testing::ValuesIn(SelectionRows()),
                         [](const auto& tried) {
                           return fmt::format("{}_{}", tried.index, NameOf(tried.param.flags));
                         });

TEST(CompatPage, R14HasEverySelectionWithWhatBecomesOfIt) {
  std::map<std::string, bool> tested;
  for (const SelectionRow& row : SelectionRows()) {
    tested["`" + row.flags + "`"] = row.outcome.ends_with(' ');
  }
  std::map<std::string, bool> written;
  for (const Cells& cells : TableOf("Include and exclude")) {
    written[cells[0]] = !cells[2].starts_with("refused");
  }
  EXPECT_EQ(written, tested);
}

struct EnvRow {
  std::string cell;
  std::string text;
  // As EnvResult::Show: `A=b`; or a piece of the error.
  std::string outcome;
};

std::ostream& operator<<(std::ostream& out, const EnvRow& row) { return out << row.cell; }

std::vector<EnvRow> EnvRows() {
  return {
      {"`A=b`", "A=b", "A=b"},
      {"`A=b=c`", "A=b=c", "A=b=c"},
      {"blank, or no `=`", "\nWORD", ".env:2: expected NAME=value"},
      {"`# comment`", "# comment", ""},
      {"`#FOO=bar`", "#FOO=bar", ""},
      {"`A=\"x y\"`", "A=\"x y\"", "A=x y"},
      {"`A={\"k\": 1}`", "A={\"k\": 1}", "A={\"k\": 1}"},
      {"`A=$LD_LIBRARY_PATH:/x`", "A=$LD_LIBRARY_PATH:/x", "A=<LD_LIBRARY_PATH>:/x"},
      {"`A=$(cmd)`", "A=$(cmd)", "A=$(cmd)"},
      {"`export A=b`", "export A=b", "A=b"},
  };
}

class EnvFileGrammar : public ::testing::TestWithParam<EnvRow> {};

TEST_P(EnvFileGrammar, R7ReadsOrGivesAReason) {
  const EnvRow& row = GetParam();
  const std::string shown = ParseEnv(row.text + "\n").Show();
  if (row.outcome.starts_with(".env")) {
    EXPECT_THAT(shown, HasSubstr(row.outcome));
  } else {
    EXPECT_EQ(shown, row.outcome);
  }
}

INSTANTIATE_TEST_SUITE_P(Page, EnvFileGrammar, ::testing::ValuesIn(EnvRows()),
                         [](const auto& tried) {
                           return fmt::format("{}_{}", tried.index, NameOf(tried.param.cell));
                         });

TEST(CompatPage, R7HasEveryLineOfAnEnvFile) {
  std::vector<std::string> tested;
  for (const EnvRow& row : EnvRows()) tested.push_back(row.cell);
  std::vector<std::string> written;
  for (const Cells& cells : TableOf("Env file")) written.push_back(cells[0]);
  EXPECT_EQ(written, tested);
}

}  // namespace
}  // namespace muster
