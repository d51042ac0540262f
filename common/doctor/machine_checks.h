// Checks of the machine that both programs make. They change nothing.
#pragma once

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "common/crypto/certificate.h"
#include "common/doctor/finding.h"

namespace muster {

// A folder that must be this user's own, and no others' to look into.
Finding CheckOwnDirectory(const std::string& check, const std::string& path);
// Space below `path`: warns below `enough_bytes`, fails below a hundredth of that, or when no file
// can be made.
Finding CheckDiskSpace(const std::string& path, uint64_t enough_bytes);
// Files that may be open at a time.
Finding CheckOpenFiles(uint64_t enough);
// Memory that ranks may pin.
Finding CheckLockedMemory();
// The dates of a certificate against this machine's clock. `renews`: by whom, and when.
Finding CheckDates(const std::string& check, const Certificate& certificate, WallTime now);

}  // namespace muster
