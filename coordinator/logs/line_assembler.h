// Makes labelled lines of the output of one rank: `[3@node-1] text`. Lines are a view: the
// transport and the files carry bytes, only this class splits them. Pure and single-threaded; one
// instance per rank. It never decodes: text is bytes, and memory stays below `max_line_bytes` per
// stream.
//
// A line is held until its end, until it is `max_line_bytes` long, or until the rank ends, so that
// lines of many ranks can be mixed on one console without tearing. stdout and stderr are held
// apart.
//
// A carriage return inside a line overwrites what stood there, as on a terminal: of a progress bar
// only the newest state is shown, on the rank's own line. `\r\n` ends a line like `\n`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/logs/carriage_return.h"

namespace muster {

// What becomes of control characters and escape sequences.
enum class ControlSequences {
  // Everything as it is: for pipes and files.
  kKeep,
  // Colours stay and are reset at the end of the line; everything else goes: for terminals.
  kColourOnly,
  // Everything goes but tabs.
  kNone,
};

struct LineFormat {
  // Put in front of every line, for example `[3@node-1] `; may be empty.
  std::string prefix;
  ControlSequences control_sequences = ControlSequences::kKeep;
  // A longer line is cut into lines of this many bytes.
  size_t max_line_bytes = kMaxLineBytes;
};

enum class LogStream { kStdout, kStderr };

// Returns `[rank@host] `.
std::string LinePrefix(uint32_t rank, std::string_view host);

class LineAssembler {
 public:
  explicit LineAssembler(LineFormat format);

  // Takes output of one stream and appends the lines that it completes, each with its `\n`, to
  // `out`.
  void Add(LogStream stream, std::string_view bytes, std::string* out);
  // Appends a line that says how many bytes were lost here. Held text comes first, as a line.
  void AddGap(uint64_t stdout_bytes, uint64_t stderr_bytes, std::string* out);
  // Appends the newest state of a progress bar (held text that has a carriage return) as a line,
  // when it is another one than the last time. Call now and then while nothing else comes. True
  // when it did.
  bool EmitProgress(std::string* out);
  // Appends held text as lines: the rank has ended. May be called again.
  void Finish(std::string* out);
  // True when an unfinished line is held.
  bool holds_text() const { return !held_[0].text.empty() || !held_[1].text.empty(); }

 private:
  struct Held {
    std::string text;
    // The line's beginning was already given out because it was too long.
    bool continued = false;
    // What EmitProgress gave out last.
    std::string shown;
  };

  void Hold(Held& held, std::string_view rest, std::string* out);
  void EndHeld(Held& held, std::string* out);
  void AppendLine(std::string_view line, std::string* out) const;

  const LineFormat format_;
  Held held_[2];
};

// Appends `line` to `out` without what `mode` removes. `line` has no `\n`.
void AppendFiltered(std::string_view line, ControlSequences mode, std::string* out);

}  // namespace muster
