// What a check has found, and how it is shown. Pure.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <utility>
#include <vector>

namespace muster {

enum class Verdict {
  kOk,
  // It works, and somebody should know.
  kWarn,
  // It does not work.
  kFail,
};

struct Finding {
  // What was checked, one word: "certificate".
  std::string check;
  Verdict verdict = Verdict::kOk;
  // What was found.
  std::string text;
  // What to do about it; may be in the text already.
  std::string fix;
};
using Findings = std::vector<Finding>;

inline Finding Good(std::string check, std::string text) {
  return {std::move(check), Verdict::kOk, std::move(text), ""};
}
inline Finding Doubtful(std::string check, std::string text, std::string fix = "") {
  return {std::move(check), Verdict::kWarn, std::move(text), std::move(fix)};
}
inline Finding Bad(std::string check, std::string text, std::string fix = "") {
  return {std::move(check), Verdict::kFail, std::move(text), std::move(fix)};
}
// A failure with the message of `status`.
Finding Failed(std::string check, const absl::Status& status, std::string fix = "");

// One line each: `ok    certificate  good until ...`, `FAIL  connect  ...: do this`.
std::string RenderFindings(const Findings& findings);
// {"ok": true, "checks": [{"check": "certificate", "result": "ok", "text": "...", "fix": ""}]};
// results are ok, warn and fail.
std::string FindingsToJson(const Findings& findings);
// Whether no check has failed.
bool AllWork(const Findings& findings);

}  // namespace muster
