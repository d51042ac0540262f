# Settings and functions shared by all components.

option(MUSTER_TESTS "Build the tests" ON)
option(MUSTER_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(MUSTER_ARCHIVES "Link gRPC, protobuf, Abseil, SQLite, hwloc, fmt, spdlog and the C++ library as archives" OFF)
set(MUSTER_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  # What ccache needs for precompiled headers, and no more: a header that changes during a build must not be cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros
      "${MUSTER_CCACHE}")
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Protobuf REQUIRED)
find_library(MUSTER_HWLOC hwloc REQUIRED)
add_library(hwloc::hwloc SHARED IMPORTED)
set_target_properties(hwloc::hwloc PROPERTIES IMPORTED_LOCATION "${MUSTER_HWLOC}")
if(MUSTER_TESTS)
  find_package(GTest REQUIRED)
endif()

if(MUSTER_ARCHIVES)
  include(Archives)
endif()

add_library(muster_options INTERFACE)
target_compile_options(muster_options INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor
                       -Wno-missing-field-initializers -fno-math-errno)
target_include_directories(muster_options INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(muster_options INTERFACE SPDLOG_FMT_EXTERNAL SPDLOG_COMPILED_LIB)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(muster_options INTERFACE -Wthread-safety -Winvalid-pch)
endif()
if(MUSTER_SANITIZE)
  target_compile_options(muster_options INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all -g1)
  target_link_options(muster_options INTERFACE -fsanitize=${MUSTER_SANITIZE})
endif()

# muster_library(NAME SOURCES a.cc... DEPS targets... [PCH base|rpc|none])
# One static library for one directory. PCH names the precompiled header it shares: `base` (standard
# library, abseil, fmt) is the default, `rpc` adds protobuf messages and gRPC.
function(muster_library name)
  cmake_parse_arguments(A "" "PCH" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC muster_options ${A_DEPS})
  muster_use_pch(${name} "${A_PCH}")
endfunction()

# muster_program(NAME SOURCES ... DEPS ... [PCH ...]): an executable in bin/.
function(muster_program name)
  cmake_parse_arguments(A "" "PCH" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE muster_options ${A_DEPS})
  muster_use_pch(${name} "${A_PCH}")
endfunction()

function(muster_use_pch name pch)
  if(NOT pch)
    set(pch base)
  endif()
  if(pch MATCHES "^test")
    target_compile_options(${name} PRIVATE ${MUSTER_TEST_FLAGS})
  endif()
  if(NOT pch STREQUAL "none" AND NOT MUSTER_FUZZ)
    target_precompile_headers(${name} REUSE_FROM muster_pch_${pch})
    target_link_libraries(${name} PRIVATE muster_pch_${pch}_deps)
  endif()
endfunction()

# muster_tests(TIER COMPONENT SOURCES ... DEPS ... [PCH test|test_rpc|none])
# Tests of what uses gRPC name PCH test_rpc: its flags (-pthread) do not fit the header of the others. Adds the sources to the fat test binary of the tier (tests/CMakeLists.txt makes it) and also
# defines <TIER>_<COMPONENT>_tests, a small binary for working on one component. Tests are compiled more often than run: without optimisation, which saves a fifth of a whole build.
function(muster_tests tier component)
  cmake_parse_arguments(A "" "PCH" "SOURCES;DEPS" ${ARGN})
  if(NOT A_PCH)
    set(A_PCH test)
  endif()
  set(objects ${tier}_${component}_objects)
  add_library(${objects} OBJECT ${A_SOURCES})
  target_link_libraries(${objects} PUBLIC muster_options muster_testing ${A_DEPS} GTest::gmock GTest::gtest)
  muster_use_pch(${objects} ${A_PCH})
  set_property(GLOBAL APPEND PROPERTY MUSTER_${tier}_OBJECTS ${objects})
  add_executable(${tier}_${component}_tests EXCLUDE_FROM_ALL)
  target_link_libraries(${tier}_${component}_tests PRIVATE ${objects} GTest::gmock_main)
endfunction()

# muster_fuzzer(NAME SOURCES ... DEPS ...): a libFuzzer binary in fuzz builds. In ordinary builds the
# corpus is replayed by the unit tests instead.
function(muster_fuzzer name)
  if(NOT MUSTER_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE muster_options ${A_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
endfunction()

# The precompiled headers. Each is an object library whose only purpose is to own the .gch.
add_library(muster_pch_base_deps INTERFACE)
target_link_libraries(muster_pch_base_deps INTERFACE absl::status absl::statusor absl::flat_hash_map fmt::fmt)
add_library(muster_pch_base OBJECT "${CMAKE_SOURCE_DIR}/cmake/pch.cc")
target_link_libraries(muster_pch_base PRIVATE muster_options muster_pch_base_deps)
target_precompile_headers(muster_pch_base PRIVATE "${CMAKE_SOURCE_DIR}/cmake/pch_base.h")

add_library(muster_pch_rpc_deps INTERFACE)
target_link_libraries(muster_pch_rpc_deps INTERFACE muster_pch_base_deps gRPC::grpc++ protobuf::libprotobuf)
add_library(muster_pch_rpc OBJECT "${CMAKE_SOURCE_DIR}/cmake/pch.cc")
target_link_libraries(muster_pch_rpc PRIVATE muster_options muster_pch_rpc_deps)
target_precompile_headers(muster_pch_rpc PRIVATE "${CMAKE_SOURCE_DIR}/cmake/pch_rpc.h")

if(MUSTER_TESTS)
  set(MUSTER_TEST_FLAGS "$<$<CONFIG:Release>:-O0>")
  foreach(pch test test_rpc)
    add_library(muster_pch_${pch}_deps INTERFACE)
    target_link_libraries(muster_pch_${pch}_deps INTERFACE muster_pch_base_deps protobuf::libprotobuf GTest::gmock GTest::gtest)
    add_library(muster_pch_${pch} OBJECT "${CMAKE_SOURCE_DIR}/cmake/pch.cc")
    target_compile_options(muster_pch_${pch} PRIVATE ${MUSTER_TEST_FLAGS})
    target_link_libraries(muster_pch_${pch} PRIVATE muster_options muster_pch_${pch}_deps)
    target_precompile_headers(muster_pch_${pch} PRIVATE "${CMAKE_SOURCE_DIR}/cmake/pch_${pch}.h")
  endforeach()
  target_link_libraries(muster_pch_test_rpc_deps INTERFACE gRPC::grpc++)
endif()
