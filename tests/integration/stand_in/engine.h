// The stand-in for a container engine (engine.py) in a sandbox: found first as `docker`, or
// `podman`, by what the sandbox starts from then on. Its daemon, and with it its containers, ends
// with the sandbox.
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
  explicit StandInEngine(Sandbox& box, const std::string& name = "docker")
      : box_(box), folder_(name == "docker" ? "engine" : "engine-" + name) {
    namespace fs = std::filesystem;
    for (const std::string& folder : {std::string("bin"), folder_, folder_ + "/faults"}) {
      fs::create_directory(box.Path(folder));
    }
    box.Write("bin/" + name, "#!/bin/sh\nexec /usr/bin/python3 -I '" ENGINE_PROGRAM "' client '" +
                                 box.Path(folder_) + "' \"$@\"\n");
    box.Write("bin/docker-init", "#!/bin/sh\n");
    for (const std::string& program : {"bin/" + name, std::string("bin/docker-init")}) {
      fs::permissions(box.Path(program), fs::perms::owner_all);
    }
    box.Set("PATH", box.Path("bin") + ":/usr/bin:/bin");
    daemon_.emplace(
        box.StartProgram("/usr/bin/python3", {ENGINE_PROGRAM, "serve", box.Path(folder_)}));
    EXPECT_TRUE(box.WaitFor(folder_ + "/containers.json")) << daemon_->err();
  }

  // What there is: id, name, labels, running, pid.
  nlohmann::json Containers() const {
    return nlohmann::json::parse(box_.Read(folder_ + "/containers.json"));
  }
  // Calls of the client with this command: pid, argv, env.
  std::vector<nlohmann::json> Calls(const std::string& command) const {
    std::vector<nlohmann::json> calls;
    std::istringstream lines(box_.Read(folder_ + "/calls.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json call = nlohmann::json::parse(line);
      // Options of podman itself are in front of it.
      size_t at = 0;
      while (call["argv"][at].get<std::string>().starts_with("--")) ++at;
      if (call["argv"][at] == command) calls.push_back(std::move(call));
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

  // What the engine keeps is below this folder of the sandbox.
  const std::string& folder() const { return folder_; }

 private:
  Sandbox& box_;
  std::string folder_;
  std::optional<CommandRun> daemon_;
};

}  // namespace muster::testing
