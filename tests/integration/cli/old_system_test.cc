// The programs run where the libraries are a little older than where they were built: Gaudi's
// images are Ubuntu 22.04.
#include <gtest/gtest.h>
#include <stdio.h>

#include <memory>
#include <regex>
#include <string>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::Sandbox;

std::string SymbolsOf(const std::string& program) {
  const std::string command = "objdump -T '" + Sandbox::Programs() + "/" + program + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  EXPECT_NE(pipe, nullptr);
  std::string text;
  char chunk[65536];
  for (size_t got = 0; (got = ::fread(chunk, 1, sizeof(chunk), pipe.get())) > 0;) {
    text.append(chunk, got);
  }
  return text;
}

TEST(OldSystem, ProgramsNeedNoNewerLibrariesThanUbuntu2204Has) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers need what they like";
#endif
  for (const char* program : {"agent", "coordinator"}) {
    const std::string symbols = SymbolsOf(program);
    ASSERT_NE(symbols.find("GLIBC_2."), std::string::npos) << program;
    const std::regex version("GLIBC_2\\.([0-9]+)");
    for (auto it = std::sregex_iterator(symbols.begin(), symbols.end(), version);
         it != std::sregex_iterator(); ++it) {
      EXPECT_LE(std::stoi((*it)[1]), 35) << program << " needs " << it->str();
    }
    EXPECT_EQ(symbols.find("OPENSSL_3.1"), std::string::npos) << program;
  }
}

}  // namespace
}  // namespace muster
