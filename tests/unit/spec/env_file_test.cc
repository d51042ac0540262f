#include "coordinator/spec/env_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Env(std::string_view text) { return ParseEnv(text).Show(); }
std::string Warnings(std::string_view text) { return ParseEnv(text).Warnings(); }

TEST(ParseEnvFile, R7ReadsWhatPeopleWrite) {
  EXPECT_EQ(Env("\xEF\xBB\xBF"
                "FIRST=one\n"
                "# OLD_SETTING=1\n"
                "\n"
                "   # indented note, no equals sign\n"
                "export SECOND=two\n"
                "EMPTY=\n"
                "  SPACED = three \n"
                "IFS_LIKE=\"a\nb\"\n"
                "CERT='-----BEGIN DEMO-----\nAAAA=\n-----END DEMO-----'\n"
                "NOTE=four # why\n"
                "LAST=five"),
            "FIRST=one|SECOND=two|EMPTY=|SPACED=three|IFS_LIKE=a\nb|"
            "CERT=-----BEGIN DEMO-----\nAAAA=\n-----END DEMO-----|NOTE=four|LAST=five");
}

TEST(ParseEnvFile, R7ReadsWindowsLineEnds) {
  EXPECT_EQ(Env("A=1\r\n# x\r\n\r\nB='x\r\ny'\r\nC=\"z\" # note\r\nD=\r\n"), "A=1|B=x\ny|C=z|D=");
  // In a file of LF lines a carriage return inside quotes is a part of the value.
  EXPECT_EQ(Env("A=1\nB='x\r\ny'\nC=2\r\n"), "A=1|B=x\r\ny|C=2");
}

TEST(ParseEnvFile, R7SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(Env("A=b=c\nB==\nC = d = e\n"), "A=b=c|B==|C=d = e");
}

TEST(ParseEnvFile, R7RemovesExport) {
  EXPECT_EQ(Env("export A=1\nexport\tB=2\n  export   C = 3\nexport=4\nexporter=5\nexport =6\n"),
            "A=1|B=2|C=3|export=4|exporter=5|export=6");
}

TEST(ParseEnvFile, R7RemovesOnePairOfQuotesOnly) {
  EXPECT_EQ(Env("A=\"x y\"\nB='x y'\nC=\"'x'\"\nD='\"x\"'\nE=it's\nF={\"k\": "
                "1}\nG=\"\"\nH=''\nI=a\"b\"\n"),
            "A=x y|B=x y|C='x'|D=\"x\"|E=it's|F={\"k\": 1}|G=|H=|I=a\"b\"");
}

TEST(ParseEnvFile, KeepsNotesOutOfValues) {
  EXPECT_EQ(Env("A=1 # x\nB=1\t#x\nC=#fff\nD= # only a note\nE=a#b\nF='a # b' # c\nG=\"a # "
                "b\"\nH=\n# I=1\n"),
            "A=1|B=1|C=#fff|D=|E=a#b|F=a # b|G=a # b|H=");
}

TEST(ParseEnvFile, ReadsEscapesOfDoubleQuotes) {
  EXPECT_EQ(
      Env(R"(A="say \"hi\""
B="back\\slash"
C="no \n newline, \t no tab"
D="\$X \`y\`"
E='single \" \\ \$'
F=un\"quoted\\
G=\$X
)"),
      R"(A=say "hi"|B=back\slash|C=no \n newline, \t no tab|D=$X `y`|E=single \" \\ \$|F=un\"quoted\\|G=$X)");
}

TEST(ParseEnvFile, R8CutsValuesAtVariables) {
  EXPECT_EQ(Env("BASE=/opt/demo\nLIBS=$BASE/"
                "lib:$NODE_LIBS\nBRACE=${BASE}x\nNONE=a${NOT_SET}b\nLIT='$BASE'\n"
                "QUOTED=\"$BASE x\"\nPRICE=cost$\nDIGIT=$1\nTWICE=$A$B\nSIGN=$$A\nDASH=$A-$B\n"),
            "BASE=/opt/demo|LIBS=<BASE>/lib:<NODE_LIBS>|BRACE=<BASE>x|NONE=a<NOT_SET>b|LIT=$BASE|"
            "QUOTED=<BASE> x|PRICE=cost$|DIGIT=$1|TWICE=<A><B>|SIGN=$<A>|DASH=<A>-<B>");
}

