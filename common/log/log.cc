#include "common/log/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>

#include "common/base/annotate.h"

namespace muster {
namespace {

// Appends each line with one write(2), so that lines of several processes do not mix.
class FdSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // `fd` stays open for the life of the process.
  explicit FdSink(int fd) : fd_(fd) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* data = line.data();
    size_t left = line.size();
    while (left > 0) {
      const ssize_t n = ::write(fd_, data, left);
      if (n < 0 && errno == EINTR) continue;
      // A full disk or a closed pipe: the line is lost, the program goes on.
      if (n <= 0) return;
      data += n;
      left -= static_cast<size_t>(n);
    }
  }
  void flush_() override {}

  const int fd_;
};

std::optional<spdlog::level::level_enum> ParseLevel(const std::string& text) {
  if (text == "trace") return spdlog::level::trace;
  if (text == "debug") return spdlog::level::debug;
  if (text == "info") return spdlog::level::info;
  if (text == "warn" || text == "warning") return spdlog::level::warn;
  if (text == "error") return spdlog::level::err;
  if (text == "off") return spdlog::level::off;
  return std::nullopt;
}

}  // namespace

bool IsLogLevel(const std::string& text) { return ParseLevel(text).has_value(); }

absl::Status SetUpLog(const LogOptions& options) {
  absl::Status status;
  int fd = STDERR_FILENO;
  if (!options.file.empty()) {
    fd = ::open(options.file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
      status = ErrnoStatus(errno, fmt::format("log file {}", options.file));
      fd = STDERR_FILENO;
    }
  }
  const char* asked = getenv("MUSTER_LOG");
  const std::string level_text = asked != nullptr && *asked != 0 ? asked : options.level;
  const auto level = ParseLevel(level_text);
  if (!level.has_value() && status.ok()) {
    status = absl::InvalidArgumentError(
        fmt::format("log level '{}' is not known: use {}", level_text, kLogLevels));
  }
  auto logger = std::make_shared<spdlog::logger>("muster", std::make_shared<FdSink>(fd));
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%fZ %-5l %v", spdlog::pattern_time_type::utc));
  logger->set_level(level.value_or(spdlog::level::info));
  // A bad format string must not reach stderr of a user's command either.
  logger->set_error_handler([](const std::string&) {});
  spdlog::set_default_logger(std::move(logger));
  return status;
}

std::string LogQuoted(std::string_view value) {
  bool plain = !value.empty();
  for (const unsigned char c : value) {
    if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') plain = false;
  }
  if (plain) return std::string(value);
  std::string out = "\"";
  for (const unsigned char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < ' ' || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
  return out;
}

}  // namespace muster
