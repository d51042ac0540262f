// Stands in for libudev where hwloc is linked from its archive. hwloc asks udev for details of
// disks and network devices only, which a topology of processors leaves out; without this every
// start of the agent would load a library for nothing. hwloc goes on when udev_new gives none.

extern "C" {
struct udev;
struct udev_device;
struct udev* udev_new();
struct udev* udev_unref(struct udev*);
struct udev_device* udev_device_new_from_subsystem_sysname(struct udev*, const char*, const char*);
struct udev_device* udev_device_unref(struct udev_device*);
const char* udev_device_get_property_value(struct udev_device*, const char*);

struct udev* udev_new() {
  return nullptr;
}
struct udev* udev_unref(struct udev*) {
  return nullptr;
}
struct udev_device* udev_device_new_from_subsystem_sysname(struct udev*, const char*, const char*) {
  return nullptr;
}
struct udev_device* udev_device_unref(struct udev_device*) {
  return nullptr;
}
const char* udev_device_get_property_value(struct udev_device*, const char*) { return nullptr; }
}
