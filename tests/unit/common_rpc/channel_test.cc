// Channels with their settings, against a socket that the test serves by hand.
#include "common/rpc/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

#include "common/io/unique_fd.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

// A coordinator at the other end of the world, or one whose user database is slow.
TEST(Channel, WaitsForAServerThatTakesItsTime) {
  const TempFolder folder;
  const std::string path = folder.path() + "/sock";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const auto channel = MakeChannel("unix:" + path);
  ASSERT_TRUE(channel.ok()) << channel.status();
  grpc_connectivity_state state = (*channel)->GetState(/*try_to_connect=*/true);
  const UniqueFd connection(::accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(connection.valid());
  // For a second it does not hang up.
  pollfd hang_up = {connection.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&hang_up, 1, 1000), 0);
  // An empty SETTINGS frame of HTTP/2: the server is there.
  constexpr std::string_view kSettings("\0\0\0\4\0\0\0\0\0", 9);
  ASSERT_EQ(::send(connection.get(), kSettings.data(), kSettings.size(), MSG_NOSIGNAL), 9);
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(30);
  while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
    ASSERT_TRUE((*channel)->WaitForStateChange(state, deadline));
    state = (*channel)->GetState(/*try_to_connect=*/false);
  }
  EXPECT_EQ(state, GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace muster
