// A cluster over the network, from nothing, with the real programs on the loopback interface.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/integration/network/joined_nodes.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using testing::JoinedNodes;
using testing::Seconds;
using testing::WaitUntil;

TEST_F(JoinedNodes, FromNothingToAJob) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(2);
  EXPECT_EQ(Join("node-1", token).Wait(), 0);
  // Where others cannot see it.
  box_.Write("token", token + "\n");
  CommandRun second = Agent(
      {"join", address_, "--token-file", "token", "--node-id", "node-2", "--state-dir", "node-2"});
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.out(), HasSubstr("node-2 belongs to cluster"));
  StartAgents();
  box_.Write("job.yaml", "hostfile: hosts\ncommand: [sh, -c, 'echo rank $RANK of $WORLD_SIZE']\n");
  CommandRun job = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(job.Wait(), 0) << job.err();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(job.out(), HasSubstr("rank " + std::to_string(rank) + " of 4\n"));
  }
  const std::string members = box_.Run({"members"}).out();
  EXPECT_THAT(members, HasSubstr("node-1"));
  EXPECT_THAT(members, HasSubstr("node-2"));
}

TEST_F(JoinedNodes, TheCoordinatorIsKilledAndOneMemberIsShutOut) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(2);
  for (const char* name : {"node-1", "node-2"}) EXPECT_EQ(Join(name, token).Wait(), 0);
  StartAgents();
  box_.Write("job.yaml",
             "hostfile: hosts\ncommand: [sh, -c, 'echo up; until [ -e go ]; do sleep 0.05; done; "
             "echo end of $RANK']\n");
  CommandRun job = box_.Start({"submit", "job.yaml"});
  ASSERT_TRUE(WaitUntil([&] { return job.out().find("up\n") != std::string::npos; })) << job.err();
  coordinator_[0].Send(SIGKILL);
  coordinator_[0].Wait();
  Serve(port());
  box_.Write("go", "");
  EXPECT_EQ(job.Wait(Seconds(60)), 0) << job.err();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(job.out(), HasSubstr("end of " + std::to_string(rank) + "\n"));
  }

  EXPECT_EQ(box_.Run({"revoke", "agent", "node-2"}).Wait(), 0);
  EXPECT_TRUE(WaitUntil([&] { return Nodes().find("suspect") != std::string::npos; })) << Nodes();
  EXPECT_TRUE(WaitUntil([&] { return agents_[1].err().find("was revoked") != std::string::npos; }))
      << agents_[1].err();
  CommandRun again = Join("node-2", Token(1));
  EXPECT_EQ(again.Wait(), 1);
  EXPECT_THAT(again.err(), HasSubstr("node-2"));
}

TEST_F(JoinedNodes, SaysWhatIsMissing) {
  CommandRun run = Agent({"run", "--state-dir", "node-1"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("agent join HOST:PORT TOKEN"));
  EXPECT_EQ(Init().Wait(), 0);
  CommandRun twice = Init();
  EXPECT_NE(twice.Wait(), 0);
  EXPECT_THAT(twice.err(), HasSubstr("state/trust"));
  Serve();
  Token(1);
  CommandRun typo = Join("node-1", "tk1.what");
  EXPECT_EQ(typo.Wait(), 2);
  EXPECT_THAT(typo.err(), HasSubstr("token"));
}

TEST_F(JoinedNodes, TheNodeSaysWhoRunsThere) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root runs ranks of others";
  box_.Hosts(1, 2);
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
  agents_.push_back(
      Agent({"run", "--state-dir", "node-1", "--slots", "2", "--allow-users", "allowed"}));
  const std::string program = "command: [sh, -c, 'id -un; id -Gn; echo $USER $HOME; cd && pwd']\n";
  box_.Write("own.yaml", "hostfile: hosts\ncwd: /\n" + program);
  CommandRun own = box_.Run({"submit", "own.yaml"});
  EXPECT_EQ(own.Wait(), 120);
  EXPECT_THAT(own.err(), HasSubstr("does not run jobs of user \"root\""));
  EXPECT_THAT(own.err(), HasSubstr("a line \"root\" in allowed"));

  // Counts from now on; the agent need not be told.
  box_.Write("allowed", "nobody\n");
  ::chmod(box_.Path("allowed").c_str(), 0644);
  box_.Write("other.yaml", "hostfile: hosts\ncwd: /\nuser: nobody\nenv: {HOME: /}\n" + program);
  CommandRun other = box_.Run({"submit", "other.yaml"});
  EXPECT_EQ(other.Wait(), 0) << other.err();
  for (const char* rank : {"[0@node-1] ", "[1@node-1] "}) {
    for (const char* line : {"nobody\n", "nogroup\n", "nobody /\n", "/\n"}) {
      EXPECT_THAT(other.out(), HasSubstr(std::string(rank) + line));
    }
  }
  // What only root may read stays root's.
  box_.Write("spy.yaml", "hostfile: hosts\ncwd: /\nuser: nobody\ncommand: [cat, " +
                             box_.Path("node-1/journal") + "]\n");
  CommandRun spy = box_.Run({"submit", "spy.yaml"});
  EXPECT_EQ(spy.Wait(), 1);
  EXPECT_THAT(spy.out(), HasSubstr("Permission denied"));

  box_.Write("nosuch.yaml", "hostfile: hosts\ncwd: /\nuser: no-such-user\ncommand: [id]\n");
  CommandRun unknown = box_.Run({"submit", "nosuch.yaml"});
  EXPECT_EQ(unknown.Wait(), 120);
  EXPECT_THAT(unknown.err(), HasSubstr("there is no user \"no-such-user\""));
}