TEST(ParseEnvFile, R8ExpandsTheHomeDirectoryAtTheBeginningOnly) {
  EXPECT_EQ(Env("A=~/cache\nB=\"~/x y\"\nC='~/x'\nD=a~/b\nE=~joe/x\nF=~\nG=\\~/x\nH=\"\\~/x\"\n"),
            "A=<~>/cache|B=<~>/x y|C=~/x|D=a~/b|E=~joe/x|F=<~>|G=~/x|H=~/x");
}

TEST(ParseEnvFile, R8NeverRunsCommandsAndWarns) {
  const EnvResult result =
      ParseEnv("CMD=$(touch $X)\nTICK=`touch $Y`\nOPEN=$(x\nONE=`\nNEST=\"$(a $(b) c) $Z\"\n");
  EXPECT_EQ(result.Show(), "CMD=$(touch $X)|TICK=`touch $Y`|OPEN=$(x|ONE=`|NEST=$(a $(b) c) <Z>");
  EXPECT_THAT(result.Warnings(), AllOf(HasSubstr(".env:1: 'CMD'"), HasSubstr(".env:2: 'TICK'"),
                                       HasSubstr(".env:3: 'OPEN'"), HasSubstr(".env:5: 'NEST'")));
  EXPECT_EQ(Warnings("A='$(x)'\nB=\"\\$(x)\"\nC=`\n"), "");
}

TEST(ParseEnvFile, KeepsOtherBracedExpressionsAsTextAndWarns) {
  const EnvResult result = ParseEnv("A=${X:-$Y}z\nB=${}\nC=${1}\nD=${X\n");
  EXPECT_EQ(result.Show(), "A=${X:-$Y}z|B=${}|C=${1}|D=${X");
  EXPECT_THAT(result.Warnings(),
              AllOf(HasSubstr(".env:1: 'A'"), HasSubstr("only $NAME and ${NAME}")));
}

TEST(ParseEnvFile, R7RefusesEverythingElseWithItsLine) {
  EXPECT_THAT(Env("GOOD=1\nJUSTAWORD\n"), HasSubstr(".env:2: expected NAME=value, found no '='"));
  EXPECT_THAT(Env("GOOD=1\nOPEN=\"never closed\nMORE=2\n"),
              HasSubstr(".env:2: the quote \" of 'OPEN' is never closed"));
  EXPECT_THAT(Env("GOOD=1\nBAD NAME=2\n"), HasSubstr(".env:2: invalid name: a blank before '='"));
  EXPECT_THAT(Env("1A=2\n"), HasSubstr(".env:1: invalid name: it begins with a digit"));
  EXPECT_THAT(Env("=2\n"), HasSubstr(".env:1: expected NAME=value, found nothing before '='"));
  EXPECT_THAT(Env("export A\n"), HasSubstr(".env:1: expected NAME=value"));
  EXPECT_THAT(Env("BASH_FUNC_x%%=() {\n"), HasSubstr("'%'"));
  EXPECT_THAT(Env("A=\"x\"y\n"), HasSubstr(".env:1: text behind the closing quote"));
  EXPECT_THAT(Env("A=\"x\" \"y\"\n"), HasSubstr(".env:1:"));
  EXPECT_THAT(Env("A=\"x\"#y\n"), HasSubstr(".env:1:"));
  EXPECT_THAT(Env("A='x\ny'z\n"),
              HasSubstr(".env:1: text behind the closing quote ' of 'A' on line 2"));
  EXPECT_THAT(Env(std::string("A=1\nB=\0\n", 8)), HasSubstr(".env:2: NUL"));
}

TEST(ParseEnvFile, R7ReportsAllErrorsAtOnce) {
  EXPECT_EQ(
      Env("WORD\nA B=1\nC='1' x\nD=\"open\nE=1\n"),
      ".env:1: expected NAME=value, found no '=' (a value of several lines needs quotes)\n"
      ".env:2: invalid name: a blank before '=', expected letters, digits and '_' (a value of "
      "several "
      "lines needs quotes)\n"
      ".env:3: text behind the closing quote ' of 'C' (quote the whole value, or none of it)\n"
      ".env:4: the quote \" of 'D' is never closed");
}

