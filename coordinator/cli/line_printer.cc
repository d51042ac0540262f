#include "coordinator/cli/line_printer.h"

#include <unistd.h>

#include <cerrno>

#include "coordinator/cli/job_json.h"
#include "coordinator/cli/line_view.h"
#include "coordinator/cli/names.h"

namespace muster {
namespace {

constexpr size_t kWriteBytes = size_t{64} << 10;

}  // namespace

LinePrinter::LinePrinter(const v1::Job& job, bool json, bool colour)
    : job_(job), json_(json), colour_(colour) {}

void LinePrinter::Print(const LogLine& line) {
  if (json_) {
    text_ += LogLineToJson(line, HostOf(job_, line.rank));
  } else {
    text_ += LabelOf(line.rank);
    text_ += line.text;
    text_ += '\n';
  }
  if (text_.size() >= kWriteBytes) Flush();
}

bool LinePrinter::Flush() {
  std::string_view rest = text_;
  while (!rest.empty() && !closed_) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
    // Whatever else it is, nobody can be told on stdout.
    if (written < 0 && errno != EINTR) closed_ = true;
  }
  text_.clear();
  return !closed_;
}

const std::string& LinePrinter::LabelOf(uint32_t rank) {
  std::string& label = labels_[rank];
  if (label.empty()) label = RankLabel(rank, HostOf(job_, rank), colour_);
  return label;
}

}  // namespace muster
