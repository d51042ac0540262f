// Finding libraries as the loader would, on this machine's own.
#include "agent/shim/elf_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/testing/temp_folder.h"

namespace muster::shim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Every program of the test suite needs it, and it needs the C library.
constexpr char kLibrary[] = "libstdc++.so.6";

TEST(FindLibrary, FindsOneOfTheSystemWithAllThatItNeeds) {
  const FoundLibrary found = FindLibrary(kLibrary, {});
  EXPECT_TRUE(std::filesystem::exists(found.file)) << found.file;
  EXPECT_THAT(found.missing, IsEmpty());
}

TEST(FindLibrary, TellsOneThatIsNotThere) {
  const FoundLibrary found = FindLibrary("libnothing.so", {});
  EXPECT_EQ(found.file, "");
  EXPECT_THAT(found.missing, ElementsAre("libnothing.so"));
}

TEST(FindLibrary, LooksIntoLdLibraryPathFirstAndTellsWhatIsNeededAndMissing) {
  const TempFolder folder;
  const std::string file = folder.File("libwrapper.so");
  std::filesystem::copy_file(FindLibrary(kLibrary, {}).file, file);
  LibrarySearch search;
  search.library_path = "/nowhere:" + folder.path();
  // Nothing of the system is in there.
  search.sysroot = folder.path();
  const FoundLibrary found = FindLibrary("libwrapper.so", search);
  EXPECT_EQ(found.file, file);
  EXPECT_THAT(found.missing, Contains("libc.so.6 (needed by libwrapper.so)"));
}

TEST(FindLibrary, EntriesMayBeRelativeToTheWorkingDirectory) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.File("lib"));
  std::filesystem::copy_file(FindLibrary(kLibrary, {}).file, folder.File("lib/libown.so"));
  LibrarySearch search;
  search.library_path = "lib";
  search.working_directory = folder.path();
  EXPECT_EQ(FindLibrary("libown.so", search).file, folder.path() + "/lib/libown.so");
}

TEST(FindLibrary, AFileThatIsNoLibraryIsTold) {
  const TempFolder folder;
  std::ofstream(folder.File("libtext.so")) << "INPUT(-lfoo)";
  LibrarySearch search;
  search.library_path = folder.path();
  EXPECT_THAT(FindLibrary("libtext.so", search).missing,
              ElementsAre("libtext.so, which is no library for this machine"));
}

TEST(ParseElfNeeds, BelievesNothingThatIsNotInTheFile) {
  EXPECT_FALSE(ParseElfNeeds(""));
  EXPECT_FALSE(ParseElfNeeds("\177ELF"));
  std::string bytes = ReadFile(FindLibrary(kLibrary, {}).file).substr(0, 4096);
  // Cut and damaged in every place of its headers: an answer or none, and nothing read elsewhere.
  for (size_t size = 0; size < bytes.size(); size += 7) {
    (void)ParseElfNeeds(std::string_view(bytes).substr(0, size));
  }
  for (size_t i = 0; i < 1024; ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(0xff);
    (void)ParseElfNeeds(damaged);
  }
}

}  // namespace
}  // namespace muster::shim
