// The names of this host: what the kernel says, and the fully qualified one. Thread-safe; the
// look-up by DNS runs in the C library's own resolver thread and is given up after a bounded time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace muster {

// The host name as the kernel has it; "localhost" when it has none.
std::string KernelHostname();

// The fully qualified name of `hostname` by the text of a hosts file: the first name with a dot on
// the first line that lists `hostname` or a name that begins with `hostname` and a dot. Empty when
// there is none.
std::string FqdnFromHostsFile(std::string_view hosts_text, std::string_view hostname);

// The canonical name of `hostname` by the system's resolver, empty when it knows none with a dot,
// or does not answer within `limit`. Blocks for at most `limit`.
std::string FqdnFromResolver(const std::string& hostname, std::chrono::milliseconds limit);

}  // namespace muster
