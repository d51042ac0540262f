#include "agent/store/file_agent_store.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/base/annotate.h"
#include "common/io/atomic_file.h"
#include "common/io/little_endian.h"

namespace muster {
namespace {

constexpr size_t kSizeBytes = sizeof(uint32_t);
// Far above what compaction leaves, far below what hurts.
constexpr size_t kMaxJournalBytes = size_t{1} << 30;
// Damaged journals that are kept; of later ones only the last.
constexpr int kMaxAside = 8;

absl::Status ErrorOf(const std::error_code& error, std::string_view context) {
  return ErrnoStatus(error.value(), context);
}

absl::StatusOr<std::string> RandomId() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    return ErrnoStatus(errno, "getrandom");
  }
  std::string id;
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

// What `rest`, which does not begin with a whole record, is: the beginning of a record that was
// being written, or damage.
bool IsCutShort(std::string_view rest) {
  if (rest.size() < kRecordHeaderBytes) return true;
  const auto size = LoadLittleEndian<uint32_t>(rest.data());
  if (size <= kSizeBytes || size > kMaxRecordBytes) return false;
  rest.remove_prefix(kRecordHeaderBytes);
  // A whole record with a wrong checksum.
  if (rest.size() >= size) return false;
  return rest.size() < kSizeBytes || LoadLittleEndian<uint32_t>(rest.data()) == size;
}

}  // namespace

std::string EncodeJournalRecord(const internal::JournalRecord& record) {
  const std::string body = record.SerializeAsString();
  std::string payload(kSizeBytes, '\0');
  StoreLittleEndian(payload.data(), static_cast<uint32_t>(kSizeBytes + body.size()));
  payload += body;
  std::string encoded;
  AppendRecord(encoded, payload);
  return encoded;
}

absl::StatusOr<AgentState> ReadJournal(std::string_view bytes) {
  AgentState state;
  const size_t total = bytes.size();
  const auto damaged = [&](std::string_view what) {
    return absl::DataLossError(fmt::format("byte {}: {}", total - bytes.size(), what));
  };
  bool first = true;
  while (!bytes.empty()) {
    std::string_view rest = bytes;
    const std::optional<std::string_view> payload = TakeRecord(rest);
    if (!payload) {
      if (!IsCutShort(bytes)) return damaged("the record is damaged");
      break;
    }
    if (payload->size() < kSizeBytes ||
        LoadLittleEndian<uint32_t>(payload->data()) != payload->size()) {
      return damaged("the size of the record is wrong");
    }
    internal::JournalRecord record;
    if (!record.ParseFromArray(payload->data() + kSizeBytes,
                               static_cast<int>(payload->size() - kSizeBytes))) {
      return damaged("the record cannot be parsed");
    }
    // A snapshot is the first record and only that.
    if (first != record.has_snapshot()) return damaged("a snapshot is missing or out of place");
    const absl::Status applied = ApplyRecord(state, record);
    if (!applied.ok()) return damaged(MessageOf(applied));
    first = false;
    bytes = rest;
  }
  if (first) return damaged("there is no snapshot");
  return state;
}

FileAgentStore::FileAgentStore(std::string path) : path_(std::move(path)) {}

absl::StatusOr<OpenedJournal> FileAgentStore::Open(const std::string& boot_id) {
  std::string bytes;
  if (const std::error_code error = ReadFile(path_, bytes, kMaxJournalBytes)) {
    if (error.value() == ENOENT) return Begin(boot_id, 0, "");
    if (error.value() != EFBIG) return ErrorOf(error, fmt::format("cannot read {}", path_));
    bytes.clear();
  }
  absl::StatusOr<AgentState> state = ReadJournal(bytes);
  if (!state.ok()) {
    const absl::StatusOr<std::string> aside = PutAside();
    if (!aside.ok()) return aside.status();
    return Begin(boot_id, 0,
                 fmt::format("the journal was damaged, a new one is begun kept={} damage=\"{}\"",
                             *aside, MessageOf(state.status())));
  }
  if (state->boot_id != boot_id) {
    return Begin(boot_id, state->epoch,
                 fmt::format("the node has booted since the journal was written, attempts={} ended",
                             state->attempts.size()));
  }
  RecordLogEnd end;
  if (const std::error_code error = log_.Open(path_, end)) {
    return ErrorOf(error, fmt::format("cannot open {}", path_));
  }
  return OpenedJournal{*std::move(state), ""};
}

absl::StatusOr<OpenedJournal> FileAgentStore::Begin(const std::string& boot_id, uint64_t epoch,
                                                    std::string note) {
  absl::StatusOr<std::string> id = RandomId();
  if (!id.ok()) return id.status();
  OpenedJournal opened{FreshState(*std::move(id), boot_id), std::move(note)};
  opened.state.epoch = epoch;
  const absl::Status status = Rewrite(SnapshotOf(opened.state));
  if (!status.ok()) return status;
  return opened;
}

absl::StatusOr<std::string> FileAgentStore::PutAside() {
  std::string name;
  for (int i = 0; i < kMaxAside; ++i) {
    name = fmt::format("{}.damaged-{}", path_, i);
    struct stat status = {};
    if (::lstat(name.c_str(), &status) != 0 && errno == ENOENT) break;
  }
  if (std::rename(path_.c_str(), name.c_str()) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot rename {} to {}", path_, name));
  }
  return name;
}

absl::Status FileAgentStore::Append(const internal::JournalRecord& record) {
  if (!log_.is_open()) return absl::FailedPreconditionError("the journal is not open");
  const std::string encoded = EncodeJournalRecord(record);
  if (encoded.size() > kMaxRecordBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("a record of {} bytes is too large for the journal", encoded.size()));
  }
  if (const std::error_code error = log_.AppendEncoded(encoded)) {
    return ErrorOf(error, fmt::format("cannot write {}", path_));
  }
  return absl::OkStatus();
}

absl::Status FileAgentStore::Rewrite(const internal::JournalRecord& snapshot) {
  const std::string encoded = EncodeJournalRecord(snapshot);
  if (const std::error_code error =
          WriteFileAtomically(path_, encoded, 0600, Durability::kProcessCrash)) {
    return ErrorOf(error, fmt::format("cannot replace {}", path_));
  }
  RecordLogWriter fresh;
  RecordLogEnd end;
  const std::error_code error = fresh.Open(path_, end);
  // Without a descriptor of the new file nothing may be appended to the old one.
  log_ = std::move(fresh);
  if (error) return ErrorOf(error, fmt::format("cannot open {}", path_));
  return absl::OkStatus();
}

}  // namespace muster
