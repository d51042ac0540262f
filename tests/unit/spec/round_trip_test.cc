// Properties of all strings, tried on random ones (seeds are fixed): what is quoted and read back
// is the same, byte for byte. Half of the bytes come from those that a shell, YAML or a parser
// might act on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/text.h"
#include "coordinator/spec/job_yaml.h"
#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

constexpr std::string_view kTouchy = " \t\n\r\"'\\$`~#=:;&|<>(){}[]*?!%@,-+/.0aA_";

std::string RandomBytes(std::mt19937_64& random, size_t max_length) {
  std::string text;
  const size_t length = random() % (max_length + 1);
  while (text.size() < length) {
    const char byte =
        random() % 2 == 0 ? kTouchy[random() % kTouchy.size()] : static_cast<char>(random());
    if (byte != '\0') text += byte;
  }
  return text;
}

// Well-formed UTF-8 without NUL: YAML has no other.
std::string RandomText(std::mt19937_64& random, size_t max_characters) {
  std::string text;
  for (size_t n = random() % (max_characters + 1); n > 0; --n) {
    if (random() % 3 != 0) {
      text += kTouchy[random() % kTouchy.size()];
      continue;
    }
    const uint32_t limits[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
    uint32_t code = 1 + static_cast<uint32_t>(random()) % limits[random() % 4];
    if (code >= 0xD800 && code <= 0xDFFF) code = 'x';
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | (code >> 6));
    } else if (code < 0x10000) {
      text += static_cast<char>(0xE0 | (code >> 12));
      text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    } else {
      text += static_cast<char>(0xF0 | (code >> 18));
      text += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
      text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    }
    if (code >= 0x80) text += static_cast<char>(0x80 | (code & 0x3F));
  }
  return text;
}

// A double-quoted YAML scalar.
std::string QuoteYaml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

TEST(RoundTrip, R4EnvValuesSurviveQuoting) {
  std::mt19937_64 random(20240607);
  for (int i = 0; i < 20000; ++i) {
    const std::string value = RandomBytes(random, 24);
    const EnvResult result = ParseEnv("BEFORE=1\nX=" + QuoteEnvValue(value) + "\nAFTER=2\n");
    ASSERT_EQ(result.diagnostics.ErrorText(), "") << Printable(value);
    ASSERT_EQ(result.Warnings(), "") << Printable(value);
    ASSERT_EQ(result.assignments.size(), 3u) << Printable(value);
    const v1::EnvAssignment& x = result.assignments[1];
    ASSERT_LE(x.parts_size(), 1) << Printable(value);
    ASSERT_EQ(x.parts_size() == 0 ? "" : x.parts(0).literal(), value) << Printable(value);
    ASSERT_EQ(ShowValue(result.assignments[2]), "2") << Printable(value);
  }
}

TEST(RoundTrip, R4ArgumentsSurviveYaml) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> args;
    for (size_t n = random() % 6; n > 0; --n) args.push_back(RandomText(random, 16));
    const std::string value = RandomText(random, 16);
    std::string yaml = "hostfile: h\nscript: s\nenv:\n  X: " + QuoteYaml(value) + "\nargs: [";
    for (const std::string& arg : args) yaml += QuoteYaml(arg) + ", ";
    yaml += "]\n";
    Diagnostics diagnostics;
    const JobFile job = ParseJobYaml(yaml, "job.yaml", diagnostics);
    ASSERT_EQ(diagnostics.ErrorText(), "") << yaml;
    ASSERT_EQ(job.args, args) << yaml;
    ASSERT_EQ(job.env.size(), 1u);
    ASSERT_EQ(ShowValue(job.env[0]), value) << yaml;
  }
}

TEST(RoundTrip, RandomFilesNeverBreakAParser) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomBytes(random, 200);
    Diagnostics diagnostics;
    for (const v1::HostEntry& host : ParseHostfile(text, "f", diagnostics)) {
      ASSERT_FALSE(host.host().empty());
      std::string bytes;
      ASSERT_TRUE(host.SerializeToString(&bytes));
    }
    ParseEnvFile(text, "f", v1::ENV_LAYER_ENV_FILE, diagnostics);
    ParseJobYaml(text, "f", diagnostics);
    const std::string errors = diagnostics.ErrorText();
    for (std::string_view rest = errors; !rest.empty();) {
      const size_t length = Utf8Length(rest);
      ASSERT_GT(length, 0u) << Printable(errors);
      rest.remove_prefix(length);
    }
  }
}

}  // namespace
}  // namespace muster
