// A client of the gRPC API in C++: submits a job, watches it, prints its output, and ends with its
// exit status.
//
//   example_client [--grep RE] unix:/path/to/coordinator.sock REQUEST_ID HOST[,HOST...] PROGRAM
//       [ARGUMENT...]
//
// With --grep it gets only the lines that match a regular expression; the coordinator leaves out
// the others. The request id names the job: run again with the same one, the client finds the job
// of before.
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "common/io/log_frame.h"
#include "muster/v1/job.grpc.pb.h"

namespace {

namespace v1 = muster::v1;

// Prints what the ranks write, while it comes.
void PrintOutput(v1::JobService::Stub& jobs, const std::string& job_id, const std::string& grep) {
  grpc::ClientContext context;
  v1::ReadLogsRequest request;
  request.set_job_id(job_id);
  request.set_follow(true);
  request.set_grep(grep);
  const auto stream = jobs.ReadLogs(&context, request);
  // Output comes as frames: each has its time and its stream, and may be cut anywhere by the
  // pieces.
  std::map<uint32_t, muster::FrameReader> readers;
  for (v1::ReadLogsResponse piece; stream->Read(&piece); piece.Clear()) {
    muster::FrameReader& reader = readers[piece.rank()];
    reader.Feed(piece.data());
    while (const auto frame = reader.Next()) {
      if (frame->kind == muster::FrameKind::kStdout) std::cout << frame->payload << std::flush;
      if (frame->kind == muster::FrameKind::kStderr) std::cerr << frame->payload;
    }
    if (piece.missing_bytes() > 0) {
      std::cerr << "rank " << piece.rank() << ": " << piece.missing_bytes() << " bytes are lost\n";
    }
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok()) std::cerr << "logs: " << status.error_message() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string grep;  // everything
  if (argc > 2 && std::string(argv[1]) == "--grep") {
    grep = argv[2];
    argc -= 2;
    argv += 2;
  }
  if (argc < 5) {
    std::cerr << "usage: example_client [--grep RE] unix:/SOCKET REQUEST_ID HOST[,HOST...] PROGRAM "
                 "[ARGUMENT...]\n";
    return 2;
  }
  // A proxy of the shell's environment must not get between.
  grpc::ChannelArguments settings;
  settings.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto jobs = v1::JobService::NewStub(
      grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), settings));

  v1::SubmitJobRequest request;
  request.set_request_id(argv[2]);
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("example");
  std::istringstream hosts(argv[3]);
  for (std::string host; std::getline(hosts, host, ',');) {
    v1::HostEntry& entry = *spec.add_hosts();
    entry.set_host(host);
    entry.set_slot_count(1);
    entry.set_source("the command line");
  }
  spec.set_working_directory("/");
  spec.mutable_program()->set_kind(v1::Program::COMMAND);
  spec.mutable_program()->set_target(argv[4]);
  for (int i = 5; i < argc; ++i) spec.mutable_program()->add_args(argv[i]);

  v1::Job job;
  {
    grpc::ClientContext context;
    const grpc::Status status = jobs->SubmitJob(&context, request, &job);
    if (!status.ok()) {
      std::cerr << "submit: " << status.error_message() << "\n";
      return 122;
    }
  }
  std::cerr << "job " << job.job_id() << "\n";
  std::thread output([&] { PrintOutput(*jobs, job.job_id(), grep); });

  grpc::ClientContext context;
  v1::WatchJobRequest watch;
  watch.set_job_id(job.job_id());
  const auto changes = jobs->WatchJob(&context, watch);
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  for (v1::WatchJobResponse change; changes->Read(&change); change.Clear()) {
    job.set_exit_code(change.job().exit_code());
    if (change.job().state() == state) continue;
    state = change.job().state();
    std::cerr << "state " << v1::Job::State_Name(state) << " " << change.job().reason() << "\n";
  }
  const grpc::Status status = changes->Finish();
  output.join();
  if (!status.ok()) {
    std::cerr << "watch: " << status.error_message() << "\n";
    return 122;
  }
  return job.exit_code();
}
