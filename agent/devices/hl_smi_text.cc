#include "agent/devices/hl_smi_text.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "agent/devices/attribute.h"

namespace muster {
namespace {

constexpr size_t kShownBytes = 120;

std::string Stripped(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace({text.data(), text.size()}));
}

std::vector<std::string> Columns(std::string_view line) {
  std::vector<std::string> columns =
      absl::StrSplit(absl::string_view(line.data(), line.size()), ',');
  for (std::string& column : columns) absl::StripAsciiWhitespace(&column);
  return columns;
}

// "memory.used [MiB]" is the field memory.used.
std::string FieldOf(const std::string& column) {
  return absl::AsciiStrToLower(Stripped(column.substr(0, column.find('['))));
}

bool IsHeader(const std::vector<std::string>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const std::string& column) {
    const std::string field = FieldOf(column);
    return field == "index" || field == "module_id";
  });
}

struct Quantity {
  double value = 0;
  std::string unit;
};

// "512 MiB", "25 C", "0 %", "94". Nothing for "N/A" and for what is negative.
std::optional<Quantity> ParseQuantity(const std::string& text) {
  Quantity quantity;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), quantity.value);
  if (result.ec != std::errc() || !std::isfinite(quantity.value) || quantity.value < 0 ||
      quantity.value > 1e15) {
    return std::nullopt;
  }
  quantity.unit = Stripped(
      std::string_view(result.ptr, static_cast<size_t>(text.data() + text.size() - result.ptr)));
  return quantity;
}

std::optional<uint64_t> Whole(const std::string& text) {
  const std::optional<Quantity> quantity = ParseQuantity(text);
  if (!quantity.has_value()) return std::nullopt;
  return static_cast<uint64_t>(std::llround(quantity->value));
}

// Plain numbers are MiB, as the tool has them.
std::optional<uint64_t> Bytes(const std::string& text) {
  const std::optional<Quantity> quantity = ParseQuantity(text);
  if (!quantity.has_value()) return std::nullopt;
  const char first = quantity->unit.empty() ? 'm' : absl::ascii_tolower(quantity->unit.front());
  const double scale = first == 'k'   ? 1024.0
                       : first == 'm' ? 1048576.0
                       : first == 'g' ? 1073741824.0
                                      : 1.0;
  return static_cast<uint64_t>(quantity->value * scale);
}

std::optional<uint64_t> Milliwatts(const std::string& text) {
  const std::optional<Quantity> quantity = ParseQuantity(text);
  if (!quantity.has_value()) return std::nullopt;
  const double scale = absl::AsciiStrToLower(quantity->unit) == "mw" ? 1.0 : 1000.0;
  return static_cast<uint64_t>(std::llround(quantity->value * scale));
}

bool IsSaid(const std::string& value) {
  return !value.empty() && value != "N/A" && value != "[N/A]" && value != "Unknown";
}

void Take(const std::string& field, const std::string& value, HlSmiCard& card) {
  if (!IsSaid(value)) return;
  v1::DeviceReading& reading = card.reading;
  if (field == "bus_id") card.device.set_pci_address(value);
  if (field == "name") card.device.set_type(value);
  if (field == "driver_version") card.device.set_driver_version(value);
  if (field == "serial") card.device.set_serial(value);
  const auto give = [](std::optional<uint64_t> number, auto set) {
    if (number.has_value()) set(*number);
  };
  const auto small = [](uint64_t n) {
    return static_cast<uint32_t>(std::min<uint64_t>(n, 1 << 20));
  };
  if (field == "utilization.aip") {
    give(Whole(value), [&](uint64_t n) { reading.set_utilization_percent(small(n)); });
  } else if (field == "memory.used") {
    give(Bytes(value), [&](uint64_t n) { reading.set_memory_used_bytes(n); });
  } else if (field == "memory.total") {
    give(Bytes(value), [&](uint64_t n) { reading.set_memory_total_bytes(n); });
  } else if (field == "temperature.aip") {
    give(Whole(value), [&](uint64_t n) { reading.set_temperature_celsius(small(n)); });
  } else if (field == "power.draw") {
    give(Milliwatts(value), [&](uint64_t n) { reading.set_power_milliwatts(n); });
  } else if (field == "ecc.errors.corrected.volatile.total") {
    give(Whole(value), [&](uint64_t n) { reading.set_ecc_corrected(n); });
  } else if (field == "ecc.errors.uncorrected.volatile.total") {
    give(Whole(value), [&](uint64_t n) { reading.set_ecc_uncorrected(n); });
  }
}

std::optional<HlSmiCard> ParseRow(const std::vector<std::string>& columns,
                                  const std::vector<std::string>& fields) {
  if (columns.size() != fields.size()) return std::nullopt;
  HlSmiCard card;
  card.device.set_numa_node(-1);
  bool has_index = false;
  bool has_module = false;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::optional<uint32_t> number = ParseNumber(columns[i]);
    if (fields[i] == "index") {
      if (!number.has_value()) return std::nullopt;
      card.device.set_index(*number);
      has_index = true;
    } else if (fields[i] == "module_id") {
      if (!number.has_value()) return std::nullopt;
      card.device.set_module_id(*number);
      card.reading.set_module_id(*number);
      has_module = true;
    } else {
      Take(fields[i], columns[i], card);
    }
  }
  if (!has_index || !has_module) return std::nullopt;
  return card;
}

}  // namespace

HlSmiText ParseHlSmi(std::string_view text, const std::vector<std::string>& fields) {
  HlSmiText out;
  std::vector<std::string> columns_are = fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line = Stripped(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::vector<std::string> columns = Columns(line);
    if (IsHeader(columns)) {
      columns_are.clear();
      for (const std::string& column : columns) columns_are.push_back(FieldOf(column));
      continue;
    }
    if (std::optional<HlSmiCard> card = ParseRow(columns, columns_are)) {
      out.cards.push_back(*std::move(card));
      continue;
    }
    if (out.other_lines++ == 0) out.first_other = line.substr(0, kShownBytes);
  }
  return out;
}

}  // namespace muster
