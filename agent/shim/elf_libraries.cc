#include "agent/shim/elf_libraries.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <utility>

#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxLibraries = 200;
constexpr size_t kMaxEntries = 10'000;
constexpr size_t kMaxMissing = 20;
// Of Debian, Red Hat and their like.
constexpr std::array<std::string_view, 6> kSystemDirectories = {"/lib/x86_64-linux-gnu",
                                                                "/usr/lib/x86_64-linux-gnu",
                                                                "/lib64",
                                                                "/usr/lib64",
                                                                "/lib",
                                                                "/usr/lib"};

// A copy of a value inside `bytes`; nothing when it is not wholly inside.
template <typename T>
std::optional<T> ReadAt(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string TextAt(std::string_view bytes, uint64_t offset) {
  if (offset >= bytes.size()) return "";
  const std::string_view rest = bytes.substr(offset, 4096);
  return std::string(rest.substr(0, rest.find('\0')));
}

// Where an address of the program lies in its file.
std::optional<uint64_t> OffsetOf(uint64_t address, const std::vector<Elf64_Phdr>& segments) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

std::vector<std::string> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Directory(const std::string& file) { return file.substr(0, file.rfind('/')); }

void ReplaceOrigin(std::string& path, const std::string& origin) {
  for (const std::string_view name : {"${ORIGIN}", "$ORIGIN"}) {
    for (size_t at = path.find(name); at != std::string::npos; at = path.find(name)) {
      path.replace(at, name.size(), origin);
    }
  }
}

bool IsFile(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::optional<std::string> ReadWhole(const std::string& path, size_t most) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string bytes;
  std::string chunk(size_t{1} << 20, '\0');
  while (bytes.size() < most) {
    const ssize_t count = ::read(fd.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return bytes;
    bytes.append(chunk, 0, static_cast<size_t>(count));
  }
  return std::nullopt;
}

// Where libraries are looked for. What ld.so.conf includes is taken to be ld.so.conf.d/*.conf.
class Directories {
 public:
  explicit Directories(const LibrarySearch& search) : search_(search) {
    if (!search.library_path.empty()) {
      for (std::string& entry : Split(search.library_path, ":;")) {
        path_.push_back(entry.empty()          ? search.working_directory
                        : entry.front() == '/' ? entry
                                               : search.working_directory + "/" + entry);
      }
    }
    for (const std::string_view directory : kSystemDirectories) {
      system_.push_back(search.sysroot + std::string(directory));
    }
    AddConfig(search.sysroot + "/etc/ld.so.conf", 0);
  }

  // The file of `name`, needed by `user`, which has `run_path`; empty: there is none.
  std::string Find(const std::string& name, const std::string& user,
                   const std::string& run_path) const {
    if (name.find('/') != std::string::npos) return IsFile(name) ? name : "";
    std::vector<std::string> directories = path_;
    if (!run_path.empty()) {
      for (std::string& entry : Split(run_path, ":")) {
        ReplaceOrigin(entry, Directory(user));
        directories.push_back(std::move(entry));
      }
    }
    directories.insert(directories.end(), system_.begin(), system_.end());
    for (const std::string& directory : directories) {
      const std::string file = directory + "/" + name;
      if (IsFile(file)) return file;
    }
    return "";
  }

 private:
  void AddConfig(const std::string& file, int depth);

  const LibrarySearch& search_;
  std::vector<std::string> path_;
  std::vector<std::string> system_;
};

}  // namespace

std::optional<ElfNeeds> ParseElfNeeds(std::string_view bytes) {
  const std::optional<Elf64_Ehdr> header = ReadAt<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  std::vector<Elf64_Phdr> segments;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = ReadAt<Elf64_Phdr>(bytes, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    segments.push_back(*segment);
  }
  ElfNeeds needs;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    std::vector<uint64_t> names;
    std::optional<uint64_t> strings;
    std::optional<uint64_t> runpath;
    std::optional<uint64_t> rpath;
    for (uint64_t i = 0; i < segment.p_filesz / sizeof(Elf64_Dyn) && i < kMaxEntries; ++i) {
      const auto entry = ReadAt<Elf64_Dyn>(bytes, segment.p_offset + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) strings = OffsetOf(entry->d_un.d_ptr, segments);
      if (entry->d_tag == DT_RUNPATH) runpath = entry->d_un.d_val;
      if (entry->d_tag == DT_RPATH) rpath = entry->d_un.d_val;
    }
    if (!strings) return names.empty() ? std::optional(needs) : std::nullopt;
    for (const uint64_t name : names) needs.needed.push_back(TextAt(bytes, *strings + name));
    if (runpath || rpath) needs.run_path = TextAt(bytes, *strings + (runpath ? *runpath : *rpath));
    return needs;
  }
  return needs;
}

void Directories::AddConfig(const std::string& file, int depth) {
  constexpr size_t kMaxConfigBytes = 64 * 1024;
  const std::optional<std::string> text = ReadWhole(file, kMaxConfigBytes);
  if (!text || depth > 1) return;
  for (const std::string& line : Split(*text, "\n")) {
    if (line.starts_with('/')) system_.push_back(search_.sysroot + line);
  }
  if (depth > 0) return;
  DIR* const folder = ::opendir((file + ".d").c_str());
  if (folder == nullptr) return;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(".conf")) AddConfig(file + ".d/" + std::string(name), depth + 1);
  }
  ::closedir(folder);
}

FoundLibrary FindLibrary(const std::string& name, const LibrarySearch& search) {
  struct Wanted {
    std::string name;
    std::string user;
    std::string run_path;
  };
  const Directories directories(search);
  FoundLibrary found;
  std::set<std::string> seen = {name};
  std::deque<Wanted> queue = {{name, "", ""}};
  const auto miss = [&](const Wanted& wanted, const char* why) {
    if (found.missing.size() >= kMaxMissing) return;
    found.missing.push_back(wanted.user.empty()
                                ? wanted.name + why
                                : wanted.name + why + " (needed by " +
                                      wanted.user.substr(wanted.user.rfind('/') + 1) + ")");
  };
  while (!queue.empty() && seen.size() < kMaxLibraries) {
    const Wanted wanted = std::move(queue.front());
    queue.pop_front();
    const std::string file = directories.Find(wanted.name, wanted.user, wanted.run_path);
    if (wanted.user.empty()) found.file = file;
    if (file.empty()) {
      miss(wanted, "");
      continue;
    }
    const std::optional<std::string> bytes = ReadWhole(file, kMaxFileBytes);
    const std::optional<ElfNeeds> needs = bytes ? ParseElfNeeds(*bytes) : std::nullopt;
    if (!needs) {
      miss(wanted, bytes ? ", which is no library for this machine" : ", which cannot be read");
      continue;
    }
    for (const std::string& needed : needs->needed) {
      if (!needed.empty() && seen.insert(needed).second) {
        queue.push_back({needed, file, needs->run_path});
      }
    }
  }
  return found;
}

}  // namespace muster::shim
