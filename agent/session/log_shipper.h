// Replicates the frame files of ranks to the coordinator: knows how much of each file is there,
// sent and committed, and keeps the connection busy within its windows. Transport-free: bytes are
// read through SpoolReader and sent through LogSink. Lives on the loop thread; never blocks, except
// in the reads. It keeps nothing on disk: the coordinator tells the committed sizes on every
// connect.
//
// Connections come and go within a session: Callbacks::work says when one is needed. There is work
// as long as a file was not compared with the coordinator in this session, has bytes that are not
// committed, or was closed and is not known to be complete.
//
// Life of a connection:
//   OnConnected  -> LogHello with every file
//   response     -> committed size of a file: shipping of that file begins there
//   chunks       -> round robin over files, at most kMaxChunkBytes each and kWindowBytes in flight;
//                   only what is fixed (SpoolReader::Extent), everything once a file is closed
//   AddFiles     -> LogFile open; answered with its committed size
//   OnDisconnected -> what was sent and not committed is forgotten, and sent again from there
// A committed size that goes back, lies beyond the file, or before what the node still has, means a
// bug or two writers. It closes the connection with FAILED_PRECONDITION, the file is reported and
// left out from then on; the others go on with the next connection.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// Names one rank's frame file.
struct LogFileId {
  AttemptId attempt;
  uint32_t rank = 0;
  friend auto operator<=>(const LogFileId&, const LogFileId&) = default;
};

// Reads frame files. Lives on the loop thread.
class SpoolReader {
 public:
  // Which bytes of a file are there.
  struct Extent {
    // First byte that was not given up yet (holes are punched from the beginning).
    uint64_t begin = 0;
    // Size.
    uint64_t end = 0;
    // So many bytes from the beginning never change, those that are not written yet included; until
    // the file is closed nothing behind them may be read. Only grows.
    uint64_t fixed = UINT64_MAX;
  };
  virtual ~SpoolReader() = default;
  // A file that does not exist yet has the extent 0, 0. Re-reads the size every time.
  virtual absl::StatusOr<Extent> Stat(const LogFileId& file) = 0;
  // Reads up to `max_bytes` at `offset`; fewer at the end of the file.
  virtual absl::StatusOr<std::string> Read(const LogFileId& file, uint64_t offset,
                                           uint64_t max_bytes) = 0;
  // Bytes of one kind.
  struct Run {
    // All are known to be 0, without reading them.
    bool zeros = false;
    // So many at least.
    uint64_t bytes = UINT64_MAX;
  };
  // What begins at `offset`, below the end of the file.
  virtual Run RunAt(const LogFileId& /*file*/, uint64_t /*offset*/) { return {}; }
  // Nothing of this attempt will be read again: descriptors may be closed.
  virtual void Forget(const AttemptId& attempt) = 0;
};

// The transport's end of one log connection. Owned by the transport.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Send(v1::UploadLogsRequest request) = 0;
  // Ends the connection. The shipper does not use the sink afterwards; OnDisconnected may or may
  // not follow.
  virtual void Close(absl::Status status) = 0;
};

class LogShipper {
 public:
  static constexpr uint64_t kMaxChunkBytes = 256 * 1024;
  // Bytes sent and not yet committed, over all files.
  static constexpr uint64_t kWindowBytes = 8 * 1024 * 1024;
  // Fewer zeros are sent as they are.
  static constexpr uint64_t kLeastZeros = 64 * 1024;
  // While something of a file is on its way, less than this much new output waits for more ...
  static constexpr uint64_t kFlushBytes = 64 * 1024;
  // ... but no longer than this.
  static constexpr std::chrono::milliseconds kFlushDelay{20};
  // Sizes are re-read this often even when nobody says that a file grew.
  static constexpr std::chrono::milliseconds kPollInterval{1000};

  // What the shipper tells. Called on the loop thread, possibly from inside its methods.
  struct Callbacks {
    // The coordinator has stored `bytes` of the file. Goes to Launcher::Committed.
    std::function<void(const LogFileId& file, uint64_t bytes)> committed;
    // The file is closed and stored completely.
    std::function<void(const LogFileId& file)> complete;
    // The file will not be shipped any more; an operator must look.
    std::function<void(const LogFileId& file, const absl::Status& status)> failed;
    // The file cannot be read at present; it is tried again at every poll. Told once for each time.
    std::function<void(const LogFileId& file, const absl::Status& status)> unreadable;
    // There is something to ship, or not any more. Told when it changes, as the last thing that a
    // method does. May call OnConnected.
    std::function<void(bool work)> work;
  };

  // References and the callbacks' targets outlive the shipper.
  LogShipper(Executor& executor, NodeId node, SpoolReader& spool, Callbacks callbacks);
  ~LogShipper();
  LogShipper(const LogShipper&) = delete;
  LogShipper& operator=(const LogShipper&) = delete;

  // A session was accepted. Its coordinator may be another one: every file is compared anew.
  void OnSession(const std::string& session_id);
  // The session ended. A sink that is there is forgotten.
  void OnSessionLost();
  // A connection of the session is open. `sink` stays valid until OnDisconnected returned or Close
  // was called. A sink that was there before is forgotten.
  void OnConnected(LogSink* sink);
  // A message of the connection of the newest sink.
  void OnMessage(const v1::UploadLogsResponse& response);
  // The newest connection ended.
  void OnDisconnected();

  // The ranks of an attempt may write from now on. Known files are left as they are.
  void AddFiles(const AttemptId& attempt, const std::vector<uint32_t>& ranks);
  // The file is complete at `size` bytes.
  void OnClosed(const LogFileId& file, uint64_t size);
  // The file grew, or may have. Cheap; unknown files are ignored.
  void OnSpoolGrew(const LogFileId& file);
  // The attempt was released: its files are forgotten.
  void RemoveAttempt(const AttemptId& attempt);

  // Bytes known to exist and not known to be committed, over all files that are shipped.
  uint64_t pending_bytes() const;
  // True when the file is closed and stored completely.
  bool Complete(const LogFileId& file) const;

 private:
  struct File;

  void SchedulePump();
  void ScheduleFlush();
  void SchedulePoll();
  void Pump();
  void Poll();
  bool HasWork() const;
  void TellWork();
  bool SendSome(const LogFileId& id, File& file);
  void SendChunk(const LogFileId& id, File& file, std::string data, uint64_t zeros);
  void Restat(const LogFileId& id, File& file);
  void OnCommitted(const LogFileId& id, File& file, uint64_t bytes);
  void CheckComplete(const LogFileId& id, File& file);
  void Fail(const LogFileId& id, File& file, absl::Status status);
  void Unreadable(const LogFileId& id, File& file, const absl::Status& status);

  Executor& executor_;
  const NodeId node_;
  SpoolReader& spool_;
  Callbacks callbacks_;
  // Empty: no session.
  std::string session_id_;
  LogSink* sink_ = nullptr;
  // As it was told.
  bool work_ = false;
  std::map<LogFileId, File> files_;
  // Round robin: shipping goes on behind this file.
  LogFileId last_;
  // Sent on this connection and not committed.
  uint64_t in_flight_bytes_ = 0;
  bool pump_posted_ = false;
  Executor::TimerId flush_timer_ = 0;
  Executor::TimerId poll_timer_ = 0;
  // Posted tasks look here whether the shipper still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
