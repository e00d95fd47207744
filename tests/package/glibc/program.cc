// What cmake/glibc has of its own, used: prints a line for each.
#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <random>
#include <set>

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

}  // namespace

int main(int argc, char** argv) {
  std::printf("main %d %s\n", argc, std::getenv("TERSE_TEST_WORD"));
  std::printf("exception %s\n", caught());
  wait();
  look_at_file(argv[1]);
  draw();
  std::cerr << "to stderr\n";
}
