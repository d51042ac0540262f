#include "agent/node/system_rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "agent/node/addresses.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

// What a coordinator may ask for at a time; more is a mistake.
constexpr size_t kMostAddresses = 64;
// For connections after a resolver that took nearly all of the time.
constexpr std::chrono::milliseconds kLeastTime{200};

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// Numeric addresses of a name, IPv4 first. Blocks as long as the resolver does.
absl::StatusOr<std::vector<std::string>> Resolve(const std::string& name) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &list); error != 0) {
    return absl::NotFoundError(::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
      std::array<char, NI_MAXHOST> text = {};
      if (entry->ai_family != family ||
          ::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) != 0) {
        continue;
      }
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

std::string ResolverError(const std::string& name, const absl::Status& status,
                          std::chrono::milliseconds limit) {
  if (absl::IsDeadlineExceeded(status)) {
    return fmt::format("the resolver did not find {} within {:g} s", name,
                       std::chrono::duration<double>(limit).count());
  }
  return fmt::format("{} cannot be resolved: {}", name, MessageOf(status));
}

}  // namespace

// One probe and what is known of it.
struct SystemRendezvous::Round {
  std::vector<v1::ProbedAddress> answers;
  // Connections, and names, that each address still waits for.
  std::vector<int> open;
  std::vector<bool> reached;
  size_t waiting = 0;
  TimePoint deadline{};
  Probed done;

  void Wait(int index, int count) { open[static_cast<size_t>(index)] += count; }
  void Answered(int index, const std::string& error) {
    const auto i = static_cast<size_t>(index);
    if (error.empty()) reached[i] = true;
    if (answers[i].error().empty()) answers[i].set_error(error);
    if (--open[i] > 0) return;
    if (reached[i]) answers[i].clear_error();
    if (--waiting == 0) std::exchange(done, nullptr)(std::move(answers));
  }
};

SystemRendezvous::SystemRendezvous(EventLoop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      lookups_(loop, {.limit = options_.limit}),
      tcp_(loop) {}

std::set<std::string> SystemRendezvous::OwnAddresses() const {
  std::set<std::string> own;
  for (const std::string& address : options_.addresses) own.insert(CanonicalAddress(address));
  for (const InterfaceAddress& one : ReadInterfaceAddresses()) own.insert(one.address);
  return own;
}

void SystemRendezvous::CheckOwn(const std::string& address, Checked done) {
  const std::string known = fmt::format("{}", fmt::join(options_.addresses, ", "));
  const std::string advice = "leave master_addr out, or name one of those";
  if (const std::string numeric = CanonicalAddress(address); !numeric.empty()) {
    absl::Status status;
    if (!IsLoopback(numeric) && !OwnAddresses().contains(numeric)) {
      status = absl::InvalidArgumentError(fmt::format(
          "the master address {} is none of this node, which has {} ({})", address, known, advice));
    }
    loop_.Post(
        [status = std::move(status), done = std::move(done), alive = std::weak_ptr<int>(alive_)] {
          if (!alive.expired()) done(status);
        });
    return;
  }
  lookups_.Ask<std::vector<std::string>>(
      "host " + address, [address] { return Resolve(address); },
      [this, address, known, advice,
       done = std::move(done)](const absl::StatusOr<std::vector<std::string>>& found) {
        if (!found.ok()) {
          return done(absl::InvalidArgumentError(
              fmt::format("the master address: {} ({}: {})",
                          ResolverError(address, found.status(), options_.limit), advice, known)));
        }
        const std::set<std::string> own = OwnAddresses();
        const bool is_own = std::any_of(found->begin(), found->end(), [&](const auto& one) {
          return IsLoopback(one) || own.contains(one);
        });
        if (is_own) return done(absl::OkStatus());
        done(absl::InvalidArgumentError(fmt::format(
            "the master address {} means {} here, which is none of this node, which has {} ({})",
            address, fmt::join(*found, ", "), known, advice)));
      });
}

std::vector<std::string> SystemRendezvous::AddressesOf(const std::string& socket_ifname) {
  const std::vector<InterfaceAddress> found = ReadInterfaceAddresses();
  return MatchSocketInterfaces(found, socket_ifname, GaudiInterfaces(found));
}

void SystemRendezvous::Probe(const std::vector<std::string>& addresses, uint32_t port,
                             Probed done) {
  const size_t count = std::min(addresses.size(), kMostAddresses);
  if (count == 0) {
    loop_.Post([done = std::move(done), alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) done({});
    });
    return;
  }
  const auto round = std::make_shared<Round>();
  round->answers.resize(count);
  round->open.assign(count, 1);
  round->reached.assign(count, false);
  round->waiting = count;
  round->deadline = loop_.clock().Now() + options_.limit;
  round->done = std::move(done);
  for (size_t i = 0; i < count; ++i) {
    const int index = static_cast<int>(i);
    round->answers[i].set_address(addresses[i]);
    if (CanonicalAddress(addresses[i]).empty()) {
      ProbeName(round, index, port);
    } else {
      tcp_.Try(addresses[i], port, options_.limit,
               [round, index](const std::string& error) { round->Answered(index, error); });
    }
  }
}

// As the ranks will: by whatever the name means here.
void SystemRendezvous::ProbeName(const std::shared_ptr<Round>& round, int index, uint32_t port) {
  const std::string name = round->answers[static_cast<size_t>(index)].address();
  lookups_.Ask<std::vector<std::string>>(
      "host " + name, [name] { return Resolve(name); },
      [this, round, index, port, name](const absl::StatusOr<std::vector<std::string>>& found) {
        if (!found.ok() || found->empty()) {
          return round->Answered(index, found.ok()
                                            ? name + " has no address"
                                            : ResolverError(name, found.status(), options_.limit));
        }
        round->Wait(index, static_cast<int>(found->size()) - 1);
        const auto left = std::max(
            std::chrono::ceil<std::chrono::milliseconds>(round->deadline - loop_.clock().Now()),
            kLeastTime);
        for (const std::string& address : *found) {
          tcp_.Try(address, port, left, [round, index, address](const std::string& error) {
            round->Answered(index, error.empty() ? error : fmt::format("{} ({})", error, address));
          });
        }
      });
}

}  // namespace muster
