// What is wrong with a file of the user, with the place of every problem. The parsers of this
// directory collect everything they find instead of stopping at the first problem. Values, usable
// from any thread; never does I/O.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// A place in a file of the user, or a flag ("--include") when `line` is 0.
struct Origin {
  std::string file;
  int line = 0;

  // "FILE:LINE", or "FILE" when `line` is 0. Always printable UTF-8, whatever the file is called,
  // so that it may go into a text field of a message.
  std::string Text() const;
};

// One problem. `line` counts from 1; 0 means the whole file.
struct Diagnostic {
  std::string file;
  int line = 0;
  std::string message;

  // "FILE:LINE: message", or "FILE: message" when `line` is 0.
  std::string Text() const;
};

// The problems of one or several files, in the order in which they were found.
struct Diagnostics {
  // Errors beyond this number are counted, not kept: a binary file must not fill the screen.
  static constexpr size_t kMaxKept = 200;

  std::vector<Diagnostic> errors;
  std::vector<Diagnostic> warnings;
  // Errors and warnings found beyond kMaxKept.
  size_t dropped_errors = 0;
  size_t dropped_warnings = 0;

  // The same problem at the same place is kept once.
  void Error(std::string_view file, int line, std::string message);
  void Warn(std::string_view file, int line, std::string message);
  void Error(const Origin& at, std::string message) { Error(at.file, at.line, std::move(message)); }
  void Warn(const Origin& at, std::string message) { Warn(at.file, at.line, std::move(message)); }

  bool ok() const { return errors.empty(); }
  // Every error, one per line, without a final newline, sorted by line within each file.
  std::string ErrorText() const;
  // Every warning as its Text(), in the same order.
  std::vector<std::string> WarningTexts() const;
};

}  // namespace muster
