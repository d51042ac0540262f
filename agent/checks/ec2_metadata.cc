#include "agent/checks/ec2_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/checks/http_exchange.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::minutes kAskAgain{1};
constexpr size_t kMaxValueBytes = 255;
// A few seconds would do; the service wants at least one.
constexpr char kTokenLife[] = "X-aws-ec2-metadata-token-ttl-seconds: 60";

std::string_view Variable(const std::vector<std::string>& environ, std::string_view name) {
  for (const std::string& pair : environ) {
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return std::string_view(pair).substr(name.size() + 1);
    }
  }
  return {};
}

// One line of plain characters, as tokens and values are; it goes into requests and reports.
bool IsPlain(const std::string& text) {
  return text.size() <= kMaxValueBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

absl::Status Unexpected(const std::string& target, const HttpAnswer& answer) {
  return absl::UnavailableError(
      fmt::format("{}: HTTP {}{}", target, answer.status,
                  answer.status == 200 ? " with something else than a name" : ""));
}

}  // namespace

std::string Ec2EndpointOf(const std::vector<std::string>& environ, const std::string& usual) {
  const std::string_view disabled = Variable(environ, "AWS_EC2_METADATA_DISABLED");
  if (disabled == "true" || disabled == "True" || disabled == "TRUE") return "";
  const std::string_view given = Variable(environ, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
  return given.empty() ? usual : std::string(given);
}

absl::StatusOr<Ec2Instance> AskEc2(const std::string& url, Steady::time_point deadline) {
  const absl::StatusOr<HttpEndpoint> endpoint = ParseHttpEndpoint(url);
  if (!endpoint.ok()) return endpoint.status();
  const std::string token_target = "/latest/api/token";
  const absl::StatusOr<HttpAnswer> token = ExchangeHttp(
      *endpoint, {.method = "PUT", .target = token_target, .headers = {kTokenLife}}, deadline);
  if (!token.ok()) return token.status();
  if (token->status != 200 || token->body.empty() || !IsPlain(token->body)) {
    return Unexpected(token_target, *token);
  }
  Ec2Instance instance;
  struct Value {
    const char* name;
    std::string* to;
    bool may_lack;
  };
  for (const Value& value :
       {Value{"placement/availability-zone", &instance.availability_zone, false},
        Value{"placement/group-name", &instance.placement_group, true},
        Value{"instance-type", &instance.type, false}}) {
    const std::string target = fmt::format("/latest/meta-data/{}", value.name);
    absl::StatusOr<HttpAnswer> answer = ExchangeHttp(
        *endpoint, {.target = target, .headers = {"X-aws-ec2-metadata-token: " + token->body}},
        deadline);
    if (!answer.ok()) return answer.status();
    // Of an instance that is in no group there is no name.
    if (answer->status == 404 && value.may_lack) continue;
    if (answer->status != 200 || answer->body.empty() || !IsPlain(answer->body)) {
      return Unexpected(target, *answer);
    }
    *value.to = std::move(answer->body);
  }
  return instance;
}

void Ec2Metadata::Ask(Done done) {
  const bool is_stale = stale_at_ && executor_.clock().Now() >= *stale_at_;
  if (known_ && !is_stale) {
    executor_.Post([done = std::move(done), known = *known_, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) done(known);
    });
    return;
  }
  waiting_.push_back(std::move(done));
  if (waiting_.size() > 1) return;
  if (worker_ == nullptr) worker_ = std::make_unique<WorkerThread>("ec2-metadata");
  // The thread must not hold what belongs to the loop: only the task that it posts does.
  worker_->Post([this, executor = &executor_, endpoint = endpoint_, limit = limit_,
                 alive = std::weak_ptr<int>(alive_)] {
    absl::StatusOr<Ec2Instance> answer = AskEc2(endpoint, Steady::now() + limit);
    executor->Post([this, alive, answer = std::move(answer)] {
      if (!alive.expired()) OnAnswer(answer);
    });
  });
}

void Ec2Metadata::OnAnswer(absl::StatusOr<Ec2Instance> answer) {
  stale_at_.reset();
  if (!answer.ok()) stale_at_ = executor_.clock().Now() + kAskAgain;
  known_ = std::move(answer);
  for (const Done& done : std::exchange(waiting_, {})) done(*known_);
}

}  // namespace muster
