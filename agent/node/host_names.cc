#include "agent/node/host_names.h"

#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <vector>

namespace muster {
namespace {

// What one look-up needs for as long as the resolver's thread may touch it.
struct Lookup {
  std::string name;
  addrinfo hints = {};
  gaicb request = {};
};

bool HasDot(std::string_view name) { return name.find('.') != std::string_view::npos; }

}  // namespace

std::string KernelHostname() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::string FqdnFromHostsFile(std::string_view hosts_text, std::string_view hostname) {
  const std::string prefix = std::string(hostname) + ".";
  while (!hosts_text.empty()) {
    const size_t end = std::min(hosts_text.find('\n'), hosts_text.size());
    std::string_view line = hosts_text.substr(0, end);
    hosts_text.remove_prefix(std::min(end + 1, hosts_text.size()));
    line = line.substr(0, line.find('#'));
    bool first = true;  // The address.
    bool ours = false;
    std::string_view qualified;
    while (true) {
      const size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string_view::npos) break;
      line.remove_prefix(begin);
      const size_t length = std::min(line.find_first_of(" \t\r"), line.size());
      const std::string_view word = line.substr(0, length);
      line.remove_prefix(length);
      if (!first) {
        ours = ours || word == hostname || word.starts_with(prefix);
        if (qualified.empty() && HasDot(word)) qualified = word;
      }
      first = false;
    }
    if (ours && !qualified.empty()) return std::string(qualified);
  }
  return "";
}

std::string FqdnFromResolver(const std::string& hostname, std::chrono::milliseconds limit) {
  auto lookup = std::make_unique<Lookup>();
  lookup->name = hostname;
  lookup->hints.ai_flags = AI_CANONNAME;
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->request.ar_name = lookup->name.c_str();
  lookup->request.ar_request = &lookup->hints;
  gaicb* list[1] = {&lookup->request};
  if (::getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr) != 0) return "";
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (::gai_error(list[0]) == EAI_INPROGRESS) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) break;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait = {static_cast<time_t>(ns / 1'000'000'000),
                           static_cast<long>(ns % 1'000'000'000)};
    // EAI_INTR and EAI_AGAIN: the loop decides by the clock.
    (void)::gai_suspend(list, 1, &wait);
  }
  const int result = ::gai_error(list[0]);
  if (result == EAI_INPROGRESS && ::gai_cancel(list[0]) != EAI_CANCELED) {
    // The resolver's thread still writes there, for as long as the name server keeps it waiting.
    static std::vector<std::unique_ptr<Lookup>>* abandoned =
        new std::vector<std::unique_ptr<Lookup>>();
    abandoned->push_back(std::move(lookup));
    return "";
  }
  std::string name;
  if (addrinfo* answer = lookup->request.ar_result; result == 0 && answer != nullptr) {
    if (answer->ai_canonname != nullptr && HasDot(answer->ai_canonname))
      name = answer->ai_canonname;
    ::freeaddrinfo(answer);
  }
  return name;
}

}  // namespace muster