TEST(ParseEnvFile, CountsLinesBehindMultiLineValues) {
  EXPECT_THAT(Env("A='1\n2\n3'\nWORD\n"), HasSubstr(".env:4:"));
  EXPECT_EQ(ParseEnv("A='1\n2'\nB=1\n").assignments[1].source(), ".env:3");
}

TEST(ParseEnvFile, WarnsOncePerRepeatedNameWithAnotherValue) {
  EXPECT_EQ(Warnings("A=32\nB=1\nA=64\nA=128\nB=1\n"),
            ".env:4: 'A' has another value on line 1; the last one, this, is used");
  EXPECT_EQ(Env("A=1\nA=2\n"), "A=1|A=2");  // In order; the last wins.
  EXPECT_EQ(Warnings("A=$X\nA='$X'\n"),
            ".env:2: 'A' has another value on line 1; the last one, this, is used");
}

TEST(ParseEnvFile, AllowsValuesThatAddToAnEarlierLine) {
  EXPECT_EQ(Warnings("A=/x\nA=$A:/y\nA=${A}:/z\n"), "");
  EXPECT_EQ(Env("A=/x\nA=$A:/y\n"), "A=/x|A=<A>:/y");
}

TEST(ParseEnvFile, LeavesOutWhatBelongsToTheLauncherOrToOneHost) {
  const EnvResult result = ParseEnv(
      "HOSTNAME=old-login\nMASTER_ADDR=old-7\nRANK=5\nSLURM_PROCID=0\nACCUM=1\nMASTER_ADDR=old-"
      "9\nHOSTNAME=x\n"
      "HABANA_VISIBLE_MODULES=0\n_=/usr/bin/env\n");
  EXPECT_EQ(result.Show(), "ACCUM=1");
  EXPECT_EQ(
      result.Warnings(),
      ".env:1: 'HOSTNAME' is ignored, here and on 1 more lines: it belongs to one host and is "
      "never "
      "carried to another\n"
      ".env:2: 'MASTER_ADDR' is ignored, here and on 1 more lines: the launcher sets it for every "
      "rank\n"
      ".env:3: 'RANK' is ignored: the launcher sets it for every rank\n"
      ".env:4: 'SLURM_PROCID' is ignored: it belongs to one host and is never carried to another\n"
      ".env:8: 'HABANA_VISIBLE_MODULES' is ignored: the launcher sets it for every rank\n"
      ".env:9: '_' is ignored: it belongs to one host and is never carried to another");
}

TEST(ParseEnvFile, R11NeverShowsValues) {
  const EnvResult result = ParseEnv(
      "API_KEY=demo0123\nAPI_KEY=demo4567\nRANK=demo89\nX='demoab' "
      "democd\nY=\"demoef\ndemo+gh/ij=\ndemokl mn=\n"
      "Z=$(demoop)\n");
  EXPECT_THAT(result.diagnostics.ErrorText() + result.Warnings(),
              AllOf(Not(HasSubstr("demo")), HasSubstr("'API_KEY'"), HasSubstr("'Z'")));
}

TEST(ParseEnvFile, KeepsLayerSourceAndAnyBytes) {
  Diagnostics diagnostics;
  const auto env =
      ParseEnvFile("A=\xFF\xFE x\n", "dir/f", v1::ENV_LAYER_DEEPSPEED_ENV, diagnostics);
  ASSERT_EQ(env.size(), 1u);
  EXPECT_EQ(env[0].layer(), v1::ENV_LAYER_DEEPSPEED_ENV);
  EXPECT_EQ(env[0].source(), "dir/f:1");
  EXPECT_EQ(env[0].parts(0).literal(), "\xFF\xFE x");
}

TEST(ParseEnvFile, TakesLongValues) {
  const std::string value(200000, 'x');
  EXPECT_EQ(ParseEnv("BIGVAR=" + value + "\n").assignments[0].parts(0).literal(), value);
}

TEST(ParseEnvFile, AnEmptyFileSetsNothing) { EXPECT_EQ(Env(""), ""); }

TEST(MentionsVariable, FindsNamesBehindDollarSigns) {
  for (const std::string text : {"$A", "x${A}y", "$$A", "$ $_"})
    EXPECT_TRUE(MentionsVariable(text)) << text;
  for (const std::string text : {"", "$", "cost$", "$1", "${", "${A", "${A:-x}", "$(A)", "a"}) {
    EXPECT_FALSE(MentionsVariable(text)) << text;
  }
}

}  // namespace
}  // namespace muster
