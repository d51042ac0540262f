#include "common/base/signal_names.h"

#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <cstring>

namespace muster {

std::string SignalName(int signal) {
  if (signal > 0 && signal < NSIG) {
    if (const char* name = sigabbrev_np(signal)) return fmt::format("SIG{}", name);
  }
  return fmt::format("signal {}", signal);
}

std::optional<int> ParseSignal(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (number > 0 && number < NSIG) return number;
    return std::nullopt;
  }
  std::string upper;
  for (char c : text) upper.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  if (upper.starts_with("SIG")) upper.erase(0, 3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = sigabbrev_np(signal);
    if (name != nullptr && upper == name) return signal;
  }
  return std::nullopt;
}

}  // namespace muster
