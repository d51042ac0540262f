// The per-rank log files of `--log_dir D`: `D/<job id>/rank_N.log` holds both streams of rank N in
// order, byte for byte, and `D/latest` points at the newest job. Owns the open files. For one
// thread at a time, but for `missing_bytes`. A write error never ends anything: it is told once and
// what is missing is counted.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/unique_fd.h"
#include "coordinator/cli/log_demux.h"

namespace muster {

// Makes `directory` with its parents when it is missing and tries that files can be made in it. The
// message of an error names it. Changes nothing else.
absl::Status PrepareLogDirectory(const std::string& directory);

class RankFiles final : public FrameSink {
 public:
  // Tells the user about the first write error.
  using OnTrouble = std::function<void(const std::string& message)>;

  // Makes the job's folder and points `latest` at it. A failure is told and leaves an object that
  // counts everything as missing.
  RankFiles(const std::string& directory, const std::string& job_id, OnTrouble on_trouble);

  void Take(const v1::ReadLogsResponse& piece);
  // Makes the files of ranks that wrote nothing, writes what is still held, closes everything.
  void Finish(uint32_t rank_count);

  // D/<job id>.
  const std::string& folder() const { return folder_; }
  // Bytes of output that are missing from the files: not written, dropped at the source, or lost on
  // the way. Thread-safe.
  uint64_t missing_bytes() const { return missing_bytes_; }

  void OnFrame(uint32_t rank, const Frame& frame) override;
  void OnRankEnd(uint32_t rank, uint64_t missing_bytes) override;
  void OnDamage(uint32_t rank, uint64_t offset) override;
  void OnNewAttempt(uint32_t rank) override;

 private:
  struct File {
    UniqueFd fd;
    bool created = false;
  };

  std::string PathOf(uint32_t rank) const;
  int Open(uint32_t rank);
  void WriteBatch();
  void Trouble(const absl::Status& status);

  const OnTrouble on_trouble_;
  std::string folder_;
  bool usable_ = false;
  bool told_ = false;
  LogDemux demux_;
  absl::flat_hash_map<uint32_t, File> files_;
  size_t open_files_ = 0;
  // Payloads of one rank, pointing into the piece that is being taken.
  uint32_t batch_rank_ = 0;
  bool first_frame_ = true;
  bool batching_ = true;
  std::vector<std::string_view> batch_;
  std::atomic<uint64_t> missing_bytes_ = 0;
};

}  // namespace muster
