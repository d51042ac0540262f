#include "agent/core/container.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace muster {
namespace {

// Lines of env files: what the engines can read in one piece, with room to spare.
constexpr size_t kMostLineBytes = 60'000;
constexpr uint64_t kOpenFiles = 1'048'576;
// Where the client reads what is not in its environment.
constexpr char kEnvFile[] = "--env-file=/dev/stdin";
constexpr std::string_view kAccelFolder = "/dev/accel/accel";
constexpr std::string_view kUverbs = "/dev/infiniband/uverbs";

constexpr std::array<std::string_view, 33> kHeededNames = {
    "ALL_PROXY",     "DBUS_SESSION_BUS_ADDRESS",
    "FTP_PROXY",     "GCONV_PATH",
    "GETCONF_DIR",   "GLIBC_TUNABLES",
    "GOCOVERDIR",    "GODEBUG",
    "GOGC",          "GOMAXPROCS",
    "GOMEMLIMIT",    "GOTRACEBACK",
    "HOME",          "HOSTALIASES",
    "HTTPS_PROXY",   "HTTP_PROXY",
    "LOCALDOMAIN",   "LOCPATH",
    "LOGNAME",       "NOTIFY_SOCKET",
    "NO_PROXY",      "PATH",
    "PWD",           "REGISTRY_AUTH_FILE",
    "RES_OPTIONS",   "SSL_CERT_DIR",
    "SSL_CERT_FILE", "TMPDIR",
    "USER",          "all_proxy",
    "http_proxy",    "https_proxy",
    "no_proxy",
};
constexpr std::array<std::string_view, 16> kHeededPrefixes = {
    "BUILDAH_", "BUILDKIT_", "CONMON",  "CONTAINER",   "CRUN",     "DOCKER_",
    "GRPC_",    "LD_",       "LISTEN_", "MALLOC_",     "NETAVARK", "OTEL_",
    "PODMAN_",  "STORAGE_",  "XDG_",    "_CONTAINERS_"};

bool IsPodman(const internal::ShimEngine& engine) { return engine.name() == "podman"; }

std::string Label(std::string_view name, std::string_view value) {
  return fmt::format("{}={}", name, value);
}

// As it would be written without "." and ".."; symbolic links are not looked at.
std::string Normalized(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  std::string text;
  for (const std::string_view part : parts) {
    text += '/';
    text += part;
  }
  return text.empty() ? "/" : text;
}

class Arguments {
 public:
  explicit Arguments(internal::ShimRank& rank) : rank_(rank) {}
  void Add(std::string word) { rank_.add_argv(std::move(word)); }
  void Add(std::string option, std::string value) {
    Add(std::move(option));
    Add(std::move(value));
  }
  // Something of the node, at the same place in the container.
  absl::Status Mount(const std::string& path) { return Mount(path, path); }
  // And at another one.
  absl::Status Mount(const std::string& path, const std::string& target) {
    if (path.find(':') == std::string::npos) {
      Add("-v", fmt::format("{}:{}", path, target));
    } else if (path.find_first_of(",\"\n") == std::string::npos) {
      Add("--mount", fmt::format("type=bind,source={},target={}", path, target));
    } else {
      return absl::InvalidArgumentError(fmt::format(
          "\"{}\" has a ':' and a ',' in its name and cannot be mounted into a container", path));
    }
    return absl::OkStatus();
  }

