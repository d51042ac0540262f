// What a probe is asked, and what its answers mean.
#include "agent/checks/probe_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "agent/core/compose.h"
#include "tests/testing/temp_folder.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProbeChecksTest : public ::testing::Test {
 protected:
  ProbePlan Plan() {
    const AttemptId attempt{JobId("j1"), 1};
    const RunAs user;
    return PlanProbe(context_, {attempt, launch_, user, bootstrap_, context_.thorough});
  }
  ProbeFindings Judge(const ProbeAnswer& answer) { return JudgeProbe(context_, Plan(), answer); }

  CheckContext context_;
  v1::LaunchSpec launch_;
  internal::ShimBootstrap bootstrap_;
};

TEST_F(ProbeChecksTest, APlainStartAsksNothing) {
  launch_.add_argv("python3");
  context_.env = {{"GC_KERNEL_PATH", "/usr/lib/habanalabs/libtpc_kernels.so"},
                  {"HCCL_OVER_OFI", "1"}};
  EXPECT_TRUE(Plan().empty());
}

TEST_F(ProbeChecksTest, WithCardsTheFilesOfVariablesAreLookedAt) {
  context_.cards = 8;
  context_.env = {{"GC_KERNEL_PATH", "/a.so:/b.so"}, {"HABANA_LOGS", "/var/log/habana_logs"}};
  const ProbePlan plan = Plan();
  ASSERT_EQ(plan.request.paths_size(), 3);
  EXPECT_TRUE(plan.request.paths(0).writable_folder());
  EXPECT_EQ(plan.request.paths(2).path(), "/b.so");
  launch_.add_skip_checks("habana-files");
  EXPECT_EQ(Plan().request.paths_size(), 1);
}

TEST_F(ProbeChecksTest, FilesOfAnImageAreNotLookedForOnTheNode) {
  context_.cards = 8;
  context_.node_count = 2;
  context_.env = {{"GC_KERNEL_PATH", "/a.so"}, {"HCCL_OVER_OFI", "1"}, {"FI_PROVIDER", "efa"}};
  launch_.add_argv("python3");
  launch_.mutable_container()->set_image("train");
  EXPECT_TRUE(Plan().empty());
}

TEST_F(ProbeChecksTest, VariablesAndLimitsAreThoseOfTheContainerAndNotOfTheEnginesClient) {
  const auto set = [&](const char* name, const char* value) {
    v1::EnvAssignment& one = *launch_.add_env();
    one.set_name(name);
    one.add_parts()->set_literal(value);
  };
  set("HCCL_OVER_OFI", "1");
  // As the image is called.
  set("A", "1");
  launch_.set_local_rank_argument_index(1);
  set("LD_LIBRARY_PATH", "/of/the/job");
  launch_.mutable_container()->set_image("A");
  launch_.set_working_directory("/work");
  launch_.add_argv("sh");
  launch_.add_argv("-e");
  launch_.add_argv("GLOO_SOCKET_IFNAME");
  launch_.add_ranks();
  ComposeContext compose;
  compose.attempt = {JobId("j1"), 1};
  compose.environ = {"HCCL_SOCKET_IFNAME=agents", "GLOO_SOCKET_IFNAME=agents", "PATH=/bin"};
  compose.container_host.docker.program = "/usr/bin/docker";
  const absl::StatusOr<internal::ShimBootstrap> bootstrap = ComposeBootstrap(launch_, compose);
  ASSERT_TRUE(bootstrap.ok()) << bootstrap.status();
  const RunAs user;
  const CheckContext context =
      MakeCheckContext({compose.attempt, launch_, user, *bootstrap, false}, "");
  EXPECT_EQ(context.Env("HCCL_OVER_OFI"), "1");
  EXPECT_EQ(context.Env("LD_LIBRARY_PATH"), "/of/the/job");
  EXPECT_EQ(context.Env("HCCL_SOCKET_IFNAME"), "");
  EXPECT_EQ(context.Env("GLOO_SOCKET_IFNAME"), "");
  EXPECT_EQ(context.memlock.rlim_cur, RLIM_INFINITY);
  EXPECT_EQ(context.open_files.rlim_max, 1'048'576u);
}

TEST_F(ProbeChecksTest, AMissingFileIsToldWithItsVariable) {
  context_.cards = 8;
  context_.env = {{"GC_KERNEL_PATH", "/a.so"}};
  ProbeAnswer answer{.replies = {}, .complete = true, .error = ""};
  internal::ProbedPath& path = *answer.replies.emplace_back().mutable_path();
  path.set_path("/a.so");
  path.set_reason("No such file or directory (ENOENT)");
  const ProbeFindings findings = Judge(answer);
  ASSERT_EQ(findings.results.size(), 1u);
  EXPECT_EQ(findings.results[0].verdict(), v1::FAIL);
  EXPECT_THAT(findings.results[0].message(), HasSubstr("GC_KERNEL_PATH=/a.so: No such file"));
}

