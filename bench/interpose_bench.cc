// What the preload library costs a call that it hands on, beside the same call of NCCL itself.
//
//   interpose_bench                                        calls of an NCCL that does nothing
//   TERSE_NCCL=LIBNCCL TERSE_SCHEME=int8 interpose_bench   groups of small sums on that NCCL
//
// Both need no preloading: the two libraries' functions are looked up side by side.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

constexpr int kRanks = 2, kCalls = 100;
constexpr size_t kCount = 256;

// The functions as one library has them.
struct Nccl {
  explicit Nccl(void* library) {
    find(library, "ncclCommInitAll", CommInitAll);
    find(library, "ncclCommDestroy", CommDestroy);
    find(library, "ncclAllReduce", AllReduce);
    find(library, "ncclSend", Send);
    find(library, "ncclGroupStart", GroupStart);
    find(library, "ncclGroupEnd", GroupEnd);
  }
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  // NOLINTBEGIN(readability-identifier-naming): NCCL's names, without its prefix.
  decltype(&ncclCommInitAll) CommInitAll;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclAllReduce) AllReduce;
  decltype(&ncclSend) Send;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;
  // NOLINTEND(readability-identifier-naming)
};

void send(benchmark::State& state, const Nccl& nccl) {
  float data[1] = {};
  for (auto _ : state)
    benchmark::DoNotOptimize(nccl.Send(data, 1, ncclFloat32, 1, nullptr, nullptr));
}

void all_reduce(benchmark::State& state, const Nccl& nccl) {
  float data[1] = {};
  // Any address serves: nothing but its value is looked at.
  const auto comm = reinterpret_cast<ncclComm_t>(data);
  for (auto _ : state)
    benchmark::DoNotOptimize(nccl.AllReduce(data, data, 1, ncclFloat32, ncclSum, comm, nullptr));
}

void group(benchmark::State& state, const Nccl& nccl) {
  std::vector<ncclComm_t> comms(kRanks);
  if (nccl.CommInitAll(comms.data(), kRanks, nullptr) != ncclSuccess)
    return state.SkipWithError("no communicators");
  std::vector<std::vector<float>> data(kRanks * kCalls, std::vector<float>(kCount));
  for (auto _ : state) {
    nccl.GroupStart();
    for (int k = 0; k < kCalls; ++k)
      for (int r = 0; r < kRanks; ++r) {
        float* mine = data[k * kRanks + r].data();
        nccl.AllReduce(mine, mine, kCount, ncclFloat32, ncclSum, comms[r], nullptr);
      }
    if (nccl.GroupEnd() != ncclSuccess) return state.SkipWithError("the group failed");
  }
  for (ncclComm_t comm : comms) nccl.CommDestroy(comm);
}

void* open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  std::fprintf(stderr, "%s\n", dlerror());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto build = program.parent_path().parent_path();
  const std::string idle = build / "bench/idle/libnccl.so.2";
  const bool works =
      setenv("TERSE_NCCL", idle.c_str(), 0) == 0 && std::getenv("TERSE_NCCL") != idle;
  const Nccl direct(open(std::getenv("TERSE_NCCL")));
  const Nccl interposed(open(build / "lib/libterse_nccl.so"));

  for (const auto& [name, nccl] : {std::pair("direct", &direct), std::pair("terse", &interposed)}) {
    const std::string who = name;
    if (works) {
      benchmark::RegisterBenchmark(("group/" + who).c_str(), group, *nccl)
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    } else {
      benchmark::RegisterBenchmark(("ncclSend/" + who).c_str(), send, *nccl);
      benchmark::RegisterBenchmark(("ncclAllReduce/" + who).c_str(), all_reduce, *nccl);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
