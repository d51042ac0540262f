// Two cards, index 0 with module 3 and index 1 with module 1, by the signatures of gohlml/hlml.h.
// FAKE_HLML says what goes wrong: `crash`, `hang`, `no-driver`, `noise` (writes to standard
// output), `unsupported` (answers code 3 for what is measured).
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool Fault(const char* name) {
  const char* fault = std::getenv("FAKE_HLML");
  return fault != nullptr && std::strcmp(fault, name) == 0;
}

const unsigned kModules[] = {3, 1};
int handles[2];

unsigned IndexOf(void* device) {
  return static_cast<unsigned>(static_cast<int*>(device) - handles);
}

}  // namespace

extern "C" {

int hlml_init() {
  if (Fault("crash")) std::abort();
  if (Fault("hang")) {
    for (;;) ::pause();
  }
  if (Fault("noise")) {
    std::puts("[info] habanalabs console output");
    std::fflush(stdout);
  }
  return Fault("no-driver") ? 9 : 0;
}

int hlml_shutdown() { return 0; }

int hlml_device_get_count(unsigned* count) {
  *count = 2;
  return 0;
}

int hlml_device_get_handle_by_index(unsigned index, void** device) {
  if (index >= 2) return 6;
  *device = &handles[index];
  return 0;
}

int hlml_device_get_module_id(void* device, unsigned* module) {
  *module = kModules[IndexOf(device)];
  return 0;
}

int hlml_device_get_minor_number(void* device, unsigned* minor) {
  *minor = IndexOf(device);
  return 0;
}

int hlml_device_get_serial(void* device, char* serial, unsigned length) {
  std::snprintf(serial, length, "AM1400%u", IndexOf(device));
  return 0;
}

struct Utilization {
  unsigned aip;
};

int hlml_device_get_utilization_rates(void* device, Utilization* utilization) {
  if (Fault("unsupported")) return 3;
  utilization->aip = 40 + IndexOf(device);
  return 0;
}

struct Memory {
  unsigned long long free;
  unsigned long long total;
  unsigned long long used;
};

int hlml_device_get_memory_info(void*, Memory* memory) {
  if (Fault("unsupported")) return 3;
  *memory = {.free = 10, .total = 30, .used = 20};
  return 0;
}

int hlml_device_get_temperature(void*, int sensor, unsigned* temperature) {
  *temperature = sensor == 0 ? 51 : 33;
  return 0;
}

int hlml_device_get_power_usage(void*, unsigned* milliwatts) {
  *milliwatts = 94'000;
  return 0;
}

int hlml_device_get_total_ecc_errors(void*, int type, int counter, unsigned long long* count) {
  if (type == 0) return 3;
  *count = counter == 0 ? 2 : 7;
  return 0;
}

int hlml_nic_get_link(void*, uint32_t port, bool* up) {
  if (port >= 3) return 2;
  *up = port != 1;
  return 0;
}

}  // extern "C"
