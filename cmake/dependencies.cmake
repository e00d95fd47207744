# The libraries that the distribution brings. A machine that lacks their packages takes them from the
# folder TERSE_CARRIED, which tests/gpu/carry fills elsewhere.
set(TERSE_CARRIED "" CACHE PATH
    "Folder with fmt, CLI11, toml++, nlohmann-json and GoogleTest, instead of their packages")

find_package(Threads REQUIRED)
# toml++ as headers only, so that the libraries need nothing of it at run time.
add_library(terse_toml INTERFACE)
target_compile_definitions(terse_toml INTERFACE TOML_HEADER_ONLY=1)
if(NOT TERSE_CARRIED)
  find_package(fmt REQUIRED)
  find_package(CLI11 REQUIRED)
  find_path(TERSE_TOML_INCLUDE toml++/toml.h REQUIRED)
  target_include_directories(terse_toml SYSTEM INTERFACE ${TERSE_TOML_INCLUDE})
  find_package(nlohmann_json REQUIRED)
  # fmt compiled once, where cmake/fmt.cc suits its version.
  get_target_property(fmt_includes fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
  try_compile(TERSE_FMT_ONCE ${PROJECT_BINARY_DIR}/fmt_once
    SOURCES ${PROJECT_SOURCE_DIR}/cmake/fmt.cc ${PROJECT_SOURCE_DIR}/cmake/fmt_check.cc
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${fmt_includes}"
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  if(TERSE_FMT_ONCE)
    add_library(terse_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt.cc)
    target_include_directories(terse_fmt SYSTEM PUBLIC ${fmt_includes})
  else()
    add_library(terse_fmt INTERFACE)
    target_link_libraries(terse_fmt INTERFACE fmt::fmt-header-only)
  endif()
  if(TERSE_BUILD_TESTS)
    find_package(GTest REQUIRED)
  endif()
  # For developers, and linked with the machine's glibc.
  if(TERSE_BUILD_BENCH AND TERSE_BUILD_TESTS AND NOT TERSE_GLIBC)
    find_package(benchmark REQUIRED)
  endif()
  return()
endif()

get_filename_component(carried ${TERSE_CARRIED} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
foreach(part include/fmt/core.h include/CLI/App.hpp include/toml++/toml.h
             include/nlohmann/json.hpp googletest/src/gtest-all.cc)
  if(NOT EXISTS ${carried}/${part})
    message(FATAL_ERROR "TERSE_CARRIED=${TERSE_CARRIED} has no ${part}; tests/gpu/carry fills it")
  endif()
endforeach()

add_library(terse_carried_fmt INTERFACE)
target_include_directories(terse_carried_fmt SYSTEM INTERFACE ${carried}/include)
target_compile_definitions(terse_carried_fmt INTERFACE FMT_HEADER_ONLY=1)
add_library(fmt::fmt-header-only ALIAS terse_carried_fmt)
add_library(fmt::fmt ALIAS terse_carried_fmt)
add_library(terse_fmt ALIAS terse_carried_fmt)

target_include_directories(terse_toml SYSTEM INTERFACE ${carried}/include)

add_library(terse_carried_cli11 INTERFACE)
target_include_directories(terse_carried_cli11 SYSTEM INTERFACE ${carried}/include)
add_library(CLI11::CLI11 ALIAS terse_carried_cli11)

add_library(terse_carried_json INTERFACE)
target_include_directories(terse_carried_json SYSTEM INTERFACE ${carried}/include)
add_library(nlohmann_json::nlohmann_json ALIAS terse_carried_json)

if(TERSE_BUILD_TESTS)
  add_library(terse_carried_gtest STATIC ${carried}/googletest/src/gtest-all.cc)
  target_compile_options(terse_carried_gtest PRIVATE -w)
  target_include_directories(terse_carried_gtest SYSTEM PUBLIC ${carried}/googletest/include
                             PRIVATE ${carried}/googletest)
  target_link_libraries(terse_carried_gtest PUBLIC Threads::Threads)
  add_library(terse_carried_gtest_main STATIC ${carried}/googletest/src/gtest_main.cc)
  target_link_libraries(terse_carried_gtest_main PUBLIC terse_carried_gtest)
  add_library(GTest::gtest ALIAS terse_carried_gtest)
  add_library(GTest::gtest_main ALIAS terse_carried_gtest_main)
endif()
