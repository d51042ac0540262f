// Measures how fast bytes go from one node to another over TCP. Each test is a thread of its own
// that ends by its limit; there are few at a time, and each uses one small buffer. Lives on the
// loop thread; answers come as tasks of the executor. Nothing that is received is kept.
//
// The listening end takes connections until one opens with the token, and reads that one to its
// end. The connecting end tries the addresses in order, sends the token and then zeros for the
// duration, and counts what the other end's kernel has taken.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <thread>

#include "agent/core/network_tester.h"
#include "common/base/executor.h"

namespace muster {

class BandwidthTest final : public NetworkTester {
 public:
  // `executor` outlives it.
  explicit BandwidthTest(Executor& executor) : executor_(executor) {}
  // Ends the threads, which takes a moment.
  ~BandwidthTest() override;
  BandwidthTest(const BandwidthTest&) = delete;
  BandwidthTest& operator=(const BandwidthTest&) = delete;

  void Listen(const v1::NetworkListen& request, std::chrono::milliseconds limit,
              Listening done) override;
  void Connect(const v1::NetworkConnect& request, std::chrono::milliseconds limit,
               Measured done) override;

 private:
  struct Test {
    std::thread thread;
    std::atomic<bool> stop = false;
    std::atomic<bool> ended = false;
  };

  // Null: there are too many.
  Test* NewTest();

  Executor& executor_;
  std::list<Test> tests_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
