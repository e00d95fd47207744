// What cmake/glibc has of its own, used: prints a line for each.
#include <errno.h>
#include <getopt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <random>
#include <set>
#include <string_view>

extern "C" const char* caught();

namespace {

// Constructed before main, and destroyed after it.
struct Bracket {
  Bracket() { std::puts("constructed"); }
  ~Bracket() { std::puts("destroyed"); }
} bracket;

void wait() {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const auto from = Clock::now();
  const auto how = never.wait_until(lock, from + std::chrono::milliseconds(30));
  const bool late = Clock::now() - from >= std::chrono::milliseconds(30);
  std::printf("waited %d %d\n", how == std::cv_status::timeout, late);
}

void look_at_file(const char* path) {
  std::ofstream(path) << "twelve bytes";
  struct stat status {};
  const bool found = stat(path, &status) == 0 && lstat(path, &status) == 0;
  std::printf("file %d %lld %d\n", found, static_cast<long long>(status.st_size),
              std::filesystem::file_size(path) == 12);
}

void draw() {
  std::random_device device;
  std::set<unsigned> numbers;
  for (int i = 0; i < 100; ++i) numbers.insert(device());
  std::printf("random %d\n", numbers.size() > 90);
}

// Of which a program has a copy, under each of its names.
void look_at_data(int argc, char** argv) {
  setenv("TERSE_TEST_OTHER", "other", 1);
  const std::string_view last = *std::prev(std::find(environ, environ + 10'000, nullptr));
  std::printf("environment %d", last == "TERSE_TEST_OTHER=other");
  getopt(argc, argv, "");
  std::printf(", options from %d", optind);
  std::printf(", name %d %d\n", program_invocation_name == argv[0],
              std::string_view(argv[0]).ends_with(program_invocation_short_name));
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("main %d %s\n", argc, std::getenv("TERSE_TEST_WORD"));
  std::printf("exception %s\n", caught());
  wait();
  look_at_file(argv[1]);
  look_at_data(argc, argv);
  draw();
  std::cerr << "to stderr\n";
}