TEST_F(JoinedNodes, AUserOfTheNetworkSubmitsAndSeesTheOwnJobs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root runs ranks of others";
  box_.Hosts(1, 1);
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
  agents_.push_back(Agent(
      {"run", "--state-dir", "node-1", "--slots", "1", "--allow-root", "--allow-user", "nobody"}));
  box_.Write("job.yaml", "hostfile: hosts\ncwd: /\ncommand: [sh, -c, 'echo I am $(id -un)']\n");
  CommandRun of_admin = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(of_admin.Wait(), 0) << of_admin.err();
  EXPECT_THAT(of_admin.out(), HasSubstr("I am root\n"));
  const auto jobs = nlohmann::json::parse(box_.Run({"list", "-o", "json"}).out());
  const std::string job = jobs["jobs"][0]["job_id"];

  CommandRun added = box_.Run({"user", "add", "nobody", "-o", "json"});
  EXPECT_EQ(added.Wait(), 0) << added.err();
  const std::string token = nlohmann::json::parse(added.out())["token"];
  box_.Set("XDG_CONFIG_HOME", box_.Path("config"));
  const std::string socket = "unix:" + box_.Path("c.sock");
  box_.Unset("MUSTER_SERVER");
  CommandRun nowhere = box_.Run({"nodes"});
  EXPECT_EQ(nowhere.Wait(), 122);
  EXPECT_THAT(nowhere.err(), HasSubstr("coordinator join"));
  CommandRun stranger = box_.Run({"list", "--server", address_});
  EXPECT_EQ(stranger.Wait(), 2);
  EXPECT_THAT(stranger.err(), HasSubstr("coordinator join HOST:PORT TOKEN"));
  box_.Write("token", token);
  CommandRun joined = box_.Run({"join", address_, "--token-file", "token"});
  EXPECT_EQ(joined.Wait(), 0) << joined.err();
  EXPECT_THAT(joined.out(), HasSubstr("you are nobody of cluster "));

  CommandRun own = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(own.Wait(), 0) << own.err();
  EXPECT_THAT(own.out(), HasSubstr("I am nobody\n"));
  CommandRun listed = box_.Run({"list", "-o", "json"});
  const auto seen = nlohmann::json::parse(listed.out());
  ASSERT_EQ(seen["jobs"].size(), 1u);
  EXPECT_NE(seen["jobs"][0]["job_id"], job);
  for (const char* what : {"status", "logs", "cancel", "wait"}) {
    CommandRun other = box_.Run({what, job});
    EXPECT_NE(other.Wait(), 0) << what;
    EXPECT_THAT(other.err(), HasSubstr("there is no job " + job)) << what;
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{"token", "create"},
                                                {"members"},
                                                {"user", "add", "eve"},
                                                {"revoke", "agent", "node-1"}}) {
    CommandRun denied = box_.Run(words);
    EXPECT_NE(denied.Wait(), 0) << words[0];
    EXPECT_THAT(denied.err(), HasSubstr("you may not call")) << words[0];
  }
  box_.Write("root.yaml", "hostfile: hosts\ncwd: /\nuser: root\ncommand: [id]\n");
  CommandRun root = box_.Run({"submit", "root.yaml"});
  EXPECT_EQ(root.Wait(), 2);
  EXPECT_THAT(root.err(), HasSubstr("only an admin may name another user"));

  EXPECT_EQ(box_.Run({"user", "remove", "nobody", "--server", socket}).Wait(), 0);
  EXPECT_NE(box_.Run({"list"}).Wait(), 0);
}

