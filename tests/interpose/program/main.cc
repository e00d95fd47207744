// Plays random NCCL programs and compares what they received.
//
//   interpose_program play SEED RANKS PREFIX          all ranks as threads; results in PREFIX.RANK
//   interpose_program rank SEED RANKS PREFIX RANK [THREADS]  that rank and those after it, as
//                                                     threads (1); the id is in PREFIX.id
//   interpose_program series FIRST LAST PREFIX        `play`, seed after seed, on usual_ranks();
//                                                     results in PREFIX-SEED.RANK. Status 43 where
//                                                     more threads or open files are left than by
//                                                     the first seeds
//   interpose_program compare SEED RANKS NATIVE FOUND COLLECTIVE,... MIN_BYTES ERROR OWN
//                                                     what a rank gathers of itself is OWN:
//                                                     exact or quantized
//   interpose_program print SEED RANKS
//
// A failed NCCL call ends a rank with status 42 and its message.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "compare.h"

namespace {

using namespace terse::program;

constexpr int kFailed = 42, kLeft = 43;

std::string file_of(const std::string& prefix, int rank) {
  return fmt::format("{}.{}", prefix, rank);
}

void save(const std::string& path, const Results& results) {
  std::ofstream out(path, std::ios::binary);
  for (const auto& bytes : results) {
    const uint64_t size = bytes.size();
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out.write(bytes.data(), static_cast<std::streamsize>(size));
  }
}

Results load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("no " + path);
  Results results;
  for (uint64_t size; in.read(reinterpret_cast<char*>(&size), sizeof size);)
    in.read(results.emplace_back(size).data(), static_cast<std::streamsize>(size));
  return results;
}

// Rank 0 leaves the id in a file for the others.
ncclUniqueId exchange_id(const std::string& path, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    if (ncclGetUniqueId(&id) != ncclSuccess) throw std::runtime_error("ncclGetUniqueId");
    std::ofstream(path + ".part", std::ios::binary).write(id.internal, sizeof id.internal);
    std::rename((path + ".part").c_str(), path.c_str());
    return id;
  }
  for (int tries = 0; tries < 2000; ++tries) {
    std::ifstream in(path, std::ios::binary);
    if (in.read(id.internal, sizeof id.internal)) return id;
    usleep(10'000);
  }
  throw std::runtime_error("no id came");
}

int play_rank(const Program& program, ncclUniqueId id, int rank, int ranks,
              const std::string& prefix) {
  try {
    save(file_of(prefix, rank), play(program, id, rank, ranks));
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "rank {}: {}\n", rank, e.what());
    return kFailed;
  }
}

// `count` ranks from `first` on.
int play_threads(const Program& program, ncclUniqueId id, int first, int count, int ranks,
                 const std::string& prefix) {
  std::atomic<int> worst{0};
  std::vector<std::thread> threads;
  for (int rank = first; rank < first + count; ++rank)
    threads.emplace_back([&, rank] {
      if (const int status = play_rank(program, id, rank, ranks, prefix)) worst = status;
    });
  for (std::thread& thread : threads) thread.join();
  return worst;
}

int play_all(const Program& program, int ranks, const std::string& prefix) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
  return play_threads(program, id, 0, ranks, ranks, prefix);
}

size_t entries(const char* folder) {
  namespace fs = std::filesystem;
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// What a process holds that has ended all it did.
struct Held {
  size_t threads = entries("/proc/self/task"), files = entries("/proc/self/fd");

  bool operator<=(const Held& other) const {
    return threads <= other.threads && files <= other.files;
  }
};

// What is held once it is no more than `before`, or has had time to become so.
Held settled(const Held& before) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Held now;
  while (!(now <= before) && std::chrono::steady_clock::now() < limit) {
    usleep(1000);
    now = {};
  }
  return now;
}

int play_series(int first, int last, const std::string& prefix) {
  constexpr int kWarmUp = 5;  // seeds, one of each number of ranks
  std::optional<Held> usual;
  for (int seed = first; seed <= last; ++seed) {
    const int ranks = usual_ranks(seed);
    const Program program = make_program(static_cast<uint32_t>(seed), ranks);
    if (const int status = play_all(program, ranks, fmt::format("{}-{}", prefix, seed))) {
      fmt::print(stderr, "seed {}\n", seed);
      return status;
    }
    if (seed != first + kWarmUp - 1) continue;
    usleep(100'000);  // for what ends by itself
    usual = Held{};
  }
  if (!usual) return 0;
  const Held left = settled(*usual);
  if (left <= *usual) return 0;
  fmt::print(stderr, "seeds {} to {} leave {} threads and {} files, the first {} {} and {}\n",
             first, last, left.threads, left.files, kWarmUp, usual->threads, usual->files);
  return kLeft;
}

int compare_all(const Program& program, int ranks, char** words) {
  Expectation expectation;
  std::istringstream names(words[2]);
  for (std::string name; std::getline(names, name, ',');) expectation.collectives.insert(name);
  expectation.min_bytes = std::strtoull(words[3], nullptr, 10);
  expectation.error = std::atof(words[4]);
  expectation.own_exact = words[5] == std::string("exact");
  size_t compressed = 0, exact = 0;
  std::vector<Results> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(load(file_of(words[1], rank)));
    const Verdict v =
        compare(program, load(file_of(words[0], rank)), all.back(), rank, ranks, expectation);
    compressed += v.compressed;
    exact += v.exact;
    if (!v.wrong.empty()) {
      fmt::print("rank {}: {}\n", rank, v.wrong);
      return 1;
    }
  }
  if (const std::string wrong = differ(program, all, expectation); !wrong.empty()) {
    fmt::print("{}\n", wrong);
    return 1;
  }
  fmt::print("{} compressed, {} exact\n", compressed, exact);
  return 0;
}

int run(int argc, char** argv) {
  if (argc < 4) throw std::runtime_error("too few arguments");
  const std::string verb = argv[1];
  if (verb == "series" && argc == 5)
    return play_series(std::atoi(argv[2]), std::atoi(argv[3]), argv[4]);
  const int ranks = std::atoi(argv[3]);
  const Program program = make_program(static_cast<uint32_t>(std::atoi(argv[2])), ranks);
  if (verb == "play" && argc == 5) return play_all(program, ranks, argv[4]);
  if (verb == "rank" && (argc == 6 || argc == 7)) {
    const int rank = std::atoi(argv[5]);
    return play_threads(program, exchange_id(argv[4] + std::string(".id"), rank), rank,
                        argc == 7 ? std::atoi(argv[6]) : 1, ranks, argv[4]);
  }
  if (verb == "compare" && argc == 10) return compare_all(program, ranks, argv + 4);
  if (verb != "print") throw std::runtime_error("unknown arguments");
  for (const Step& step : program.steps) {
    if (step.request) fmt::print("{}\n", describe(*step.request));
    fmt::print("group of depth {}{}\n", step.depth,
               step.only_on_odd_ranks ? ", on odd ranks only" : "");
    if (step.bad)
      fmt::print("  a bad call on comm {} before {}\n", step.bad->communicator, step.bad->at);
    for (const Call& call : step.calls) fmt::print("  {}\n", describe(call));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "interpose_program: {}\n", e.what());
    return 2;
  }
}
