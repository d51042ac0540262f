#include "coordinator/daemon/local_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;

struct Piece {
  std::string source;
  std::string target;
};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsJobId(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool IsRankLog(std::string_view name) {
  constexpr std::string_view kBegin = "rank-";
  constexpr std::string_view kEnd = ".log";
  return name.starts_with(kBegin) && name.ends_with(kEnd) &&
         IsNumber(name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()));
}

// 0 for what is no file.
uint64_t SizeOf(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<uint64_t>(info.st_size);
}

// Files of the attempt in nodes/<n>/attempts/<job>.<attempt> that are longer than the stored ones.
void FindPieces(const std::string& folder, const fs::path& attempt, std::vector<Piece>& pieces) {
  const std::string name = attempt.filename().string();
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return;
  const std::string job = name.substr(0, dot);
  const std::string number = name.substr(dot + 1);
  if (!IsJobId(job) || !IsNumber(number)) return;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(attempt, error)) {
    const std::string log = file.path().filename().string();
    if (!IsRankLog(log)) continue;
    Piece piece{file.path().string(), fmt::format("{}/logs/{}/{}/{}", folder, job, number, log)};
    if (SizeOf(piece.source) > SizeOf(piece.target)) pieces.push_back(std::move(piece));
  }
}

std::vector<Piece> FindPieces(const std::string& folder) {
  std::vector<Piece> pieces;
  std::error_code error;
  for (const fs::directory_entry& node : fs::directory_iterator(folder + "/nodes", error)) {
    std::error_code none;
    for (const fs::directory_entry& attempt :
         fs::directory_iterator(node.path() / "attempts", none)) {
      FindPieces(folder, attempt.path(), pieces);
    }
  }
  return pieces;
}

absl::Status MakeFolderOf(const std::string& path) {
  const fs::path attempt = fs::path(path).parent_path();
  for (const fs::path& part : {attempt.parent_path(), attempt}) {
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, fmt::format("make directory {}", part.string()));
    }
  }
  return absl::OkStatus();
}

absl::Status Continue(const Piece& piece, char* buffer) {
  const UniqueFd source(::open(piece.source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!source) return ErrnoStatus(errno, fmt::format("open {}", piece.source));
  absl::Status made = MakeFolderOf(piece.target);
  if (!made.ok()) return made;
  const UniqueFd target(
      ::open(piece.target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!target) return ErrnoStatus(errno, fmt::format("open {}", piece.target));
  off_t offset = ::lseek(target.get(), 0, SEEK_END);
  if (offset < 0) return ErrnoStatus(errno, fmt::format("look at {}", piece.target));
  // The node gives up only what is stored. A hole here is none of its files. Where the file system
  // knows no holes there is none.
  const off_t data = ::lseek(source.get(), offset, SEEK_DATA);
  if (data > offset || (data < 0 && errno == ENXIO)) return absl::OkStatus();
  for (;;) {
    const ssize_t got = ::pread(source.get(), buffer, kBufferBytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("read {}", piece.source));
    if (got == 0) return absl::OkStatus();
    for (ssize_t done = 0; done < got;) {
      const ssize_t n =
          ::pwrite(target.get(), buffer + done, static_cast<size_t>(got - done), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return ErrnoStatus(n < 0 ? errno : ENOSPC, fmt::format("write {}", piece.target));
      done += n;
      offset += n;
    }
  }
}

}  // namespace

absl::Status RecoverLocalOutput(const std::string& folder) {
  if (FindPieces(folder).empty()) return absl::OkStatus();
  // Of the folder itself: its file `lock` is shared with other readers.
  const std::string nodes = folder + "/nodes";
  const UniqueFd lock(::open(nodes.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) {
    return ErrnoStatus(errno, fmt::format("lock {}", nodes));
  }
  const std::unique_ptr<char[]> buffer(new char[kBufferBytes]);
  absl::Status first;
  // Again: somebody else may have done it meanwhile.
  for (const Piece& piece : FindPieces(folder)) first.Update(Continue(piece, buffer.get()));
  return first;
}

}  // namespace muster
