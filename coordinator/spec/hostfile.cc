#include "coordinator/spec/hostfile.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/config/text.h"
#include "coordinator/spec/host_list.h"
#include "coordinator/spec/host_name.h"

namespace muster {
namespace {

constexpr size_t kMaxHostfileBytes = 16 << 20;
constexpr std::string_view kForm = "expected 'host slots=N'";

// Keys that no grammar knows, with the first line that has them and the number of such lines.
struct Ignored {
  int line = 0;
  size_t times = 0;
};
using IgnoredKeys = std::map<std::string, Ignored>;

// Reads one line, which has no comment any more.
class LineParser {
 public:
  LineParser(std::string_view text, std::string_view file, int line, IgnoredKeys& ignored,
             Diagnostics& diagnostics)
      : rest_(text), file_(file), ignored_(ignored), diagnostics_(diagnostics) {
    result_.line = line;
  }

  // The line, or nothing when it is blank or has an error, which then was reported.
  std::optional<HostLine> Parse() {
    SkipBlanks();
    if (rest_.empty()) return std::nullopt;
    if (CheckBytes()) {
      result_.host = TakeUntil(" \t");
      SkipBlanks();
      while (!rest_.empty()) ParsePair();
      ReportUnknownKeys();
    }
    if (!ok_) return std::nullopt;
    return std::move(result_);
  }

 private:
  void Error(std::string message) {
    diagnostics_.Error(file_, result_.line, std::move(message));
    ok_ = false;
  }

  void SkipBlanks() {
    while (!rest_.empty() && IsBlank(rest_.front())) rest_.remove_prefix(1);
  }

  std::string_view TakeUntil(std::string_view stops) {
    const std::string_view taken = rest_.substr(0, rest_.find_first_of(stops));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  bool CheckBytes() {
    for (const char c : rest_) {
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F) {
        Error(fmt::format("control character {} in the line", Quoted({&c, 1})));
        return false;
      }
    }
    return true;
  }

  // `key = value` with blanks allowed around `=`.
  void ParsePair() {
    const std::string_view key = TakeUntil(" \t=");
    SkipBlanks();
    if (!rest_.starts_with('=')) {
      const bool number = ParseNumber(key, kMaxSlotsPerHost).has_value();
      Error(fmt::format("{}, found {}{}", kForm, Quoted(key),
                        number ? fmt::format(" (write slots={})", key) : ""));
      return;
    }
    rest_.remove_prefix(1);
    SkipBlanks();
    const std::string_view value = TakeUntil(" \t");
    SkipBlanks();
    if (key.empty()) return Error(fmt::format("{}, found '=' without a name", kForm));
    if (value.empty()) return Error(fmt::format("{} has no value", Quoted(key)));
    const std::string canonical = key == "max-slots" ? "max_slots" : std::string(key);
    if (!keys_.insert(canonical).second)
      return Error(fmt::format("{} is given twice", Quoted(key)));
    Accept(canonical, value);
  }

  void Accept(const std::string& key, std::string_view value) {
    if (key == "slots") {
      result_.slots = ParseCount(key, value);
    } else if (key == "max_slots") {
      result_.max_slots = ParseCount(key, value);
    } else if (key == "modules") {
      const std::string problem = ParseSlotList(value, kMaxSlotsPerHost, result_.modules);
      if (!problem.empty()) Error("modules: " + problem);
    } else if (key == "addr") {
      result_.address = ParseOneHost(value);
      if (result_.address.empty())
        Error(fmt::format("addr: {} is no host name or address", Quoted(value)));
    } else if (key == "port") {
      // An SSH port in the dialects that have it.
      if (!ParseNumber(value, 65535))
        Error(fmt::format("port: {} is no port number", Quoted(value)));
    } else {
      unknown_keys_.push_back(key);
    }
  }

  std::optional<uint32_t> ParseCount(std::string_view key, std::string_view value) {
    const std::optional<uint64_t> count = ParseNumber(value, kMaxSlotsPerHost);
    if (count) return static_cast<uint32_t>(*count);
    if (value.starts_with('-') && ParseNumber(value.substr(1), UINT64_MAX)) {
      Error(fmt::format("{} must be at least 1, got {}", key, Printable(value, 20)));
    } else if (value.find_first_not_of("0123456789") == std::string_view::npos) {
      Error(fmt::format("{} must be at most {}, got {}", key, kMaxSlotsPerHost,
                        Printable(value, 20)));
    } else {
      Error(fmt::format("{} must be a whole number, got {}", key, Quoted(value)));
    }
    return std::nullopt;
  }

  // Other tools keep notes of their own in hostfiles. Without slots, though, an unknown key is most
  // likely meant to be it: `lots=8` and `gpus=8` must not become a host with all of its slots.
  void ReportUnknownKeys() {
    if (!ok_) return;
    for (const std::string& key : unknown_keys_) {
      if (keys_.contains("slots")) {
        Ignored& ignored = ignored_[key];
        if (ignored.times++ == 0) ignored.line = result_.line;
      } else {
        Error(fmt::format("{}, found unknown key {} (write slots=N)", kForm, Quoted(key)));
      }
    }
  }

  std::string_view rest_;
  std::string_view file_;
  IgnoredKeys& ignored_;
  Diagnostics& diagnostics_;
  HostLine result_;
  std::set<std::string> keys_;
  std::vector<std::string> unknown_keys_;
  bool ok_ = true;
};

}  // namespace

std::vector<v1::HostEntry> ParseHostfile(std::string_view text, std::string_view file,
                                         Diagnostics& diagnostics) {
  const std::optional<std::string_view> body = TextBody(text, file, kMaxHostfileBytes, diagnostics);
  if (!body) return {};
  HostList hosts(file, diagnostics);
  bool any = false;
  IgnoredKeys ignored;
  int line = 0;
  for (std::string_view rest = *body; !rest.empty();) {
    const size_t newline = rest.find('\n');
    std::string_view content = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    ++line;
    if (content.ends_with('\r')) content.remove_suffix(1);
    content = Trim(content.substr(0, content.find('#')));
    if (content.empty()) continue;
    any = true;
    if (std::optional<HostLine> parsed =
            LineParser(content, file, line, ignored, diagnostics).Parse()) {
      hosts.Add(*parsed);
    }
  }
  for (const auto& [key, where] : ignored) {
    diagnostics.Warn(
        file, where.line,
        fmt::format(
            "{} is not known and ignored{}", Quoted(key),
            where.times > 1 ? fmt::format(" (here and on {} more lines)", where.times - 1) : ""));
  }
  if (!any) {
    diagnostics.Error(file, 0, "the hostfile names no host (write one 'host slots=N' per line)");
  }
  return hosts.Finish();
}

}  // namespace muster
