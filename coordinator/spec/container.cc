#include "coordinator/spec/container.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/config/text.h"

namespace muster {
namespace {

struct OwnedOption {
  std::string_view name;
  // Empty: it has none.
  std::string_view letter;
  std::string_view reason;
};

constexpr std::string_view kEnvironment =
    "variables belong in env: here their values would be on a command line";
constexpr std::string_view kOutput = "Muster reads the output of ranks, which have no input";
constexpr std::string_view kRemoval = "Muster removes containers itself once it knows their end";
constexpr std::string_view kElsewhere =
    "it leads to another engine or storage, where the container would not be found again; "
    "configure "
    "the engine of the node";
constexpr std::array<OwnedOption, 28> kOwned = {{
    {"attach", "a", kOutput},
    {"cidfile", "", "Muster finds containers by their labels"},
    {"config", "", kElsewhere},
    {"connection", "", kElsewhere},
    {"context", "", kElsewhere},
    {"detach", "d", "a rank is the container that the engine waits for"},
    {"detach-keys", "", kOutput},
    {"env", "e", kEnvironment},
    {"help", "", "it starts nothing"},
    {"host", "H", kElsewhere},
    {"interactive", "i", kOutput},
    {"label-file", "", "it could hide the labels by which Muster finds containers"},
    {"log-driver", "", "Muster keeps the output of ranks itself"},
    {"name", "", "Muster names containers by job, attempt and rank"},
    {"privileged", "", "write privileged: true instead, so that it is seen"},
    {"remote", "r", kElsewhere},
    {"restart", "", "restarts are Muster's: use the key restart of the job"},
    {"rm", "", kRemoval},
    {"root", "", kElsewhere},
    {"rootfs", "", "the image would be taken for a folder of the node"},
    {"runroot", "", kElsewhere},
    {"runtime", "", "use the key container.runtime"},
    {"sig-proxy", "", "signals reach ranks through it"},
    {"storage-driver", "", kElsewhere},
    {"tmpdir", "", kElsewhere},
    {"tty", "t", kOutput},
    {"url", "", kElsewhere},
    {"workdir", "w", "use the key cwd of the job"},
}};
// Letters of options without a value, which can be written together.
constexpr std::string_view kSwitches = "dPitq";

// Options of which it is known that their value may be the next word. Behind any other, which may
// be a switch, now or in a version to come, such a word would be taken for the image.
constexpr std::string_view kTakeWord =
    "add-host annotation arch authfile blkio-weight blkio-weight-device cap-add cap-drop "
    "cgroup-conf cgroup-parent cgroupns cgroups cpu-period cpu-quota cpu-rt-period cpu-rt-runtime "
    "cpu-shares cpus cpuset-cpus cpuset-mems device device-cgroup-rule device-read-bps "
    "device-read-iops device-write-bps device-write-iops dns dns-opt dns-option dns-search "
    "domainname entrypoint env-file expose gidmap gpus group-add health-cmd health-interval "
    "health-retries health-start-period health-timeout hostname hostuser init-path ip ip6 ipc "
    "label link log-opt mac-address memory memory-reservation memory-swap memory-swappiness "
    "mount net network network-alias oom-score-adj pid pids-limit platform publish secret "
    "security-opt shm-size stop-signal stop-timeout storage-opt subgidname subuidname sysctl "
    "timeout tmpfs tz uidmap ulimit umask user userns uts volume volume-driver volumes-from";
// The same for options of one letter.
constexpr std::string_view kLettersThatTakeWord = "chlmpuv";

bool HasWord(std::string_view words, std::string_view word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

// True when the value of `option` is the next word, for certain.
bool TakesNextWord(std::string_view option) {
  if (option.starts_with("--")) return HasWord(kTakeWord, option.substr(2));
  if (!option.starts_with('-')) return false;
  for (size_t at = 1; at < option.size(); ++at) {
    if (kLettersThatTakeWord.find(option[at]) != std::string_view::npos) {
      return at + 1 == option.size();
    }
    if (kSwitches.find(option[at]) == std::string_view::npos) return false;
  }
  return false;
}

std::string Refuse(std::string_view word, const OwnedOption& owned) {
  return fmt::format("the option {} is not for jobs: {}", Quoted(word), owned.reason);
}

// Where the letter of labels is in `option`, which may have switches in front of it; npos: nowhere.
size_t LetterOfLabel(std::string_view option) {
  if (!option.starts_with('-')) return std::string_view::npos;
  const size_t letter = option.find_first_not_of(kSwitches, 1);
  return letter != std::string_view::npos && option[letter] == 'l' ? letter
                                                                   : std::string_view::npos;
}

// What `word` is as a label that is given with it, or with `before`; empty: none.
std::string_view LabelIn(std::string_view word, std::string_view before) {
  if (before == "--label" ||
      (before.ends_with('l') && LetterOfLabel(before) == before.size() - 1)) {
    return word;
  }
  if (word.starts_with("--label=")) return word.substr(std::string_view("--label=").size());
  const size_t letter = LetterOfLabel(word);
  if (letter == std::string_view::npos) return "";
  const std::string_view label = word.substr(letter + 1);
  return label.starts_with('=') ? label.substr(1) : label;
}

std::string ShortProblem(std::string_view word) {
  for (const char letter : word.substr(1)) {
    const auto owned = std::find_if(kOwned.begin(), kOwned.end(), [&](const OwnedOption& one) {
      return !one.letter.empty() && one.letter.front() == letter;
    });
    if (owned != kOwned.end()) return Refuse(word, *owned);
    // What follows is its value.
    if (kSwitches.find(letter) == std::string_view::npos) return "";
  }
  return "";
}

}  // namespace

std::string ContainerOptionProblem(std::string_view word, std::string_view before) {
  if (word.find('\0') != std::string_view::npos) return "it has a NUL byte in it";
  if (LabelIn(word, before).starts_with("muster.")) {
    return fmt::format("{}: labels that begin with muster. are Muster's", Quoted(word));
  }
  if (word == "--" || word == "-") return fmt::format("{} is no option", Quoted(word));
  if (word.starts_with("--")) {
    const std::string_view name = word.substr(2, word.find('=') - 2);
    const auto owned = std::find_if(kOwned.begin(), kOwned.end(),
                                    [&](const OwnedOption& one) { return one.name == name; });
    return owned == kOwned.end() ? "" : Refuse(word, *owned);
  }
  if (word.starts_with('-')) return ShortProblem(word);
  if (TakesNextWord(before)) return "";
  if (before.starts_with('-') && before.find('=') == std::string_view::npos) {
    return fmt::format(
        "{} is neither an option nor the value of one: if it is that of {}, write both as one "
        "word, {}={}",
        Quoted(word), Quoted(before), before, word);
  }
  return fmt::format(
      "{} is neither an option nor the value of one; the image is the key container.image, and the "
      "program that of the job",
      Quoted(word));
}

std::string LastContainerOptionProblem(std::string_view word) {
  if (!TakesNextWord(word)) return "";
  return fmt::format("the option {} has no value", Quoted(word));
}

std::string ImageProblem(std::string_view image) {
  if (image.empty()) return "must not be empty";
  if (image.starts_with('-')) return fmt::format("{} is an option, not an image", Quoted(image));
  const bool printable = std::none_of(image.begin(), image.end(),
                                      [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  return printable ? "" : fmt::format("{} is no name of an image", Quoted(image));
}

std::vector<std::string> ContainerProblems(const v1::ContainerSpec& container) {
  std::vector<std::string> problems;
  const std::string image = ImageProblem(container.image());
  if (!image.empty()) problems.push_back("container.image: " + image);
  std::string_view before;
  for (const std::string& option : container.options()) {
    const std::string problem = ContainerOptionProblem(option, before);
    if (!problem.empty()) problems.push_back("container.options: " + problem);
    before = option;
  }
  if (const std::string problem = LastContainerOptionProblem(before); !problem.empty()) {
    problems.push_back("container.options: " + problem);
  }
  const std::string& runtime = container.runtime();
  if (!runtime.empty() && (runtime.starts_with('-') || !ImageProblem(runtime).empty())) {
    problems.push_back(
        fmt::format("container.runtime: {} is no name of a runtime", Quoted(runtime)));
  }
  if (!container.engine().empty() && container.engine() != "docker" &&
      container.engine() != "podman") {
    problems.push_back(fmt::format("container.engine: one of docker, podman expected, got {}",
                                   Quoted(container.engine())));
  }
  return problems;
}

}  // namespace muster
