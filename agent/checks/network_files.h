// The two files that tell HCL of the cards' network ports: macAddrInfo.json, their MAC addresses,
// and gaudinet.json, their IP addresses, which is there on networks with routers (L3) only. Says
// what is wrong with their text. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr char kMacFile[] = "/etc/habanalabs/macAddrInfo.json";
inline constexpr char kNetFile[] = "/etc/habanalabs/gaudinet.json";
// Looked at when there is no kNetFile.
inline constexpr char kOldNetFile[] = "/etc/gaudinet.json";
// Variables that name other files.
inline constexpr char kMacVariable[] = "HCL_MAC_INFO_FILE";
inline constexpr char kNetVariable[] = "HCL_GAUDINET_CONFIG_FILE";

// What is read of a file.
inline constexpr size_t kNetworkFileBytes = size_t{64} * 1024;

// What is wrong with the text of a macAddrInfo.json, with line and column where it is no JSON;
// empty: nothing, or it is as long as what is read of a file, so that its end is not known.
std::string FaultOfMacFile(std::string_view path, std::string_view text);
// The same of a gaudinet.json, whose entries must have all addresses.
std::string FaultOfNetFile(std::string_view path, std::string_view text);

}  // namespace muster
