// The filters of ReadLogs against the whole coordinator. What they choose is tested with LogFilter.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "common/io/log_frame.h"
#include "coordinator/logs/log_filter.h"
#include "tests/contract/rpc/read_logs_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Frame(FrameKind kind, int64_t time_ns, std::string_view payload) {
  std::string bytes;
  AppendFrame(bytes, kind, time_ns, payload);
  return bytes;
}
std::string Out(int64_t time_ns, std::string_view text) {
  return Frame(FrameKind::kStdout, time_ns, text);
}
std::string Err(int64_t time_ns, std::string_view text) {
  return Frame(FrameKind::kStderr, time_ns, text);
}
std::string Dropped(FrameKind kind, int64_t time_ns, size_t padding) {
  const auto counters = EncodeFrameGap({7, 0});
  return Frame(kind, time_ns,
               std::string(counters.data(), counters.size()) + std::string(padding, '\0'));
}
std::string End(int64_t time_ns) {
  const auto counters = EncodeFrameEnd({100, 7});
  return Frame(FrameKind::kEnd, time_ns, {counters.data(), counters.size()});
}

class ReadLogsFilterTest : public ReadLogsTest {
 protected:
  v1::ReadLogsRequest Grep(bool follow, const std::string& expression) {
    v1::ReadLogsRequest request = Request(follow);
    request.add_ranks(0);
    request.set_grep(expression);
    return request;
  }
  // Reads `count` responses with data of a call that goes on.
  static std::string ReadSome(grpc::ClientReader<v1::ReadLogsResponse>& stream, int count) {
    std::string bytes;
    for (v1::ReadLogsResponse response; count > 0 && stream.Read(&response); --count) {
      bytes += response.data();
    }
    return bytes;
  }
};

TEST_F(ReadLogsFilterTest, SendsOnlyWhatIsAskedFor) {
  Run();
  const std::string file = Out(1, "old x\n") + Out(5, "x\ny\n") + Err(6, "x\n") +
                           Dropped(FrameKind::kHole, 7, 50) + Out(8, "y\nyx\n") + End(9);
  agent_->Upload(key_, 0, 0, file);
  agent_->Upload(key_, 1, 0, file);
  v1::ReadLogsRequest request = Grep(false, "x$");
  request.add_streams(v1::ReadLogsRequest::STDOUT);
  request.set_since_ns(5);
  const ReadResult result = Read(request);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  ASSERT_EQ(result.bytes.size(), 1u);
  EXPECT_EQ(result.bytes.at(0),
            Out(5, "x\n") + Dropped(FrameKind::kGap, 7, 0) + Out(8, "yx\n") + End(9));
  EXPECT_EQ(result.first_offset.at(0), 0u) << "a position in the filtered file";
}

TEST_F(ReadLogsFilterTest, SaysWhatIsWrongWithAnExpressionHoweverLong) {
  Run();
  for (const std::string& part : {std::string("("), std::string("\xff(")}) {
    std::string expression;
    while (expression.size() + part.size() <= 4096) expression += part;
    const grpc::Status status = Read(Grep(false, expression)).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("missing )"));
  }
}

TEST_F(ReadLogsFilterTest, LeavesFramesAsTheyAreWithoutLines) {
  Run();
  agent_->Upload(key_, 0, 0, Out(1, "o") + Err(2, "old\ner") + Err(3, "r\n") + Out(4, "p\n"));
  v1::ReadLogsRequest request = Request(false);
  request.add_ranks(0);
  request.add_streams(v1::ReadLogsRequest::STDERR);
  EXPECT_EQ(Read(request).bytes.at(0), Err(2, "old\ner") + Err(3, "r\n"));
  request.set_since_ns(3);
  EXPECT_EQ(Read(request).bytes.at(0), Err(3, "r\n"));
  request.set_whole_lines(true);
  EXPECT_EQ(Read(request).bytes.at(0), Err(3, "err\n") + Out(4, "")) << "and the time of the end";
}

TEST_F(ReadLogsFilterTest, RefusesWhatIsNoFilter) {
  Run();
  grpc::Status status = Read(Grep(false, "ab(c")).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("grep: 'ab(c': missing )"));
  status = Read(Grep(true, std::string(5000, 'a'))).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("5000 bytes, at most 4096"));
  v1::ReadLogsRequest request = Request(false);
  request.add_streams(v1::ReadLogsRequest::STREAM_UNSPECIFIED);
  status = Read(request).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("expected STDOUT or STDERR, got 0"));
}

