// The network of this very machine: sockets of the loopback, its own names.
#include "agent/node/system_rendezvous.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Listens on a loopback address, and accepts nothing: the kernel completes connections by itself.
class Listener {
 public:
  explicit Listener(const char* address, int backlog = 16)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in bound = {};
    bound.sin_family = AF_INET;
    ::inet_pton(AF_INET, address, &bound.sin_addr);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&bound), sizeof(bound)), 0);
    EXPECT_EQ(::listen(fd_.get(), backlog), 0);
    socklen_t length = sizeof(bound);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&bound), &length);
    port_ = ntohs(bound.sin_port);
  }
  uint32_t port() const { return port_; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  uint32_t port_ = 0;
};

class SystemRendezvousTest : public ::testing::Test {
 protected:
  std::vector<v1::ProbedAddress> Probe(const std::vector<std::string>& addresses, uint32_t port) {
    std::vector<v1::ProbedAddress> answers;
    network_.Probe(addresses, port, [&](std::vector<v1::ProbedAddress> got) {
      answers = std::move(got);
      loop_.Stop();
    });
    loop_.Run();
    return answers;
  }
  absl::Status CheckOwn(const std::string& address) {
    std::optional<absl::Status> status;
    network_.CheckOwn(address, [&](absl::Status got) {
      status = std::move(got);
      loop_.Stop();
    });
    EXPECT_FALSE(status.has_value()) << "answered from inside the call";
    loop_.Run();
    return *status;
  }

  EventLoop loop_;
  SystemRendezvous network_{loop_, {.addresses = {"192.0.2.7"}, .limit = milliseconds(300)}};
};

TEST_F(SystemRendezvousTest, TellsForEachAddressWhetherItIsReached) {
  const Listener listener("127.0.0.2");
  const std::vector<v1::ProbedAddress> answers =
      Probe({"127.0.0.1", "127.0.0.2", "nonsense:1", "127.0.0.3"}, listener.port());
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].address(), "127.0.0.1");
  EXPECT_EQ(answers[0].error(), "connection refused");
  EXPECT_EQ(answers[1].error(), "");
  EXPECT_THAT(answers[2].error(), HasSubstr("nonsense:1"));
  EXPECT_EQ(answers[3].error(), "connection refused");
}

TEST_F(SystemRendezvousTest, ANameIsTriedByWhateverItMeans) {
  const Listener listener("127.0.0.1");
  EXPECT_EQ(Probe({"localhost"}, listener.port())[0].error(), "");
}

TEST_F(SystemRendezvousTest, WaitsForAnAnswerNoLongerThanItsLimit) {
  // A queue that is full drops what else comes, as a firewall would.
  const Listener listener("127.0.0.1", 0);
  std::vector<UniqueFd> fill;
  for (int i = 0; i < 4; ++i) {
    fill.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address = {};
    socklen_t length = sizeof(address);
    ::getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length);
    (void)::connect(fill.back().get(), reinterpret_cast<sockaddr*>(&address), length);
  }
  EXPECT_EQ(Probe({"127.0.0.1"}, listener.port())[0].error(), "no answer within 0.3 s");
}

TEST_F(SystemRendezvousTest, APortOutOfRangeAndNoAddressAreAnswered) {
  EXPECT_EQ(Probe({"127.0.0.1"}, 70000)[0].error(), "70000 is no port");
  EXPECT_TRUE(Probe({}, 1).empty());
}

TEST_F(SystemRendezvousTest, IsDestroyedWhileItProbes) {
  {
    EventLoop loop;
    SystemRendezvous network(loop, {.addresses = {}, .limit = milliseconds(300)});
    network.Probe({"127.0.0.1", "localhost"}, 1, [](auto) { ADD_FAILURE(); });
    network.CheckOwn("localhost", [](auto) { ADD_FAILURE(); });
  }
}

TEST_F(SystemRendezvousTest, KnowsItsOwnAddresses) {
  for (const char* own : {"127.0.0.1", "127.0.1.1", "::1", "192.0.2.7", "localhost"}) {
    EXPECT_TRUE(CheckOwn(own).ok()) << own;
  }
}

TEST_F(SystemRendezvousTest, NamesItsAddressesWhereAnotherWasAskedFor) {
  const absl::Status numeric = CheckOwn("198.51.100.1");
  EXPECT_THAT(std::string(numeric.message()),
              AllOf(HasSubstr("198.51.100.1 is none of this node, which has 192.0.2.7"),
                    HasSubstr("master_addr")));
  const absl::Status name = CheckOwn("no-such-host.invalid");
  EXPECT_THAT(std::string(name.message()),
              AllOf(HasSubstr("no-such-host.invalid"),
                    AnyOf(HasSubstr("cannot be resolved"), HasSubstr("did not find")),
                    HasSubstr("192.0.2.7")));
}

TEST_F(SystemRendezvousTest, FindsTheAddressOfTheLoopbackByItsName) {
  EXPECT_THAT(network_.AddressesOf("lo"), ElementsAre("127.0.0.1"));
  EXPECT_TRUE(network_.AddressesOf("no-such-interface").empty());
}

}  // namespace
}  // namespace muster
