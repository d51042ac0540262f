// An append-only file of records: u32 length, u32 CRC-32 of the payload, payload; little endian, no
// file header. The writer owns its descriptor. The reader is tolerant: it returns the whole records
// from the start and tells how many bytes behind them are no record, which is what a crash in the
// middle of a write leaves; it never searches further. A payload is never empty, so that a region
// of zeros, which a power loss can leave, is no record. Not thread-safe; usable by any one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "common/io/unique_fd.h"

namespace muster {

inline constexpr size_t kRecordHeaderBytes = 8;
inline constexpr size_t kMaxRecordBytes = size_t{64} << 20;

// Appends one encoded record to `out`. `payload` must have 1 to kMaxRecordBytes bytes.
void AppendRecord(std::string& out, std::string_view payload);

// Takes the first record off `bytes` and returns its payload, which points into `bytes`. Nothing,
// with `bytes` unchanged, when it does not begin with a whole and correct record.
std::optional<std::string_view> TakeRecord(std::string_view& bytes);

// What reading a record log found.
struct RecordLogEnd {
  uint64_t records = 0;
  // Bytes of the whole records: where the next one belongs.
  uint64_t valid_bytes = 0;
  // Bytes behind them that are no record; 0 for a clean end.
  uint64_t torn_bytes = 0;
};

// Calls `visit` with the payload of every whole record, in order; a payload is valid during the
// call only. `visit` returns false to stop early (then `torn_bytes` is 0). Fails only when the file
// cannot be opened or read; a torn end is no failure.
[[nodiscard]] std::error_code ReadRecordLog(const std::string& path, RecordLogEnd& end,
                                            const std::function<bool(std::string_view)>& visit);
// The same from an open descriptor, beginning at byte `offset`; `valid_bytes` counts from the start
// of the file. The file position is neither used nor changed.
[[nodiscard]] std::error_code ReadRecordLog(int fd, uint64_t offset, RecordLogEnd& end,
                                            const std::function<bool(std::string_view)>& visit);

class RecordLogWriter {
 public:
  // Opens or creates (mode 0600) the file for appending, hands every record in it to `visit`, and
  // cuts a torn end off. `end` tells what was found. `visit` may be empty; its result is ignored.
  [[nodiscard]] std::error_code Open(const std::string& path, RecordLogEnd& end,
                                     const std::function<bool(std::string_view)>& visit = {});

  // Reserves blocks for `bytes` from the start without changing the size, so that later appends
  // work on a full disk. Callers usually go on when it fails.
  [[nodiscard]] std::error_code Preallocate(uint64_t bytes);

  // Appends one record with one write. After an error the log is as before (what was written of the
  // record is cut off, or overwritten by the next append) and the call may be repeated.
  [[nodiscard]] std::error_code Append(std::string_view payload);
  // Appends what AppendRecord has built, any number of records, with one write and the same
  // guarantee.
  [[nodiscard]] std::error_code AppendEncoded(std::string_view records);

  // Makes everything appended durable (fdatasync).
  [[nodiscard]] std::error_code Sync();

  bool is_open() const { return fd_.valid(); }
  // Bytes of the whole records.
  uint64_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  uint64_t size_bytes_ = 0;
};

}  // namespace muster
