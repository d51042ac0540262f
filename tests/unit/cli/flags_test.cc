#include "coordinator/cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() : flags_("demo FILE [flags]", "About.") {
    flags_.Switch("dry-run", &dry_run_, "print only");
    flags_.Switch("quiet,q", &quiet_, "less");
    flags_.Text("log-dir,l", "FOLDER", &log_dir_, "where\nlogs go");
    flags_.Positional("FILE", &file_);
  }

  std::string Parse(const std::vector<std::string>& arguments) {
    return std::string(MessageOf(flags_.Parse(arguments)));
  }

  Flags flags_;
  bool dry_run_ = false;
  bool quiet_ = false;
  std::string log_dir_;
  std::string file_;
};

TEST_F(FlagsTest, DashesAndUnderscoresAreAlike) {
  EXPECT_EQ(Parse({"--dry_run", "--log_dir", "a_b", "f"}), "");
  EXPECT_TRUE(dry_run_);
  EXPECT_EQ(log_dir_, "a_b");
  EXPECT_EQ(Parse({"--dry-run", "--log-dir=c_d=e", "f"}), "");
  EXPECT_EQ(log_dir_, "c_d=e");
}

TEST_F(FlagsTest, TakesLettersAndTheirValues) {
  EXPECT_EQ(Parse({"-q", "-l", "x", "f"}), "");
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(log_dir_, "x");
  EXPECT_EQ(Parse({"-ly", "f"}), "");
  EXPECT_EQ(log_dir_, "y");
}

TEST_F(FlagsTest, EverythingBehindTwoDashesIsPlain) {
  EXPECT_EQ(Parse({"--", "--quiet"}), "");
  EXPECT_EQ(file_, "--quiet");
  EXPECT_FALSE(quiet_);
}

TEST_F(FlagsTest, TakesBeginningsOfSomeNamesWhereTheyFitOne) {
  const std::string_view names[] = {"log-dir", "quiet", "quick"};
  flags_.Switch("quick", &dry_run_, "at once");
  flags_.AllowShort(names);
  EXPECT_EQ(Parse({"--log", "x", "--quie", "f"}), "");
  EXPECT_EQ(log_dir_, "x");
  EXPECT_TRUE(quiet_);
  EXPECT_FALSE(dry_run_);
  EXPECT_THAT(Parse({"--qui", "f"}), HasSubstr("unknown flag --qui"));
  EXPECT_THAT(Parse({"--dry", "f"}), HasSubstr("did you mean --dry-run?"));
  flags_.Switch("log-all", &dry_run_, "everything");
  EXPECT_EQ(Parse({"--log", "x", "f"}), "") << "the other flag is not one of these";
  flags_.AllowShort({}, true);
  EXPECT_THAT(Parse({"--log", "x", "f"}), HasSubstr("unknown flag --log"));
}

TEST_F(FlagsTest, ReportsAllProblemsAtOnce) {
  const std::string problems = Parse({"--quite", "--dry-run=yes", "a", "b", "--log-dir"});
  EXPECT_THAT(problems, HasSubstr("unknown flag --quite (did you mean --quiet?)"));
  EXPECT_THAT(problems, HasSubstr("--dry-run takes no value, got 'yes'"));
  EXPECT_THAT(problems, HasSubstr("unexpected argument 'b'"));
  EXPECT_THAT(problems, HasSubstr("--log-dir needs a value: FOLDER"));
}

TEST_F(FlagsTest, MissingArgumentIsAnError) { EXPECT_EQ(Parse({"-q"}), "FILE is missing"); }

TEST_F(FlagsTest, HelpIsNoError) {
  EXPECT_EQ(Parse({"--help", "--nonsense"}), "");
  EXPECT_TRUE(flags_.help_wanted());
  EXPECT_THAT(flags_.Help(), HasSubstr("usage: coordinator demo FILE [flags]"));
  EXPECT_THAT(flags_.Help(),
              HasSubstr("-l, --log-dir FOLDER  where\n                        logs go"));
}

TEST(ClosestWord, FindsSlipsAndBeginnings) {
  const std::vector<std::string> words = {"submit", "spawn", "status", "cancel"};
  EXPECT_EQ(ClosestWord("statsu", words), "status");
  EXPECT_EQ(ClosestWord("canc", words), "cancel");
  EXPECT_EQ(ClosestWord("frobnicate", words), "");
  EXPECT_EQ(ClosestWord("x", words), "");
}

}  // namespace
}  // namespace muster
