#include "common/base/signal_names.h"

#include <csignal>

namespace muster {
namespace {

TEST(SignalName, NamesKnownSignals) {
  EXPECT_EQ(SignalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(SignalName(SIGBUS), "SIGBUS");
}

TEST(SignalName, FallsBackToTheNumber) {
  EXPECT_EQ(SignalName(0), "signal 0");
  EXPECT_EQ(SignalName(-3), "signal -3");
  EXPECT_EQ(SignalName(1000), "signal 1000");
}

TEST(ParseSignal, AcceptsNamesAndNumbers) {
  for (const char* text : {"SIGUSR1", "USR1", "usr1", "sigusr1", "10"}) {
    EXPECT_EQ(ParseSignal(text), SIGUSR1) << text;
  }
}

TEST(ParseSignal, RefusesEverythingElse) {
  for (const char* text : {"", "SIG", "SIGNOPE", "0", "-9", "9x", "1000", " 9"}) {
    EXPECT_EQ(ParseSignal(text), std::nullopt) << text;
  }
}

TEST(ParseSignal, ReversesSignalName) {
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(ParseSignal(SignalName(signal)), signal);
  }
}

}  // namespace
}  // namespace muster
