#include "tests/integration/sandbox/cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace muster::testing {
namespace {

std::string CommandName(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

Cluster::Cluster(int nodes, int slots) : nodes_(nodes), slots_(slots) {
  box_.Hosts(nodes, slots);
  box_.Unset("MUSTER_LOCAL");
  box_.Set("MUSTER_SERVER", "unix:" + socket());
}

void Cluster::Start() {
  StartCoordinator();
  for (int index = 1; index <= nodes_; ++index) StartAgent(index);
  AwaitNodes(nodes_);
}

void Cluster::StartCoordinator() {
  coordinator_.clear();
  coordinator_.push_back(box_.Start({"serve", "--state-dir", "state", "--socket", socket()}));
}

void Cluster::KillCoordinator(int signal) {
  coordinator_.front().Send(signal);
  EXPECT_NE(coordinator_.front().Wait(), -1) << "the coordinator does not end";
}

void Cluster::StartAgent(int index) { StartAgentBy({}, index); }

void Cluster::StartAgentBy(std::vector<std::string> words, int index) {
  agents_.erase(index);
  const std::string name = "node-" + std::to_string(index);
  const auto target = targets_.find(index);
  const std::string where = target != targets_.end() ? target->second : "unix:" + socket();
  words.push_back(Sandbox::Programs() + "/agent");
  for (const std::string& word :
       {std::string("run"), std::string("--coordinator"), where, std::string("--node-id"), name,
        std::string("--state-dir"), name, std::string("--slots"), std::to_string(slots_)}) {
    words.push_back(word);
  }
  const std::string program = words.front();
  words.erase(words.begin());
  agents_.emplace(index, box_.StartProgram(program, words));
}

void Cluster::KillAgent(int index, int signal) {
  agents_.at(index).Send(signal);
  EXPECT_NE(agents_.at(index).Wait(), -1) << "the agent does not end";
}

void Cluster::AwaitNodes(int count, const std::string& state) {
  int found = 0;
  const auto enough = [&] {
    CommandRun run = box_.Run({"nodes", "-o", "json"});
    const auto nodes = nlohmann::json::parse(run.out(), nullptr, false);
    found = 0;
    if (nodes.is_discarded()) return false;
    for (const auto& node : nodes.value("nodes", nlohmann::json::array())) {
      found += node.value("state", "") == state ? 1 : 0;
    }
    return found >= count;
  };
  EXPECT_TRUE(WaitUntil(enough, Seconds(60))) << found << " of " << count << " nodes " << state;
}

std::string Cluster::Submit(const std::string& file) {
  CommandRun run = box_.Run({"submit", "--detach", file});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  std::string id = run.out();
  if (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

int Cluster::WaitJob(const std::string& job) {
  CommandRun run = box_.Start({"wait", "--quiet", job});
  return run.Wait(Seconds(120));
}

std::string Cluster::Log(const std::string& job, int rank) {
  CommandRun run = box_.Run({"logs", job, "--raw", "--rank", std::to_string(rank)});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  return run.out();
}

std::vector<pid_t> Cluster::JobProcesses() const {
  std::vector<pid_t> found;
  for (const pid_t pid : box_.Processes()) {
    if (CommandName(pid) != "agent") found.push_back(pid);
  }
  return found;
}

}  // namespace muster::testing
