// A machine that a test furnishes: a folder with files of /proc and /sys, variables, interfaces.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/checks/quick_checks.h"
#include "tests/testing/temp_folder.h"

namespace muster::testing {

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() { context_.sysroot = folder_.path(); }

  void Put(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void AddInterface(const std::string& name, const std::string& ipv4, bool up = true,
                    const std::string& driver = "") {
    NetworkInterface one;
    one.name = name;
    one.up = up;
    one.loopback = name == "lo";
    if (!ipv4.empty()) one.ipv4.push_back(ipv4);
    one.driver = driver;
    context_.interfaces.push_back(one);
  }
  // The result of one check; SKIPPED when it does not apply.
  v1::CheckResult Run(const std::string& name) {
    for (const QuickCheck& check : QuickChecks()) {
      if (check.name != name) continue;
      if (check.applies(context_)) return check.run(context_);
      return MakeResult(name, v1::SKIPPED, "", "");
    }
    ADD_FAILURE() << "there is no check " << name;
    return {};
  }
  v1::Verdict VerdictOf(const std::string& name) { return Run(name).verdict(); }
  static v1::Verdict VerdictOf(const v1::CheckResult& result) { return result.verdict(); }

  TempFolder folder_;
  CheckContext context_;
};

}  // namespace muster::testing