TEST_F(ProbeChecksTest, WhatIsLateIsAWarning) {
  context_.cards = 8;
  context_.env = {{"GC_KERNEL_PATH", "/a.so"}, {"HABANA_LOGS", "/logs"}};
  ProbeAnswer answer{.replies = {}, .complete = false, .error = ""};
  answer.replies.emplace_back().mutable_path()->set_path("/logs");
  const ProbeFindings findings = Judge(answer);
  ASSERT_EQ(findings.results.size(), 2u);
  EXPECT_EQ(findings.results[0].verdict(), v1::PASS);
  EXPECT_EQ(findings.results[1].check(), "habana-files");
  EXPECT_EQ(findings.results[1].verdict(), v1::WARN);
  EXPECT_EQ(findings.results[1].message(), "not known within 2 s");
}

TEST_F(ProbeChecksTest, TheWrapperMustBeFoundWithAllItNeeds) {
  context_.cards = 8;
  context_.env = {{"HCCL_OVER_OFI", "1"}, {"LD_LIBRARY_PATH", "/root/hccl_ofi_wrapper"}};
  EXPECT_THAT(Plan().request.libraries(), ElementsAre("libhccl_ofi_wrapper.so"));
  ProbeAnswer answer{.replies = {}, .complete = true, .error = ""};
  internal::ProbedLibrary& library = *answer.replies.emplace_back().mutable_library();
  library.set_file("/root/hccl_ofi_wrapper/libhccl_ofi_wrapper.so");
  library.add_missing("libfabric.so.1 (needed by libhccl_ofi_wrapper.so)");
  const ProbeFindings findings = Judge(answer);
  EXPECT_EQ(findings.results[0].verdict(), v1::FAIL);
  EXPECT_THAT(findings.results[0].message(), HasSubstr("libfabric.so.1 (needed by"));
}

TEST_F(ProbeChecksTest, VersionsBecomeTraits) {
  context_.thorough = true;
  launch_.add_argv("/venv/bin/python3");
  const ProbePlan plan = Plan();
  EXPECT_TRUE(plan.request.check_exec());
  ASSERT_EQ(plan.request.programs_size(), 1);
  EXPECT_EQ(plan.request.programs(0).argv(0), "/venv/bin/python3");
  ProbeAnswer answer{.replies = {}, .complete = true, .error = ""};
  answer.replies.emplace_back().set_exec_checked(true);
  internal::ProbedProgram& program = *answer.replies.emplace_back().mutable_program();
  program.set_name("python");
  program.set_output("python=3.11.2\ntorch=2.7.1\n");
  const ProbeFindings findings = Judge(answer);
  ASSERT_EQ(findings.traits.size(), 2u);
  EXPECT_EQ(findings.traits[1].name(), "torch");
  EXPECT_EQ(findings.traits[1].value(), "2.7.1");
}

TEST_F(ProbeChecksTest, ProblemsOfTheStartAreFailures) {
  context_.thorough = true;
  launch_.add_argv("./train");
  ProbeAnswer answer{.replies = {}, .complete = true, .error = ""};
  internal::ShimProblem& problem = *answer.replies.emplace_back().mutable_problem();
  problem.set_check("working-directory");
  problem.set_message("the working directory '/nowhere' cannot be used");
  answer.replies.emplace_back().set_exec_checked(true);
  const ProbeFindings findings = Judge(answer);
  ASSERT_EQ(findings.results.size(), 1u);
  EXPECT_EQ(findings.results[0].check(), "working-directory");
  EXPECT_EQ(findings.results[0].verdict(), v1::FAIL);
}

TEST_F(ProbeChecksTest, AProbeThatCannotBeStartedIsAWarning) {
  context_.thorough = true;
  launch_.add_argv("./train");
  const ProbeFindings findings =
      Judge({.replies = {}, .complete = false, .error = "earlier checks of this node hang"});
  ASSERT_EQ(findings.results.size(), 1u);
  EXPECT_EQ(findings.results[0].verdict(), v1::WARN);
  EXPECT_THAT(findings.results[0].message(), HasSubstr("earlier checks"));
  EXPECT_THAT(findings.traits, IsEmpty());
}

