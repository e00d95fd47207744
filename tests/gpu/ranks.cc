#include "ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "environment.h"
#include "nccl_choice.h"
#include "placement.h"

namespace terse::gpu {
namespace {

constexpr double kPatience = 120;  // seconds for the others

const char* g_program = "";

// Called where an exception has left no handler behind.
[[noreturn]] void end_process() {
  std::fflush(stdout);
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", g_program, error.what());
  } catch (...) {
    std::fprintf(stderr, "%s: ended\n", g_program);
  }
  std::_Exit(1);
}

const perf::Device& choose_device(int argc, char** argv) {
  perf::use_nccl_of_gpu({argv, argv + argc});
  return perf::device_in_use();
}

}  // namespace

Rank::Rank(int argc, char** argv) : device_(choose_device(argc, argv)) {
  const perf::Launch launch = perf::read_launch();
  rendezvous_ = std::make_unique<perf::Rendezvous>(
      perf::Meeting{launch.process, launch.processes, launch.address, launch.port, kPatience});
  device_.select(perf::place_ranks(device_, launch, 1, rendezvous_.get()).front());
  ncclUniqueId id = {};
  if (rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string shared = gather({id.internal, sizeof id.internal}).front();
  std::copy(shared.begin(), shared.end(), id.internal);
  check_nccl(ncclCommInitRank(&comm_, ranks(), id, rank()), "ncclCommInitRank");
  stream_ = device_.create_stream();
}

Rank::~Rank() {
  terseCommRelease(comm_);
  ncclCommDestroy(comm_);
  device_.destroy_stream(stream_);
}

std::vector<std::string> Rank::gather(const std::string& blob) const {
  return rendezvous_->all_gather(blob, kPatience);
}

bool Rank::agree(const std::string& blob) const {
  const auto all = gather(blob);
  return std::all_of(all.begin(), all.end(), [&](const auto& other) { return other == all[0]; });
}

int Rank::total(int number) const {
  int sum = 0;
  for (const std::string& blob : gather(std::to_string(number))) sum += std::stoi(blob);
  return sum;
}

void Rank::check_terse(ncclResult_t result, const std::string& what) {
  if (result != ncclSuccess) throw std::runtime_error(what + ": " + terseGetLastError());
}

void Rank::check_nccl(ncclResult_t result, const std::string& what) {
  if (result != ncclSuccess)
    throw std::runtime_error(what + ": " + ncclGetErrorString(result) + " / " +
                             ncclGetLastError(nullptr));
}

int run_rank(const char* program, int (*body)(int argc, char** argv), int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  g_program = program;
  std::set_terminate(&end_process);
  return body(argc, argv);
}

}  // namespace terse::gpu
