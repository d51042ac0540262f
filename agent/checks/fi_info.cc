#include "agent/checks/fi_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <tuple>

namespace muster {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

std::string LibfabricVersion(std::string_view text) {
  // "fi_info: 1.22.0" and "libfabric: 1.22.0".
  constexpr std::string_view kStart = "libfabric: ";
  const size_t at = text.find(kStart);
  if (at == std::string_view::npos) return "";
  const size_t begin = at + kStart.size();
  return std::string(Trimmed(text.substr(begin, text.find('\n', begin) - begin)).substr(0, 100));
}

std::string FaultOfLibfabric(std::string_view version, bool over_verbs) {
  std::array<int, 3> parts = {};
  const int read =
      std::sscanf(std::string(version).c_str(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
  if (read < 2) return "";
  using Version = std::tuple<int, int, int>;
  const Version have{parts[0], parts[1], parts[2]};
  const Version least = over_verbs ? Version{1, 20, 0} : Version{1, 16, 1};
  if (have >= least && have < Version{2, 0, 0}) return "";
  return fmt::format("libfabric {}: versions from {} to before 2.0 work with Gaudi Direct over {}",
                     version, over_verbs ? "1.20" : "1.16.1", over_verbs ? "verbs" : "EFA");
}

size_t CountReliableDomains(std::string_view text, std::string_view provider) {
  std::set<std::string, std::less<>> domains;
  bool is_provider = false;
  std::string_view domain;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = Trimmed(line.substr(colon + 2));
    // Each block begins with its provider.
    if (name == "provider") {
      is_provider = value == provider;
      domain = {};
    } else if (name == "domain") {
      domain = value;
    } else if (name == "type" && is_provider && value == "FI_EP_RDM") {
      domains.emplace(domain);
    }
  }
  return domains.size();
}

}  // namespace muster
