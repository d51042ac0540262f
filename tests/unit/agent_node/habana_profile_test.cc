// Which lines of the profile of the Habana software count.
#include "agent/node/habana_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// References as `<NAME>`, the home as `<~>`.
std::map<std::string, std::string> Read(std::string_view text) {
  std::map<std::string, std::string> read;
  for (const v1::EnvAssignment& one : ParseHabanaProfile(text)) {
    std::string& value = read[one.name()];
    for (const v1::EnvPart& part : one.parts()) {
      if (part.has_literal()) value += part.literal();
      if (part.has_variable()) value += "<" + part.variable() + ">";
      if (part.has_home()) value += "<~>";
    }
  }
  return read;
}

TEST(ParseHabanaProfile, TakesTheFiveNamesAndNoOther) {
  EXPECT_THAT(
      Read("# Habana\n"
           "export GC_KERNEL_PATH=/usr/lib/habanalabs/libtpc_kernels.so\n"
           "export PATH=$PATH:/opt/habanalabs/bin\n"
           "HABANA_LOGS='/var/log/habana logs/'\n"
           "\texport DATA_LOADER_AEON_LIB_PATH=\"/usr/lib/habanalabs/libaeon.so\"  # media\n"
           "export HABANA_SCAL_BIN_PATH=/opt/habanalabs/engines_fw\r\n"
           "export HABANA_PLUGINS_LIB_PATH=/opt/habanalabs/habana_plugins"),
      ElementsAre(Pair("DATA_LOADER_AEON_LIB_PATH", "/usr/lib/habanalabs/libaeon.so"),
                  Pair("GC_KERNEL_PATH", "/usr/lib/habanalabs/libtpc_kernels.so"),
                  Pair("HABANA_LOGS", "/var/log/habana logs/"),
                  Pair("HABANA_PLUGINS_LIB_PATH", "/opt/habanalabs/habana_plugins"),
                  Pair("HABANA_SCAL_BIN_PATH", "/opt/habanalabs/engines_fw")));
}

TEST(ParseHabanaProfile, SaysWhereAValueIsFrom) {
  const std::vector<v1::EnvAssignment> read = ParseHabanaProfile("\n\nexport GC_KERNEL_PATH=/a\n");
  ASSERT_THAT(read, SizeIs(1));
  EXPECT_EQ(read[0].source(), "/etc/profile.d/habanalabs.sh:3");
  EXPECT_EQ(read[0].layer(), v1::ENV_LAYER_AGENT);
}

struct ProfileCase {
  const char* text;
  const char* value;  // of GC_KERNEL_PATH; null: left out
};

TEST(ParseHabanaProfile, ReadsValuesAsAShellWould) {
  const ProfileCase cases[] = {
      {"GC_KERNEL_PATH=", ""},
      {"GC_KERNEL_PATH=''", ""},
      {"GC_KERNEL_PATH=/a'b'\"c\"", "/abc"},
      {"GC_KERNEL_PATH=/a\\ b", "/a b"},
      {"GC_KERNEL_PATH='$HOME'", "$HOME"},
      {"GC_KERNEL_PATH=$HOME/a", "<HOME>/a"},
      {"GC_KERNEL_PATH=\"${HOME}/a\"", "<HOME>/a"},
      {"GC_KERNEL_PATH=~/a", "<~>/a"},
      {"GC_KERNEL_PATH=\"~/a\"", "~/a"},
      {"GC_KERNEL_PATH=/a#b", "/a#b"},
      {"GC_KERNEL_PATH=/a # why", "/a"},
      {"A=/x\nB=$A/y\nGC_KERNEL_PATH=${B}/z:$C", "/x/y/z:<C>"},
      {"GC_KERNEL_PATH=/a\nGC_KERNEL_PATH=$GC_KERNEL_PATH:/b", "/a:/b"},
      {"GC_KERNEL_PATH=/a\n# GC_KERNEL_PATH=/b", "/a"},
      {"if true; then\n  A=1\nfi\nGC_KERNEL_PATH=/a", "/a"},
      {"if true; then A=1; fi\nGC_KERNEL_PATH=/a", "/a"},
      {"export GC_KERNEL_PATH=/a\nexport GC_KERNEL_PATH", "/a"},
  };
  for (const ProfileCase& one : cases) {
    EXPECT_THAT(Read(one.text), ElementsAre(Pair("GC_KERNEL_PATH", one.value))) << one.text;
  }
}

TEST(ParseHabanaProfile, LeavesOutWhatOnlyAShellKnows) {
  for (const char* text : {
           "GC_KERNEL_PATH=$(find /)",
           "GC_KERNEL_PATH=`find /`",
           "GC_KERNEL_PATH=\"$(find /)\"",
           "GC_KERNEL_PATH=${A:-/a}",
           "GC_KERNEL_PATH=$1",
           "GC_KERNEL_PATH=/a; echo",
           "GC_KERNEL_PATH=/a && B=1",
           "GC_KERNEL_PATH=/a program",
           "GC_KERNEL_PATH=/a B=1",
           "GC_KERNEL_PATH='/a",
           "GC_KERNEL_PATH=/a\\",
           "GC_KERNEL_PATH=/*",
           "GC_KERNEL_PATH=/a:~/b",
           "GC_KERNEL_PATH=(/a)",
           "GC_KERNEL_PATH+=/a",
           "[ -d /a ] && export GC_KERNEL_PATH=/a",
           "if [ -d /a ]; then\nexport GC_KERNEL_PATH=/a\nfi",
           "GC_KERNEL_PATH=/a\nif [ -d /b ]; then\n  GC_KERNEL_PATH=/b\nfi",
           "GC_KERNEL_PATH=/a\n[ -d /b ] && GC_KERNEL_PATH=/b",
           "GC_KERNEL_PATH=/a\nunset GC_KERNEL_PATH",
           "set_it() {\nGC_KERNEL_PATH=/a\n}",
           "A=$(pwd)\nGC_KERNEL_PATH=$A/a",
           "A=\"x\nGC_KERNEL_PATH=/a\"",
           "A=x\\\nGC_KERNEL_PATH=/a",
           "cat << EOF\nGC_KERNEL_PATH=/a\nEOF",
           "case x in\nx) A=1 ;;\nesac\nGC_KERNEL_PATH=$A",
       }) {
    EXPECT_THAT(Read(text), IsEmpty()) << text;
  }
}

TEST(ParseHabanaProfile, IsNoPlaceToFillTheMemoryFrom) {
  std::string text = "A=aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 200; ++i) text += "A=$A$A\n";
  EXPECT_THAT(Read(text + "GC_KERNEL_PATH=$A"), IsEmpty());
}

TEST(ReadHabanaProfile, ReadsTheFileBelowTheRoot) {
  TempFolder root;
  EXPECT_THAT(ReadHabanaProfile(root.path()), IsEmpty());
  std::filesystem::create_directories(root.File("etc/profile.d/habanalabs.sh"));
  EXPECT_THAT(ReadHabanaProfile(root.path()), IsEmpty());
  std::filesystem::remove(root.File("etc/profile.d/habanalabs.sh"));
  std::ofstream(root.File("etc/profile.d/habanalabs.sh")) << "export HABANA_LOGS=/logs\n";
  EXPECT_THAT(ReadHabanaProfile(root.path()), SizeIs(1));
  std::ofstream(root.File("etc/profile.d/habanalabs.sh"))
      << std::string(70'000, '#') << "\nHABANA_LOGS=/logs\n";
  EXPECT_THAT(ReadHabanaProfile(root.path()), IsEmpty());
}

}  // namespace
}  // namespace muster
