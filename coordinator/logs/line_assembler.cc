#include "coordinator/logs/line_assembler.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "coordinator/logs/carriage_return.h"
#include "coordinator/logs/control_sequences.h"

namespace muster {

std::string LinePrefix(uint32_t rank, std::string_view host) {
  return fmt::format("[{}@{}] ", rank, host);
}

LineAssembler::LineAssembler(LineFormat format) : format_(std::move(format)) {}

void LineAssembler::Add(LogStream stream, std::string_view bytes, std::string* out) {
  Held& held = held_[stream == LogStream::kStdout ? 0 : 1];
  // About one prefix per hundred bytes; saves most of the growing.
  out->reserve(out->size() + bytes.size() + bytes.size() / 4);
  while (!bytes.empty()) {
    const void* at = std::memchr(bytes.data(), '\n', bytes.size());
    if (at == nullptr) {
      Hold(held, bytes, out);
      return;
    }
    const size_t length = static_cast<size_t>(static_cast<const char*>(at) - bytes.data());
    if (held.text.empty() && !held.continued && length <= format_.max_line_bytes) {
      AppendLine(bytes.substr(0, length), out);
      held.shown.clear();
    } else {
      Hold(held, bytes.substr(0, length), out);
      EndHeld(held, out);
    }
    bytes.remove_prefix(length + 1);
  }
}

void LineAssembler::Hold(Held& held, std::string_view rest, std::string* out) {
  while (HoldLine(rest, format_.max_line_bytes, held.text)) {
    AppendLine(held.text, out);
    held.text.clear();
    held.continued = true;
  }
}

void LineAssembler::EndHeld(Held& held, std::string* out) {
  // The end of a line that was cut exactly there is no line of its own.
  if (!held.continued || !held.text.empty()) AppendLine(held.text, out);
  held.text.clear();
  held.continued = false;
  held.shown.clear();
}

void LineAssembler::AddGap(uint64_t stdout_bytes, uint64_t stderr_bytes, std::string* out) {
  Finish(out);
  AppendLine(fmt::format("(muster: output lost here: {} bytes of stdout, {} bytes of stderr)",
                         stdout_bytes, stderr_bytes),
             out);
}

bool LineAssembler::EmitProgress(std::string* out) {
  bool emitted = false;
  for (Held& held : held_) {
    if (held.text.find('\r') == std::string::npos) continue;
    const std::string_view state = NewestState(held.text);
    if (state.empty() || state == held.shown) continue;
    AppendLine(state, out);
    held.shown = state;
    emitted = true;
  }
  return emitted;
}

void LineAssembler::Finish(std::string* out) {
  for (Held& held : held_) {
    if (!held.text.empty() && NewestState(held.text) != held.shown) AppendLine(held.text, out);
    held.text.clear();
    held.continued = false;
    held.shown.clear();
  }
}

void LineAssembler::AppendLine(std::string_view line, std::string* out) const {
  out->append(format_.prefix);
  if (std::memchr(line.data(), '\r', line.size()) != nullptr) line = NewestState(line);
  if (format_.control_sequences == ControlSequences::kKeep || !HasControls(line)) {
    out->append(line);
  } else {
    AppendFiltered(line, format_.control_sequences, out);
  }
  out->push_back('\n');
}

}  // namespace muster
