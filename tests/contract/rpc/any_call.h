// Calls of every method of the public services, for tests of who may make them.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "muster/v1/agent.pb.h"
#include "muster/v1/authority.pb.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/member.pb.h"
#include "muster/v1/node.pb.h"
#include "muster/v1/trust.pb.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {

// `/package.Service/Method` of every method.
inline std::set<std::string> AllMethods() {
  std::set<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Hello::descriptor()->file(), v1::Job::descriptor()->file(),
        v1::Node::descriptor()->file(), v1::Token::descriptor()->file(),
        v1::Authority::descriptor()->file(), v1::CheckCertificateRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor& service = *file->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        methods.insert(fmt::format("/{}/{}", service.full_name(), service.method(m)->name()));
      }
    }
  }
  return methods;
}

// Calls a method, of whatever kind, with one empty message, and returns how it ends.
inline grpc::Status CallAny(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto context = MakeContext();
  const auto call = stub.PrepareCall(context.get(), method, &queue);
  int step = 0;
  const auto await = [&] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok)) << method;
    return ok;
  };
  call->StartCall(&step);
  await();
  const grpc::Slice nothing("");
  call->Write(grpc::ByteBuffer(&nothing, 1), &step);  // an empty message is one of any type
  await();
  call->WritesDone(&step);
  await();
  // The status comes behind the last message.
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, &step);
  } while (await());
  grpc::Status status;
  call->Finish(&status, &step);
  await();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

}  // namespace muster