// Its own record, besides the coordinator's.
TEST_F(JoinedNodes, ANodeKeepsWhatWasExecutedAndByWhoseOrder) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
  agents_.push_back(Agent({"run", "--state-dir", "node-1", "--slots", "2", "--allow-root"}));
  box_.Write("hosts", "node-1 slots=2\n");
  box_.Write("job.yaml",
             "hostfile: hosts\ncwd: /\nenv: {SECRET: hunter2}\ncommand: [sh, -c, 'echo hello']\n");
  CommandRun job = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(job.Wait(), 0) << job.err();
  box_.Write("other.yaml", "hostfile: hosts\ncwd: /\nuser: nobody\ncommand: [id]\n");
  EXPECT_EQ(box_.Run({"submit", "other.yaml"}).Wait(), 120);
  // It is written beside the work.
  const auto lines = [&](const std::string& event) {
    std::vector<nlohmann::json> found;
    std::istringstream log(box_.Read("node-1/audit.jsonl"));
    for (std::string line; std::getline(log, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.value("event", "") == event) found.push_back(json);
    }
    return found;
  };
  EXPECT_TRUE(WaitUntil([&] { return lines("refuse-launch").size() == 1; }));
  EXPECT_EQ(lines("join").size(), 1u);
  const auto launches = lines("launch");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0]["who"], "root");
  EXPECT_EQ(launches[0]["user"], "root");
  EXPECT_EQ(launches[0]["ranks"], "0-1");
  EXPECT_EQ(launches[0]["cwd"], "/");
  EXPECT_EQ(launches[0]["argv"], "sh -c \"echo hello\"");
  EXPECT_THAT(std::string(launches[0]["source"]), HasSubstr("/coordinator"));
  EXPECT_FALSE(std::string(launches[0]["serial"]).empty());
  EXPECT_EQ(lines("stop").size(), 0u) << "it ended by itself";
  EXPECT_EQ(lines("refuse-launch")[0]["user"], "nobody");
  box_.Write("long.yaml", "hostfile: hosts\ncwd: /\ncommand: [sleep, '1000']\n");
  CommandRun stopped = box_.Start({"submit", "long.yaml"});
  EXPECT_TRUE(WaitUntil([&] { return lines("launch").size() == 2; })) << stopped.err();
  stopped.Send(SIGINT);
  EXPECT_EQ(stopped.Wait(), 130) << stopped.err();
  EXPECT_TRUE(WaitUntil([&] { return lines("stop").size() == 1; }));
  EXPECT_EQ(lines("stop")[0]["object"], lines("launch")[1]["object"]);
  EXPECT_EQ(box_.Read("node-1/audit.jsonl").find("hunter2"), std::string::npos);
  CommandRun doctor = Agent({"doctor", "--state-dir", "node-1", "-o", "json"});
  doctor.Wait();
  EXPECT_THAT(doctor.out(), HasSubstr("each fits the one before it"));
}

// What somebody gets who has taken over a node.
TEST_F(JoinedNodes, TheCertificateOfANodeSubmitsAndReadsNothing) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
  std::filesystem::create_directories(box_.Path("config/muster"));
  std::filesystem::copy(
      box_.Path("node-1/trust"), box_.Path("config/muster/trust"),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  box_.Set("XDG_CONFIG_HOME", box_.Path("config"));
  box_.Unset("MUSTER_SERVER");
  box_.Write("job.yaml", "hostfile: hosts\ncommand: [true]\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"submit", "job.yaml"}, {"list"}, {"nodes"}, {"members"}}) {
    CommandRun run = box_.Run(words);
    EXPECT_NE(run.Wait(), 0) << words[0];
    EXPECT_THAT(run.err(), HasSubstr("you may not call")) << words[0];
  }
}

// As in a batch script of Slurm: agents for this job only, hosts from the allocation.
TEST_F(JoinedNodes, AnAllocationOfSlurmIsAClusterForItsTime) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  Token(1);
  EXPECT_EQ(box_.Run({"token", "create", "--nodes", "2", "--token-file", "token"}).Wait(), 0);
  for (const std::string name : {"node-1", "node-2"}) {
    agents_.push_back(Agent({"run", "--ephemeral", "--join", address_, "--token-file", "token",
                             "--node-id", name, "--state-dir", name, "--allow-root"}));
  }
  box_.Set("SLURM_JOB_NODELIST", "node-[1-2]");
  box_.Set("SLURM_TASKS_PER_NODE", "2,1");
  box_.Write(
      "job.yaml",
      "hosts: [{host: elsewhere, slots: 9}]\ncommand: [sh, -c, 'echo $RANK of $WORLD_SIZE']\n");
  CommandRun job = box_.Run({"submit", "--hosts-from", "slurm", "job.yaml"});
  EXPECT_EQ(job.Wait(), 0) << job.err();
  for (const char* line : {"[0@node-1] 0 of 3\n", "[1@node-1] 1 of 3\n", "[2@node-2] 2 of 3\n"}) {
    EXPECT_THAT(job.out(), HasSubstr(line));
  }
  CommandRun both = box_.Run({"submit", "--hosts-from", "slurm", "--hosts", "a", "job.yaml"});
  EXPECT_EQ(both.Wait(), 2);
  EXPECT_THAT(both.err(), HasSubstr("--hosts-from"));
  box_.Unset("SLURM_JOB_NODELIST");
  CommandRun outside = box_.Run({"submit", "--hosts-from", "slurm", "job.yaml"});
  EXPECT_EQ(outside.Wait(), 2);
  EXPECT_THAT(outside.err(), HasSubstr("SLURM_JOB_NODELIST is not set"));
  coordinator_[0].Send(SIGTERM);
  for (CommandRun& agent : agents_) EXPECT_EQ(agent.Wait(Seconds(60)), 0) << agent.err();
}

