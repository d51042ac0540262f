// A cluster over the network, from nothing, with the real programs on the loopback interface.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/sandbox/command_run.h"

namespace muster::testing {

class JoinedNodes : public ::testing::Test {
 protected:
  JoinedNodes() {
    box_.Hosts(2, 2);
    box_.Unset("MUSTER_LOCAL");
    box_.Set("MUSTER_SERVER", "unix:" + box_.Path("c.sock"));
  }

  // `life` of certificates; empty: the default.
  CommandRun Init(const std::string& life = "") {
    std::vector<std::string> words = {"init", "--state-dir", "state", "--host", "127.0.0.1"};
    if (!life.empty()) words.insert(words.end(), {"--certificate-life", life});
    return box_.Run(words);
  }
  // Serves on `port` of the loopback interface; 0: any.
  CommandRun& Serve(int port = 0) {
    coordinator_.clear();
    coordinator_.push_back(box_.Start({"serve", "--state-dir", "state", "--socket", "c.sock",
                                       "--listen", "127.0.0.1:" + std::to_string(port)}));
    EXPECT_TRUE(WaitUntil([&] {
      return coordinator_[0].err().find("coordinator serves") != std::string::npos;
    })) << coordinator_[0].err();
    return coordinator_[0];
  }
  // Killed, and started again on its port.
  void KillAndServe() {
    coordinator_[0].Send(SIGKILL);
    coordinator_[0].Wait();
    Serve(port());
  }
  // A new token; remembers where to join.
  std::string Token(int nodes) {
    CommandRun run = box_.Run({"token", "create", "--nodes", std::to_string(nodes), "-o", "json"});
    EXPECT_EQ(run.Wait(), 0) << run.err();
    const auto token = nlohmann::json::parse(run.out());
    address_ = token["addresses"][0];
    return token["token"];
  }
  int port() const { return std::stoi(address_.substr(address_.rfind(':') + 1)); }
  CommandRun Agent(std::vector<std::string> words) {
    return box_.StartProgram(Sandbox::Programs() + "/agent", std::move(words));
  }
  CommandRun Join(const std::string& name, const std::string& token) {
    return Agent({"join", address_, token, "--node-id", name, "--state-dir", name});
  }
  CommandRun RunAgent(const std::string& name) {
    return Agent({"run", "--state-dir", name, "--slots", "2", "--allow-root"});
  }
  void StartAgents() {
    for (const std::string name : {"node-1", "node-2"}) agents_.push_back(RunAgent(name));
  }
  std::string Nodes() { return box_.Run({"nodes"}).out(); }
  nlohmann::json Json(const std::vector<std::string>& words) {
    return nlohmann::json::parse(box_.Run(words).out(), nullptr, false);
  }

  Sandbox box_;
  std::vector<CommandRun> coordinator_;
  std::vector<CommandRun> agents_;
  std::string address_;
};

}  // namespace muster::testing
