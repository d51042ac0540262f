#include "common/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/annotate.h"

namespace muster {
namespace {

// One line, whatever others have put into a message.
std::string Line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace

Finding Failed(std::string check, const absl::Status& status, std::string fix) {
  return Bad(std::move(check), std::string(MessageOf(status)), std::move(fix));
}

std::string RenderFindings(const Findings& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.check.size());
  std::string text;
  for (const Finding& finding : findings) {
    const char* verdict = finding.verdict == Verdict::kOk     ? "ok"
                          : finding.verdict == Verdict::kWarn ? "warn"
                                                              : "FAIL";
    text += fmt::format("{:<4}  {:<{}}  {}", verdict, finding.check, width, Line(finding.text));
    if (!finding.fix.empty()) text += fmt::format("; to do: {}", Line(finding.fix));
    text += '\n';
  }
  return text;
}

std::string FindingsToJson(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json checks = Json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"check", finding.check},
                      {"result", finding.verdict == Verdict::kOk     ? "ok"
                                 : finding.verdict == Verdict::kWarn ? "warn"
                                                                     : "fail"},
                      {"text", finding.text},
                      {"fix", finding.fix}});
  }
  const Json json = {{"ok", AllWork(findings)}, {"checks", std::move(checks)}};
  // File names may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool AllWork(const Findings& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.verdict == Verdict::kFail; });
}

}  // namespace muster
