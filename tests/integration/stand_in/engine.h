// The stand-in for a container engine (engine.py) in a sandbox: found first as `docker` by what the
// sandbox starts from then on. Its daemon, and with it its containers, ends with the sandbox.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/sandbox/command_run.h"

namespace muster::testing {

class StandInEngine {
 public:
  explicit StandInEngine(Sandbox& box) : box_(box) {
    namespace fs = std::filesystem;
    for (const char* folder : {"bin", "engine", "engine/faults"}) {
      fs::create_directory(box.Path(folder));
    }
    box.Write("bin/docker", "#!/bin/sh\nexec /usr/bin/python3 -I '" ENGINE_PROGRAM "' client '" +
                                box.Path("engine") + "' \"$@\"\n");
    box.Write("bin/docker-init", "#!/bin/sh\n");
    for (const char* program : {"bin/docker", "bin/docker-init"}) {
      fs::permissions(box.Path(program), fs::perms::owner_all);
    }
    box.Set("PATH", box.Path("bin") + ":/usr/bin:/bin");
    daemon_.emplace(
        box.StartProgram("/usr/bin/python3", {ENGINE_PROGRAM, "serve", box.Path("engine")}));
    EXPECT_TRUE(box.WaitFor("engine/containers.json")) << daemon_->err();
  }

  // What there is: id, name, labels, running, pid.
  nlohmann::json Containers() const {
    return nlohmann::json::parse(box_.Read("engine/containers.json"));
  }
  // Calls of the client with this first word: pid, argv, env.
  std::vector<nlohmann::json> Calls(const std::string& command) const {
    std::vector<nlohmann::json> calls;
    std::istringstream lines(box_.Read("engine/calls.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json call = nlohmann::json::parse(line);
      if (call["argv"][0] == command) calls.push_back(std::move(call));
    }
    return calls;
  }
  // The client of a rank.
  pid_t Client(const std::string& rank) const {
    for (const nlohmann::json& call : Calls("run")) {
      for (const nlohmann::json& word : call["argv"]) {
        if (word == "--label=muster.rank=" + rank) return call["pid"];
      }
    }
    ADD_FAILURE() << "no client of rank " << rank;
    return -1;
  }
  static pid_t Parent(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("PPid:")) return std::stoi(line.substr(5));
    }
    return -1;
  }

 private:
  Sandbox& box_;
  std::optional<CommandRun> daemon_;
};

}  // namespace muster::testing
