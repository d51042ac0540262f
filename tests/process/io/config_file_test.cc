#include "common/io/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "common/base/annotate.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ConfigFile : public ::testing::Test {
 protected:
  std::string Find() {
    return FindConfigFile("test-daemon.yaml",
                          [this](const char* name) { return variables_[name]; });
  }
  void Write(const std::string& path, const std::string& text) const {
    std::ofstream(folder_.path() + "/" + path) << text;
  }

  TempFolder folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ConfigFile, IsFoundWhereItIs) {
  variables_["MUSTER_CONFIG_DIR"] = folder_.path();
  EXPECT_EQ(Find(), "");
  Write("test-daemon.yaml", "a: 1\n");
  EXPECT_EQ(Find(), folder_.path() + "/test-daemon.yaml");
  EXPECT_EQ(*ReadConfigFile(Find(), 100), "a: 1\n");
}

TEST_F(ConfigFile, OfAUserIsInTheFolderOfTheUser) {
  variables_["HOME"] = folder_.path();
  ::mkdir((folder_.path() + "/.config").c_str(), 0700);
  ::mkdir((folder_.path() + "/.config/muster").c_str(), 0700);
  Write(".config/muster/test-daemon.yaml", "");
  // Root has none of its own.
  EXPECT_EQ(Find(), ::geteuid() == 0 ? "" : folder_.path() + "/.config/muster/test-daemon.yaml");
}

TEST_F(ConfigFile, ThatCannotBeReadSaysWhy) {
  EXPECT_THAT(std::string(MessageOf(ReadConfigFile(folder_.path(), 100).status())),
              HasSubstr("Is a directory"));
  EXPECT_THAT(std::string(MessageOf(ReadConfigFile(folder_.path() + "/none", 100).status())),
              HasSubstr("No such file"));
}

TEST_F(ConfigFile, ThatIsTooLongIsNotReadToItsEnd) {
  Write("long", std::string(100'000, 'x'));
  EXPECT_THAT(*ReadConfigFile(folder_.path() + "/long", 10), SizeIs(::testing::Le(10'000)));
}

}  // namespace
}  // namespace muster