TEST_F(JoinedNodes, TheAgentOfOneJobLeavesNoStateOfItsOwn) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  Token(1);
  EXPECT_EQ(box_.Run({"token", "create", "--token-file", "token"}).Wait(), 0);
  const std::string folder = box_.Path("tmp");
  std::filesystem::create_directory(folder);
  box_.Set("TMPDIR", folder);
  box_.Write("job.yaml", "command: [sh, -c, 'echo here']\n");
  CommandRun agent = Agent({"run", "--ephemeral", "--join", address_, "--token-file", "token",
                            "--node-id", "node-1", "--allow-root"});
  CommandRun job = box_.Run({"submit", "--hosts", "node-1 slots=1", "job.yaml"});
  EXPECT_EQ(job.Wait(), 0) << job.err();
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  coordinator_[0].Send(SIGTERM);
  EXPECT_EQ(agent.Wait(Seconds(60)), 0) << agent.err();
  EXPECT_TRUE(std::filesystem::is_empty(folder));

  CommandRun waiting = Agent({"run", "--ephemeral", "--join", address_, "--token-file", "token",
                              "--node-id", "node-2", "--allow-root"});
  ASSERT_TRUE(WaitUntil(
      [&] { return waiting.err().find("not joined yet, trying again") != std::string::npos; }));
  waiting.Send(SIGTERM);
  EXPECT_EQ(waiting.Wait(), 0);
  EXPECT_THAT(waiting.err(), HasSubstr("told to leave by SIGTERM before it could join"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(JoinedNodes, OfAClusterThatWasMadeAnewWorkAsBefore) {
  box_.Write("job.yaml", "hosts: [{host: node-1, slots: 1}]\ncommand: [sh, -c, 'echo here']\n");
  const auto run_job = [&] {
    EXPECT_EQ(Init().Wait(), 0);
    Serve();
    EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
    CommandRun agent = RunAgent("node-1");
    CommandRun job = box_.Run({"submit", "job.yaml"});
    EXPECT_EQ(job.Wait(), 0) << job.err() << agent.err();
    EXPECT_THAT(job.out(), HasSubstr("here"));
    agent.Send(SIGTERM);
    EXPECT_EQ(agent.Wait(), 0);
    coordinator_[0].Send(SIGTERM);
    EXPECT_EQ(coordinator_[0].Wait(), 0);
    return agent.err();
  };
  run_job();
  std::filesystem::rename(box_.Path("state"), box_.Path("former"));
  EXPECT_THAT(run_job(), HasSubstr("its journal is begun anew"));
}

TEST_F(JoinedNodes, AreNotMadeOthersWhileTheirAgentRuns) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(3);
  EXPECT_EQ(Join("node-1", token).Wait(), 0);
  agents_.push_back(RunAgent("node-1"));
  ASSERT_TRUE(WaitUntil([&] { return Nodes().find("alive") != std::string::npos; })) << Nodes();
  CommandRun other =
      Agent({"join", address_, token, "--node-id", "node-2", "--state-dir", "node-1"});
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(other.err(), HasSubstr("this node is node-1 of cluster"));
  EXPECT_THAT(other.err(), HasSubstr("its agent runs: stop the agent before"));
  const std::string members = box_.Run({"members"}).out();
  EXPECT_EQ(members.find("node-2"), std::string::npos) << members;
}

TEST_F(JoinedNodes, AnAllowListWithAMistakeEndsTheAgentAtOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has an allow-list";
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
  box_.Write("allowed", "alice\nbob and carol\n");
  ::chmod(box_.Path("allowed").c_str(), 0644);
  CommandRun run = Agent({"run", "--state-dir", "node-1", "--allow-users", "allowed"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("allowed:2: "));
}

TEST_F(JoinedNodes, ACoordinatorWithoutAClusterIsNotOnTheNetwork) {
  CommandRun& coordinator = Serve();
  EXPECT_THAT(coordinator.err(), HasSubstr("network=\"\""));
  CommandRun token = box_.Run({"token", "create"});
  EXPECT_NE(token.Wait(), 0);
  EXPECT_THAT(token.err(), HasSubstr("coordinator init"));
}

}  // namespace
}  // namespace muster
