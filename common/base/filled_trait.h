// How a node tells among its traits which variables of ranks it has filled in by itself: the trait
// `filled.NAME` with `SOURCE VALUE`. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::string_view kFilledTrait = "filled.";

struct FilledVariable {
  std::string name;
  // FILE:LINE, without blanks.
  std::string source;
  std::string value;
};

inline std::string FilledTraitName(std::string_view variable) {
  return std::string(kFilledTrait) + std::string(variable);
}

inline std::string FilledTraitValue(std::string_view source, std::string_view value) {
  return std::string(source) + " " + std::string(value);
}

// Nothing when it is another trait.
inline std::optional<FilledVariable> ParseFilledTrait(std::string_view name,
                                                      std::string_view value) {
  if (!name.starts_with(kFilledTrait)) return std::nullopt;
  const size_t blank = value.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  return FilledVariable{std::string(name.substr(kFilledTrait.size())),
                        std::string(value.substr(0, blank)), std::string(value.substr(blank + 1))};
}

}  // namespace muster
