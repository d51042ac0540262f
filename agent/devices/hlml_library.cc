#include "agent/devices/hlml_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "common/base/annotate.h"

namespace muster {
namespace {

// gohlml/hlml.h: return codes.
constexpr int kOk = 0;
constexpr int kAlreadyInitialised = 5;
constexpr unsigned kMostCards = 256;
constexpr unsigned kMostPorts = 24;

using Handle = void*;
// Larger than what any version writes into it: structures have grown.
using Room = std::array<uint64_t, 512>;

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

class Hlml {
 public:
  explicit Hlml(void* library) : library_(library) {}

  absl::Status Begin() {
    auto* with_flags = Find<int(unsigned)>(library_, "hlml_init_with_flags");
    auto* plain = Find<int()>(library_, "hlml_init");
    if (plain == nullptr && with_flags == nullptr) return Lacking("hlml_init");
    const int code = plain != nullptr ? plain() : with_flags(0);
    if (code == kOk || code == kAlreadyInitialised) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("hlml_init: {}", HlmlError(code)));
  }

  void End() {
    if (auto* shutdown = Find<int()>(library_, "hlml_shutdown")) (void)shutdown();
  }

  absl::Status ReadAll(v1::Node& node) {
    auto* count = Find<int(unsigned*)>(library_, "hlml_device_get_count");
    auto* by_index = Find<int(unsigned, Handle*)>(library_, "hlml_device_get_handle_by_index");
    module_ = Find<int(Handle, unsigned*)>(library_, "hlml_device_get_module_id");
    if (count == nullptr) return Lacking("hlml_device_get_count");
    if (by_index == nullptr) return Lacking("hlml_device_get_handle_by_index");
    if (module_ == nullptr) return Lacking("hlml_device_get_module_id");
    unsigned cards = 0;
    const int code = count(&cards);
    if (code != kOk) {
      return absl::UnavailableError(fmt::format("hlml_device_get_count: {}", HlmlError(code)));
    }
    for (unsigned i = 0; i < cards && i < kMostCards; ++i) {
      Handle handle = nullptr;
      // Lost cards have no handle; the others are told all the same.
      if (by_index(i, &handle) == kOk) ReadCard(handle, node);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Lacking(const char* function) {
    return absl::UnimplementedError(fmt::format("the library has no {}", function));
  }

  // Calls `name`, if it is there, with the handle, `arguments` and room for the answer.
  template <typename... Arguments>
  std::optional<Room> Call(const char* name, Handle handle, Arguments... arguments) {
    auto* function = Find<int(Handle, Arguments..., void*)>(library_, name);
    if (function == nullptr) return std::nullopt;
    Room room{};
    if (function(handle, arguments..., room.data()) != kOk) return std::nullopt;
    return room;
  }

  template <typename T>
  static T At(const Room& room, size_t offset = 0) {
    T value;
    std::memcpy(&value, reinterpret_cast<const char*>(room.data()) + offset, sizeof value);
    return value;
  }

  void ReadCard(Handle handle, v1::Node& node) {
    unsigned module = 0;
    if (module_(handle, &module) != kOk) return;
    v1::Device& device = *node.mutable_facts()->mutable_devices()->add_devices();
    device.set_module_id(module);
    v1::DeviceReading& reading = *node.add_readings();
    reading.set_module_id(module);
    if (const auto room = Call("hlml_device_get_minor_number", handle)) {
      device.set_index(At<uint32_t>(*room));
    }
    if (auto* serial = Find<int(Handle, char*, unsigned)>(library_, "hlml_device_get_serial")) {
      std::array<char, 128> text{};
      if (serial(handle, text.data(), text.size() - 1) == kOk) device.set_serial(text.data());
    }
    if (const auto room = Call("hlml_device_get_utilization_rates", handle)) {
      reading.set_utilization_percent(At<uint32_t>(*room));
    }
    if (const auto room = Call("hlml_device_get_memory_info", handle)) {
      // Free, total, used.
      reading.set_memory_total_bytes(At<uint64_t>(*room, 8));
      reading.set_memory_used_bytes(At<uint64_t>(*room, 16));
    }
    if (const auto room = Call("hlml_device_get_temperature", handle, 0)) {
      reading.set_temperature_celsius(At<uint32_t>(*room));
    }
    if (const auto room = Call("hlml_device_get_power_usage", handle)) {
      reading.set_power_milliwatts(At<uint32_t>(*room));
    }
    if (const auto room = Call("hlml_device_get_total_ecc_errors", handle, 0, 0)) {
      reading.set_ecc_corrected(At<uint64_t>(*room));
    }
    if (const auto room = Call("hlml_device_get_total_ecc_errors", handle, 1, 0)) {
      reading.set_ecc_uncorrected(At<uint64_t>(*room));
    }
    for (uint32_t port = 0; port < kMostPorts; ++port) {
      const auto room = Call("hlml_nic_get_link", handle, port);
      if (!room.has_value()) continue;
      v1::DevicePort& link = *device.add_ports();
      link.set_port(port);
      link.set_up(At<bool>(*room));
    }
  }

  void* library_;
  int (*module_)(Handle, unsigned*) = nullptr;
};

}  // namespace

std::string HlmlError(int code) {
  switch (code) {
    case 1:
      return "not initialised (1)";
    case 2:
      return "invalid argument (2)";
    case 3:
      return "not supported (3)";
    case 5:
      return "initialised already (5)";
    case 6:
      return "not found (6)";
    case 7:
      return "too little room (7)";
    case 9:
      return "the driver is not loaded (9)";
    case 10:
      return "timeout (10)";
    case 15:
      return "the card is lost (15)";
    case 20:
      return "out of memory (20)";
    case 21:
      return "no data (21)";
    case 49:
      return "an unknown error (49)";
    default:
      return fmt::format("error {}", code);
  }
}

absl::StatusOr<v1::Node> AskHlml(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return absl::UnavailableError(
        fmt::format("{} cannot be taken in: {}", library, why == nullptr ? "no reason" : why));
  }
  // Never let go of: it may have started threads.
  Hlml hlml(handle);
  if (const absl::Status begun = hlml.Begin(); !begun.ok()) return Annotate(begun, library);
  v1::Node node;
  const absl::Status read = hlml.ReadAll(node);
  hlml.End();
  if (!read.ok()) return Annotate(read, library);
  return node;
}

int RunHlmlQuery(const std::string& library) {
  const int out = ::dup(STDOUT_FILENO);
  if (out < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  const absl::StatusOr<v1::Node> node = AskHlml(library);
  if (!node.ok()) {
    const std::string text(MessageOf(node.status()));
    std::fprintf(stderr, "%s\n", text.c_str());
    return 1;
  }
  const std::string bytes = node->SerializeAsString();
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t put = ::write(out, bytes.data() + at, bytes.size() - at);
    if (put <= 0) return 1;
    at += static_cast<size_t>(put);
  }
  std::fflush(nullptr);
  // Without destructors of the library, which may hang.
  ::_exit(0);
}

}  // namespace muster