TEST_F(ProbeChecksTest, FilesOfTheNetworkThatVariablesNameAreReadAsTheRanksWould) {
  context_.cards = 8;
  context_.env = {{"HCL_GAUDINET_CONFIG_FILE", "/g.json"}, {"HCL_MAC_INFO_FILE", "/m.json"}};
  const ProbePlan plan = Plan();
  ASSERT_EQ(plan.request.paths_size(), 2);
  EXPECT_TRUE(plan.request.paths(1).with_text());
  const auto told = [](const char* path, const char* reason, const char* text) {
    internal::ProbeReply reply;
    reply.mutable_path()->set_path(path);
    reply.mutable_path()->set_reason(reason);
    reply.mutable_path()->set_text(text);
    reply.mutable_path()->set_with_text(true);
    return reply;
  };
  ProbeFindings findings =
      Judge({.replies = {told("/m.json", "", "{}"), told("/g.json", "", "{\"NIC_NET_CONFIG\": 1}")},
             .complete = true,
             .error = ""});
  ASSERT_EQ(findings.results.size(), 2u);
  EXPECT_EQ(findings.results[0].verdict(), v1::PASS);
  EXPECT_EQ(findings.results[1].verdict(), v1::FAIL);
  EXPECT_THAT(findings.results[1].message(),
              HasSubstr("HCL_GAUDINET_CONFIG_FILE=/g.json has no list NIC_NET_CONFIG"));
  const ProbeAnswer missing = {
      .replies = {told("/m.json", "ENOENT", ""), told("/g.json", "ENOENT", "")},
      .complete = true,
      .error = ""};
  EXPECT_EQ(Judge(missing).results[0].verdict(), v1::WARN);
  context_.node_count = 2;
  findings = Judge(missing);
  EXPECT_EQ(findings.results[0].verdict(), v1::FAIL);
  EXPECT_EQ(findings.results[1].verdict(), v1::FAIL);
  EXPECT_EQ(Judge({.replies = {}, .complete = false, .error = ""}).results[1].verdict(), v1::WARN);
}

class EfaProbeTest : public ProbeChecksTest {
 protected:
  EfaProbeTest() {
    context_.sysroot = root_.path();
    context_.cards = 8;
    context_.node_count = 2;
    launch_.add_argv("./train");
    for (const char* device : {"efa_0", "efa_1"}) {
      std::filesystem::create_directories(root_.File("sys/class/infiniband/") + device);
    }
  }
  std::vector<std::string> JudgedOf(const std::string& providers) {
    ProbeAnswer answer{.replies = {}, .complete = true, .error = ""};
    answer.replies.emplace_back().mutable_library()->set_file("/w.so");
    internal::ProbedProgram& version = *answer.replies.emplace_back().mutable_program();
    version.set_name("libfabric");
    version.set_output("libfabric: 1.22.0\n");
    internal::ProbedProgram& program = *answer.replies.emplace_back().mutable_program();
    program.set_name("efa");
    program.set_output(providers);
    std::vector<std::string> judged;
    for (const v1::CheckResult& result : Judge(answer).results) {
      judged.push_back(v1::Verdict_Name(result.verdict()) + " " + result.check() + " " +
                       result.message());
    }
    return judged;
  }

  TempFolder root_;
};

TEST_F(EfaProbeTest, TheWrapperAndTheProgramsOfEfaAreLookedFor) {
  const ProbePlan plan = Plan();
  EXPECT_THAT(plan.request.libraries(), ElementsAre("libhccl_ofi_wrapper.so"));
  ASSERT_EQ(plan.request.programs_size(), 2);
  for (const internal::ProbeProgram& program : plan.request.programs()) {
    EXPECT_THAT(program.folders(), ElementsAre("/opt/amazon/efa/bin"));
  }
}

TEST_F(EfaProbeTest, EveryDeviceHasAProviderWithReliableDatagrams) {
  constexpr char kOne[] = "provider: efa\n    domain: efa_0-rdm\n    type: FI_EP_RDM\n";
  constexpr char kOther[] = "provider: efa\n    domain: efa_1-rdm\n    type: FI_EP_RDM\n";
  EXPECT_THAT(JudgedOf(std::string(kOne) + kOther), ElementsAre("PASS ofi-wrapper /w.so"));
  EXPECT_THAT(JudgedOf(kOne), ElementsAre("PASS ofi-wrapper /w.so",
                                          "WARN efa fi_info -p efa finds 1 of 2 EFA devices"));
  EXPECT_THAT(JudgedOf("provider: efa\n    domain: efa_0-dgrm\n    type: FI_EP_DGRAM\n"),
              ElementsAre("PASS ofi-wrapper /w.so",
                          "FAIL efa fi_info -p efa finds no provider with FI_EP_RDM"));
}

}  // namespace
}  // namespace muster::testing
