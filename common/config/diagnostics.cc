#include "common/config/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/config/text.h"

namespace muster {
namespace {

// Sorted by line within a file; files keep the order in which they first appear.
std::vector<const Diagnostic*> InOrder(const std::vector<Diagnostic>& diagnostics) {
  std::vector<std::string_view> files;
  for (const Diagnostic& d : diagnostics) {
    if (std::find(files.begin(), files.end(), d.file) == files.end()) files.push_back(d.file);
  }
  std::vector<const Diagnostic*> sorted;
  for (const std::string_view file : files) {
    const auto begin = static_cast<ptrdiff_t>(sorted.size());
    for (const Diagnostic& d : diagnostics) {
      if (d.file == file) sorted.push_back(&d);
    }
    std::stable_sort(sorted.begin() + begin, sorted.end(),
                     [](const Diagnostic* a, const Diagnostic* b) { return a->line < b->line; });
  }
  return sorted;
}

void Keep(std::vector<Diagnostic>& list, size_t& dropped, Diagnostic diagnostic) {
  const auto same = [&](const Diagnostic& d) {
    return d.line == diagnostic.line && d.message == diagnostic.message &&
           d.file == diagnostic.file;
  };
  if (std::any_of(list.begin(), list.end(), same)) return;
  if (list.size() < Diagnostics::kMaxKept) {
    list.push_back(std::move(diagnostic));
  } else {
    ++dropped;
  }
}

}  // namespace

std::string Origin::Text() const {
  return line > 0 ? fmt::format("{}:{}", Printable(file), line) : Printable(file);
}

std::string Diagnostic::Text() const {
  return fmt::format("{}: {}", Origin{file, line}.Text(), message);
}

void Diagnostics::Error(std::string_view file, int line, std::string message) {
  Keep(errors, dropped_errors, {std::string(file), line, std::move(message)});
}

void Diagnostics::Warn(std::string_view file, int line, std::string message) {
  Keep(warnings, dropped_warnings, {std::string(file), line, std::move(message)});
}

std::string Diagnostics::ErrorText() const {
  std::string text;
  for (const Diagnostic* d : InOrder(errors)) {
    if (!text.empty()) text += '\n';
    text += d->Text();
  }
  if (dropped_errors > 0) text += fmt::format("\n... and {} more errors", dropped_errors);
  return text;
}

std::vector<std::string> Diagnostics::WarningTexts() const {
  std::vector<std::string> texts;
  for (const Diagnostic* d : InOrder(warnings)) texts.push_back(d->Text());
  if (dropped_warnings > 0)
    texts.push_back(fmt::format("... and {} more warnings", dropped_warnings));
  return texts;
}

}  // namespace muster
