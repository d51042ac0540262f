// What fi_info, a program of libfabric, prints. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// The version of libfabric in the output of `fi_info --version`; empty: it is not there.
std::string LibfabricVersion(std::string_view text);

// Why Gaudi Direct does not work with this version of libfabric, over EFA or over verbs; empty: it
// does, or the version is not known.
std::string FaultOfLibfabric(std::string_view version, bool over_verbs);

// How many different domains of `provider`, which are network adapters, have reliable datagrams in
// the output of `fi_info -p PROVIDER`.
size_t CountReliableDomains(std::string_view text, std::string_view provider);

}  // namespace muster
