#include "agent/checks/network_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace muster {
namespace {

using Json = nlohmann::json;

// An object, or in `fault` why there is none.
Json ParseObject(std::string_view path, std::string_view text, std::string* fault) {
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) *fault = fmt::format("{} is no JSON object", path);
    return json;
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
    const std::string_view what = error.what();
    const size_t begin = what.find("] ");
    *fault = fmt::format("{} is no JSON: {}", path,
                         begin == std::string_view::npos ? what : what.substr(begin + 2));
    return nullptr;
  }
}

}  // namespace

std::string FaultOfMacFile(std::string_view path, std::string_view text) {
  if (text.size() >= kNetworkFileBytes) return "";
  std::string fault;
  (void)ParseObject(path, text, &fault);
  return fault;
}

std::string FaultOfNetFile(std::string_view path, std::string_view text) {
  if (text.size() >= kNetworkFileBytes) return "";
  std::string fault;
  const Json json = ParseObject(path, text, &fault);
  if (!fault.empty()) return fault;
  const auto list = json.find("NIC_NET_CONFIG");
  if (list == json.end() || !list->is_array()) {
    return fmt::format("{} has no list NIC_NET_CONFIG", path);
  }
  size_t number = 0;
  for (const Json& entry : *list) {
    ++number;
    for (const char* key : {"NIC_MAC", "NIC_IP", "SUBNET_MASK", "GATEWAY_MAC"}) {
      if (entry.is_object() && entry.contains(key) && entry.at(key).is_string()) continue;
      return fmt::format("{}: entry {} of NIC_NET_CONFIG has no {}", path, number, key);
    }
  }
  return "";
}

}  // namespace muster