TEST_F(ReadLogsFilterTest, SendsALineWhenItHasEnded) {
  Run();
  agent_->Upload(key_, 0, 0, Out(1, "a1\na2"));
  const uint64_t size = Out(1, "a1\na2").size();
  ReadResult result = Read(Grep(false, "a"));
  EXPECT_EQ(result.bytes.at(0), Out(1, "a1\n") + Out(1, "a2")) << "the file stops there";
  EXPECT_EQ(result.unfinished.at(0), Out(1, "a2"));

  const auto context = MakeContext();
  const auto stream = jobs_->ReadLogs(context.get(), Grep(true, "a"));
  EXPECT_EQ(ReadSome(*stream, 1), Out(1, "a1\n"));
  const std::string more = Out(2, "b\na3") + End(3);
  agent_->Upload(key_, 0, size, more);
  EXPECT_EQ(ReadSome(*stream, 1), Out(2, "a2b\n") + Out(3, "a3") + End(3));
  EndJob(size + more.size(), 0);
  EXPECT_EQ(ReadSome(*stream, 1), "");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ReadLogsFilterTest, BeginsWithTheLastLines) {
  Run();
  const std::string file = Out(1, "1\n2\nx\n") + Err(2, "3\n") + Out(3, "4");
  agent_->Upload(key_, 0, 0, file);
  v1::ReadLogsRequest request = Grep(false, "[0-9]");
  request.set_tail_lines(2);
  ReadResult result = Read(request);
  EXPECT_EQ(result.bytes.at(0), Out(1, "2\n") + Err(2, "3\n") + Out(3, "4"));
  EXPECT_EQ(result.first_offset.at(0), 2u) << "as if all lines had been sent";
  request.set_tail_lines(0);
  EXPECT_EQ(Read(request).bytes.at(0), Out(3, "4"));

  request.set_tail_lines(1);
  request.set_follow(true);
  const auto context = MakeContext();
  const auto stream = jobs_->ReadLogs(context.get(), request);
  EXPECT_EQ(ReadSome(*stream, 1), Err(2, "3\n"));
  const std::string more = Out(4, "\n5\n6\nx\n");
  agent_->Upload(key_, 0, file.size(), more);
  EXPECT_EQ(ReadSome(*stream, 1), Out(4, "4\n5\n6\n"));
  EndJob(file.size() + more.size(), 0);
  ReadSome(*stream, 1);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ReadLogsFilterTest, GoesOnBehindWhatTheCallerHas) {
  Run();
  const std::string file = Out(1, "a\nb\n") + Out(2, "b\na\n") + Err(3, "a\n") + End(4);
  agent_->Upload(key_, 0, 0, file);
  for (const std::string expression : {"", "a"}) {
    v1::ReadLogsRequest request = Grep(false, expression);
    const std::string all = Read(request).bytes.at(0);
    EXPECT_EQ(all == file, expression.empty());
    request.add_from()->set_attempt(1);
    for (uint64_t offset = 0; offset <= all.size(); ++offset) {
      request.mutable_from(0)->set_offset(offset);
      const ReadResult result = Read(request);
      EXPECT_EQ(result.bytes.at(0), all.substr(offset));
      EXPECT_EQ(result.first_offset.at(0), offset);
    }
    // What was known of another attempt says nothing about this one.
    request.mutable_from(0)->set_attempt(2);
    EXPECT_EQ(Read(request).bytes.at(0), all);
  }
}

TEST_F(ReadLogsFilterTest, SaysWhereTheFileIsDamaged) {
  Run();
  const std::string good = Out(1, "a\n") + Out(2, "b\na");
  agent_->Upload(key_, 0, 0, good + std::string(1000, '?'));
  const ReadResult result = Read(Grep(false, "a"));
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.bytes.at(0), Out(1, "a\n") + Out(2, "a"));
  EXPECT_EQ(result.damaged_at.at(0), good.size());
  EXPECT_EQ(result.missing.at(0), 0u);
}

TEST_F(ReadLogsFilterTest, SendsTheSameHoweverTheFileArrived) {
  Run();
  std::mt19937 random(3);
  std::string file;
  for (int64_t time = 1; file.size() < 3 * kMaxLogChunkBytes; ++time) {
    std::string text;
    while (random() % 100 != 0) text += random() % 5 == 0 ? "line\nx" : "aaaaaaaaa b";
    file += random() % 4 == 0 ? Err(time, text) : Out(time, text);
  }
  file += End(1);
  const v1::ReadLogsRequest request = Grep(true, "^xa+ b$|bl");
  ReadResult followed;
  std::thread reader([&] { followed = Read(request); });
  for (size_t at = 0; at < file.size();) {
    const size_t size = std::min<size_t>(file.size() - at, random() % 100'000 + 1);
    agent_->Upload(key_, 0, at, file.substr(at, size));
    at += size;
  }
  EndJob(file.size(), 0);
  reader.join();
  LogFilterOptions options;
  options.whole_lines = true;
  options.pattern = *LinePattern::Make(request.grep());
  std::string expected;
  LogFilter(options, {}).Add(file, &expected);
  EXPECT_GT(expected.size(), kMaxLogChunkBytes / 4);
  EXPECT_TRUE(followed.bytes.at(0) == expected);
  EXPECT_TRUE(Read(Grep(false, request.grep())).bytes.at(0) == expected);
}

TEST_F(ReadLogsFilterTest, IsFairAndCanBeCancelledWhereNothingPasses) {
  Run();
  const std::string chunk =
      Out(1, std::string(kMaxLogChunkBytes - kFrameHeaderBytes - 1, 'x') + "\n");
  ASSERT_LE(chunk.size(), kMaxLogChunkBytes);
  const uint64_t chunks = 160;
  for (uint64_t i = 0; i < chunks; ++i) agent_->SendChunk(key_, 0, i * chunk.size(), chunk);
  agent_->AwaitCommitted(0, chunks * chunk.size());
  agent_->Upload(key_, 1, 0, Out(1, "y\n"));
  v1::ReadLogsRequest request = Grep(true, "y");
  request.add_ranks(1);
  const auto context = MakeContext();
  const auto stream = jobs_->ReadLogs(context.get(), request);
  EXPECT_EQ(ReadSome(*stream, 1), Out(1, "y\n")) << "of the short log";
  EXPECT_EQ(Read(Grep(false, "y")).bytes.at(0), Out(1, "")) << "another reader";
  context->TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // One that finds nothing ends with the job.
  ReadResult result;
  std::thread reader([&] { result = Read(Grep(true, "nothing")); });
  EndJob(chunks * chunk.size(), Out(1, "y\n").size());
  reader.join();
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.missing.at(0), 0u);
}

}  // namespace
}  // namespace muster
