#include "common/io/record_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/io/crc32.h"
#include "common/io/little_endian.h"

namespace muster {
namespace {

constexpr size_t kReadChunkBytes = size_t{256} << 10;

std::error_code LastError() { return {errno, std::generic_category()}; }

}  // namespace

void AppendRecord(std::string& out, std::string_view payload) {
  char header[kRecordHeaderBytes];
  StoreLittleEndian(header, static_cast<uint32_t>(payload.size()));
  StoreLittleEndian(header + 4, Crc32(payload));
  out.append(header, sizeof(header));
  out.append(payload);
}

std::optional<std::string_view> TakeRecord(std::string_view& bytes) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  const auto length = LoadLittleEndian<uint32_t>(bytes.data());
  if (length == 0 || length > kMaxRecordBytes) return std::nullopt;
  if (bytes.size() - kRecordHeaderBytes < length) return std::nullopt;
  const std::string_view payload = bytes.substr(kRecordHeaderBytes, length);
  if (LoadLittleEndian<uint32_t>(bytes.data() + 4) != Crc32(payload)) return std::nullopt;
  bytes.remove_prefix(kRecordHeaderBytes + length);
  return payload;
}

std::error_code ReadRecordLog(int fd, uint64_t offset, RecordLogEnd& end,
                              const std::function<bool(std::string_view)>& visit) {
  end = {};
  end.valid_bytes = offset;
  std::string held;
  uint64_t position = offset;
  while (true) {
    const size_t before = held.size();
    held.resize(before + kReadChunkBytes);
    const ssize_t count =
        ::pread(fd, held.data() + before, kReadChunkBytes, static_cast<off_t>(position));
    if (count < 0) {
      if (errno != EINTR) return LastError();
      held.resize(before);
      continue;
    }
    held.resize(before + static_cast<size_t>(count));
    position += static_cast<uint64_t>(count);
    std::string_view rest = held;
    while (const std::optional<std::string_view> payload = TakeRecord(rest)) {
      ++end.records;
      end.valid_bytes += kRecordHeaderBytes + payload->size();
      if (visit && !visit(*payload)) return {};
    }
    held.erase(0, held.size() - rest.size());
    if (count == 0) break;
    // A length that no record has: nothing behind it can be read, so do not hold the rest of the
    // file.
    if (held.size() >= kRecordHeaderBytes) {
      const auto length = LoadLittleEndian<uint32_t>(held.data());
      const bool whole = held.size() - kRecordHeaderBytes >= length;
      if (length == 0 || length > kMaxRecordBytes || whole) break;
    }
  }
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return LastError();
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  end.torn_bytes = file_bytes > end.valid_bytes ? file_bytes - end.valid_bytes : 0;
  return {};
}

std::error_code ReadRecordLog(const std::string& path, RecordLogEnd& end,
                              const std::function<bool(std::string_view)>& visit) {
  end = {};
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return LastError();
  return ReadRecordLog(fd.get(), 0, end, visit);
}

std::error_code RecordLogWriter::Open(const std::string& path, RecordLogEnd& end,
                                      const std::function<bool(std::string_view)>& visit) {
  end = {};
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return LastError();
  const auto visit_all = [&visit](std::string_view payload) {
    if (visit) (void)visit(payload);
    return true;
  };
  if (const std::error_code error = ReadRecordLog(fd.get(), 0, end, visit_all)) return error;
  if (end.torn_bytes != 0 && ::ftruncate(fd.get(), static_cast<off_t>(end.valid_bytes)) != 0) {
    return LastError();
  }
  fd_ = std::move(fd);
  size_bytes_ = end.valid_bytes;
  return {};
}

std::error_code RecordLogWriter::Preallocate(uint64_t bytes) {
  if (::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0) {
    return LastError();
  }
  return {};
}

std::error_code RecordLogWriter::Append(std::string_view payload) {
  std::string record;
  record.reserve(kRecordHeaderBytes + payload.size());
  AppendRecord(record, payload);
  return AppendEncoded(record);
}

std::error_code RecordLogWriter::AppendEncoded(std::string_view records) {
  size_t done = 0;
  while (done < records.size()) {
    const ssize_t count = ::pwrite(fd_.get(), records.data() + done, records.size() - done,
                                   static_cast<off_t>(size_bytes_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::error_code error =
          count < 0 ? LastError() : std::error_code(ENOSPC, std::generic_category());
      // Should this fail too, readers see a torn end, and the next append writes over it.
      if (done > 0) (void)!::ftruncate(fd_.get(), static_cast<off_t>(size_bytes_));
      return error;
    }
    done += static_cast<size_t>(count);
  }
  size_bytes_ += records.size();
  return {};
}

std::error_code RecordLogWriter::Sync() {
  while (::fdatasync(fd_.get()) != 0) {
    if (errno != EINTR) return LastError();
  }
  return {};
}

}  // namespace muster
