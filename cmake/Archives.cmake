# Links what Debian ships as an archive beside its shared library from that archive, fmt and spdlog from archives that
# are made here of their headers, and the C++ library from the compiler's archive.
#
# The loader then has some 50 shared libraries less to find and, without the shared C++ library, half as many symbols to
# bind. OpenSSL stays shared, so that the node's security updates reach it.

function(muster_use_archive target)
  foreach(property IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION)
    get_target_property(shared ${target} ${property})
    if(shared MATCHES "\\.so[.0-9]*$")
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
      if(EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES ${property} "${archive}")
      endif()
    endif()
  endforeach()
endfunction()

get_property(muster_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${muster_imported})
  if(target MATCHES "^(absl|gRPC|protobuf|c-ares|SQLite)::" OR target STREQUAL "yaml-cpp")
    muster_use_archive(${target})
  endif()
endforeach()

# re2::re2 names no file, only -lre2.
find_library(MUSTER_RE2_ARCHIVE libre2.a)
if(MUSTER_RE2_ARCHIVE AND TARGET re2::re2)
  set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES "${MUSTER_RE2_ARCHIVE}")
endif()

# muster_use_headers(TARGET NAME): links the imported TARGET from lib<NAME>.a, compiled from cmake/archives/<NAME>.cc.
function(muster_use_headers target name)
  set(archive muster_${name}_archive)
  add_library(${archive} STATIC "${CMAKE_SOURCE_DIR}/cmake/archives/${name}.cc")
  target_compile_definitions(${archive} PRIVATE SPDLOG_FMT_EXTERNAL SPDLOG_COMPILED_LIB)
  set_target_properties(${archive} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archives" OUTPUT_NAME ${name})
  foreach(property IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION)
    get_target_property(shared ${target} ${property})
    if(shared)
      set_target_properties(${target} PROPERTIES ${property} "${CMAKE_BINARY_DIR}/archives/lib${name}.a")
    endif()
  endforeach()
endfunction()

# From the archive hwloc needs libudev, which Debian has no archive of; agent/binding/without_udev.cc says why it can do without.
muster_use_archive(hwloc::hwloc)
get_target_property(muster_hwloc hwloc::hwloc IMPORTED_LOCATION)
if(muster_hwloc MATCHES "\\.a$")
  add_library(muster_without_udev STATIC "${CMAKE_SOURCE_DIR}/agent/binding/without_udev.cc")
  set_target_properties(hwloc::hwloc PROPERTIES INTERFACE_LINK_LIBRARIES "muster_without_udev;${CMAKE_DL_LIBS}")
endif()

muster_use_headers(fmt::fmt fmt)
muster_use_headers(spdlog::spdlog spdlog)

add_link_options(-static-libstdc++ -static-libgcc)
include(CheckLinkerFlag)
check_linker_flag(CXX "-Wl,-z,pack-relative-relocs" MUSTER_PACKED_RELOCATIONS)
if(MUSTER_PACKED_RELOCATIONS)
  add_link_options(-Wl,-z,pack-relative-relocs)
endif()
