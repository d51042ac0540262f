// Memory of TLS connections that gRPC makes. It has no settings for that, so this goes through
// OpenSSL. An idle connection would take 67 KiB for records that are not there.
#pragma once

namespace muster {

// From the first call on, connections that are made in this process give the buffers of OpenSSL for
// their records back (33 KiB) while nothing is in them, and as servers offer no session tickets,
// for which a copy of the session would be kept and which nobody here comes back with. Thread-safe.
//
// The other half is the definition of BIO_new_bio_pair in the .cc file, which holds in every
// program that calls this.
void ReleaseIdleTlsBuffers();

}  // namespace muster