 private:
  internal::ShimRank& rank_;
};

absl::Status AddFolders(const v1::LaunchSpec& launch, Arguments& arguments) {
  const std::string folder = Normalized(launch.working_directory());
  if (folder != "/") {
    if (absl::Status mounted = arguments.Mount(folder); !mounted.ok()) return mounted;
  }
  arguments.Add("-w", folder);
  if (launch.script().empty()) return absl::OkStatus();
  const std::string script = Normalized(
      launch.script().starts_with('/') ? launch.script() : folder + "/" + launch.script());
  const std::string of_script = script.substr(0, script.rfind('/'));
  // The program sees it below the working directory already.
  if (folder != "/" && (script + "/").starts_with(folder + "/")) return absl::OkStatus();
  return arguments.Mount(of_script.empty() ? script : of_script);
}

void AddLimit(Arguments& arguments, std::string_view name, uint64_t limit) {
  const std::string text = limit == kNoLimit ? "-1" : fmt::format("{}", limit);
  arguments.Add(fmt::format("--ulimit={}={}:{}", name, text, text));
}

// Docker's daemon gives what it is asked for. Podman can give what its user has.
void AddLimits(const internal::ShimEngine& engine, const ContainerContext& context, bool root,
               Arguments& arguments) {
  const ContainerHost& host = context.host;
  const bool any = !IsPodman(engine) || (root && host.may_raise_limits);
  AddLimit(arguments, "memlock", any || host.may_raise_limits ? kNoLimit : host.locked_bytes);
  AddLimit(arguments, "nofile", any ? kOpenFiles : std::min(kOpenFiles, host.open_files));
}

// A device node of the node. What stands for one where cards are simulated is a file, which an
// engine takes as a mount only: it is put where the program would find the real one.
absl::Status AddDevice(const ContainerHost& host, const std::string& node, Arguments& arguments) {
  if (!host.sysroot.empty() && node.starts_with(host.sysroot + "/")) {
    return arguments.Mount(node, node.substr(host.sysroot.size()));
  }
  arguments.Add(fmt::format("--device={}", node));
  return absl::OkStatus();
}

absl::Status AddCards(const v1::LaunchSpec& launch, const ContainerContext& context,
                      Arguments& arguments) {
  const std::string accel = context.host.sysroot + std::string(kAccelFolder);
  const std::vector<std::string>& nodes = context.host.device_nodes;
  const auto exists = [&](const std::string& node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  const v1::DeviceInventory none;
  const auto& cards = (context.devices != nullptr ? *context.devices : none).devices();
  for (const v1::RankSpec& rank : launch.ranks()) {
    const auto card = std::find_if(cards.begin(), cards.end(), [&](const v1::Device& one) {
      return one.module_id() == rank.slot();
    });
    if (card == cards.end() || card->device_node().empty()) {
      return absl::FailedPreconditionError(
          fmt::format("card {} has no device node that a container could be given", rank.slot()));
    }
    absl::Status added = AddDevice(context.host, card->device_node(), arguments);
    if (!added.ok()) return added;
    if (!card->device_node().starts_with(accel)) continue;
    const std::string control =
        fmt::format("{}_controlD{}", accel, card->device_node().substr(accel.size()));
    if (!exists(control)) continue;
    added = AddDevice(context.host, control, arguments);
    if (!added.ok()) return added;
  }
  return absl::OkStatus();
}

void AddUser(const internal::ShimEngine& engine, const ContainerContext& context, bool root,
             Arguments& arguments) {
  const bool self = context.user.self;
  arguments.Add(fmt::format("--user={}:{}", self ? context.own_uid : context.user.uid,
                            self ? context.own_gid : context.user.gid));
  if (IsPodman(engine) && !root) {
    arguments.Add("--userns=keep-id");
    return;
  }
  for (const gid_t group : context.user.groups) {
    if (group != context.user.gid) arguments.Add(fmt::format("--group-add={}", group));
  }
}

absl::Status AddVariables(const VariableMap& env, const ContainerContext& context,
                          Arguments& arguments, internal::ShimRank& rank) {
  VariableMap client = context.engine_env;
  std::string file;
  std::vector<std::string_view> names;
  for (const auto& [name, value] : env) {
    if (!IsHeededByEngines(name)) {
      client[name] = value;
      names.push_back(name);
      continue;
    }
    if (value.find_first_of("\r\n") != std::string::npos || value.size() > kMostLineBytes) {
      return absl::InvalidArgumentError(fmt::format(
          "the environment variable {} has a line break in its value or is too long: container "
          "engines heed a variable of that name themselves, and it can be given to a container as "
          "one line of at most {} bytes only",
          name, kMostLineBytes));
    }
    file += fmt::format("{}={}\n", name, value);
  }
  // These come with the start.
  for (const std::string_view name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (!env.contains(name)) names.push_back(name);
  }
  if (!file.empty()) arguments.Add(kEnvFile);
  // Names only: the value is that of the client's environment.
  for (const std::string_view name : names) arguments.Add("-e", std::string(name));
  rank.set_env_file(std::move(file));
  for (const auto& [name, value] : client) rank.add_env(fmt::format("{}={}", name, value));
  return absl::OkStatus();
}

// What is in front of the image, behind which is the program.
std::vector<std::string> OptionsOf(const v1::LaunchSpec& launch, const internal::ShimRank& rank) {
  const int behind = 1 + launch.argv_size() + (launch.local_rank_argument_index() != 0 ? 1 : 0);
  return {rank.argv().begin(), rank.argv().begin() + std::max(0, rank.argv_size() - behind)};
}

}  // namespace

bool IsHeededByEngines(std::string_view name) {
  return std::find(kHeededNames.begin(), kHeededNames.end(), name) != kHeededNames.end() ||
         std::any_of(kHeededPrefixes.begin(), kHeededPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

absl::StatusOr<ChosenEngine> ChooseEngine(const v1::LaunchSpec& launch,
                                          const ContainerContext& context) {
  const v1::ContainerSpec& container = launch.container();
  ChosenEngine chosen;
  const ContainerHost::Engine* found = nullptr;
  // What is wrong with those that are passed over.
  std::string refusals;
  for (const auto& [name, one] :
       {std::pair<std::string_view, const ContainerHost::Engine*>("docker", &context.host.docker),
        {"podman", &context.host.podman}}) {
    if (found != nullptr || one->program.empty()) continue;
    if (!container.engine().empty() && container.engine() != name) continue;
    if (one->refusal.empty()) {
      found = one;
      chosen.engine.set_name(std::string(name));
    } else {
      refusals += fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", name, one->refusal);
    }
  }
  if (found == nullptr && !refusals.empty()) {
    return absl::NotFoundError(
        fmt::format("the job runs in containers, but no engine works here: {}", refusals));
  }
  if (found == nullptr) {
    return absl::NotFoundError(fmt::format(
        "the job runs in containers, but the PATH of the agent has {} (install one, or set PATH "
        "for "
        "the agent's service)",
        container.engine().empty() ? "neither docker nor podman" : "no " + container.engine()));
  }
  if (!refusals.empty()) {
    chosen.warning = fmt::format("{} runs the containers, because another engine does not work: {}",
                                 chosen.engine.name(), refusals);
  }
  internal::ShimEngine& engine = chosen.engine;
  engine.set_program(found->program);
  // An option of the program itself; with it podman finds such containers again.
  if (IsPodman(engine) && !container.runtime().empty()) {
    engine.add_options(fmt::format("--runtime={}", container.runtime()));
  }
  engine.add_labels(Label("muster.job", context.attempt.job.value()));
  engine.add_labels(Label("muster.attempt", fmt::format("{}", context.attempt.attempt)));
  engine.add_labels(Label("muster.state", context.state));
  for (const auto& [name, value] : context.engine_env) {
    engine.add_env(fmt::format("{}={}", name, value));
  }
  const bool pulls = std::any_of(container.options().begin(), container.options().end(),
                                 [](const std::string& option) {
                                   return option == "--pull" || option.starts_with("--pull=");
                                 });
  if (!pulls) engine.set_image(container.image());
  return chosen;
}

void AddContainerDefaults(VariableMap& env) {
  // Open MPI's copy between processes needs rights that containers do not have.
  env.emplace("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
}

std::string SetCardVariables(const v1::LaunchSpec& launch, VariableMap& env) {
  // Without leased cards no container is given any.
  if (launch.container().runtime() != "habana" || !launch.slots_are_cards()) return "";
  // The runtime gives a container no card unless it is told to. "All" leaves the choice to
  // HABANA_VISIBLE_MODULES, which ranks with cards have. Anything else would win over that, and
  // could be cards of another job.
  std::string& devices = env["HABANA_VISIBLE_DEVICES"];
  const bool differs = !devices.empty() && devices != "all";
  devices = "all";
  if (!differs) return "";
  return "HABANA_VISIBLE_DEVICES of the job is not used: a container gets the cards of its job's "
         "slots (include, exclude and slots choose them)";
}

absl::Status Contain(const v1::LaunchSpec& launch, const ContainerContext& context,
                     const internal::ShimEngine& engine, const VariableMap& env,
                     internal::ShimRank& rank) {
  const v1::ContainerSpec& container = launch.container();
  const bool podman = IsPodman(engine);
  const bool root = (context.user.self ? context.own_uid : context.user.uid) == 0;
  const std::vector<std::string> program(rank.argv().begin(), rank.argv().end());
  rank.clear_argv();
  rank.clear_env();
  rank.set_container(fmt::format("muster-{}-{}-{}", context.attempt.job.value(),
                                 context.attempt.attempt, rank.rank()));
  Arguments arguments(rank);
  arguments.Add(engine.program());
  for (const std::string& option : engine.options()) arguments.Add(option);
  arguments.Add("run");
  arguments.Add(fmt::format("--name={}", rank.container()));
  for (const std::string& label : engine.labels()) arguments.Add(fmt::format("--label={}", label));
  arguments.Add(fmt::format("--label={}", Label("muster.node", context.node.value())));
  arguments.Add(fmt::format("--label={}", Label("muster.rank", fmt::format("{}", rank.rank()))));
  arguments.Add("--pull=never");
  // The output is read from the client; a second copy would fill the node's disk.
  arguments.Add("--log-driver=none");
  if ((podman ? context.host.podman : context.host.docker).has_init) arguments.Add("--init");
  if (podman) {
    // Else the agent's own proxies.
    arguments.Add("--http-proxy=false");
  } else if (!container.runtime().empty()) {
    arguments.Add(fmt::format("--runtime={}", container.runtime()));
  }
  arguments.Add("--network=host");
  arguments.Add("--ipc=host");
  AddLimits(engine, context, root, arguments);
  arguments.Add("--cap-add=sys_nice");
  if (container.privileged()) arguments.Add("--privileged");
  if (container.runtime() != "habana") {
    if (launch.slots_are_cards()) {
      if (absl::Status added = AddCards(launch, context, arguments); !added.ok()) return added;
    }
    const std::string uverbs = context.host.sysroot + std::string(kUverbs);
    for (const std::string& node : context.host.device_nodes) {
      if (!node.starts_with(uverbs)) continue;
      if (absl::Status added = AddDevice(context.host, node, arguments); !added.ok()) return added;
    }
  }
  AddUser(engine, context, root, arguments);
  if (absl::Status added = AddFolders(launch, arguments); !added.ok()) return added;
  if (absl::Status added = AddVariables(env, context, arguments, rank); !added.ok()) return added;
  for (const std::string& option : container.options()) arguments.Add(option);
  // An option whose value is missing takes this, and not the image.
  arguments.Add("--");
  arguments.Add(container.image());
  for (const std::string& word : program) arguments.Add(word);
  return absl::OkStatus();
}

VariableMap VariablesInContainer(const v1::LaunchSpec& launch, const internal::ShimRank& rank) {
  VariableMap client;
  for (const std::string& pair : rank.env()) {
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) client[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  VariableMap env;
  bool is_name = false;
  for (const std::string& word : OptionsOf(launch, rank)) {
    if (is_name) {
      // Without those that come with the start.
      if (const auto found = client.find(word); found != client.end()) env.insert(*found);
    }
    is_name = !is_name && word == "-e";
  }
  std::string_view file = rank.env_file();
  while (!file.empty()) {
    const size_t end = std::min(file.find('\n'), file.size());
    const std::string_view line = file.substr(0, end);
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      env[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
    file.remove_prefix(std::min(end + 1, file.size()));
  }
  return env;
}

std::optional<uint64_t> LimitInContainer(const v1::LaunchSpec& launch,
                                         const internal::ShimRank& rank, std::string_view name) {
  const std::string option = fmt::format("--ulimit={}=", name);
  for (const std::string& word : OptionsOf(launch, rank)) {
    if (!word.starts_with(option)) continue;
    if (word[option.size()] == '-') return kNoLimit;
    uint64_t limit = 0;
    const auto read =
        std::from_chars(word.data() + option.size(), word.data() + word.size(), limit);
    if (read.ec == std::errc()) return limit;
  }
  return std::nullopt;
}

}  // namespace muster
