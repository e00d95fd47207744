#include "step.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kSteps = 3, kPair = 2;
constexpr size_t kParameters = 1 << 20;

void check(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
}

// What rank `rank` has at place i in a step: anything that can be computed anew.
float value(size_t i, int step, int rank) {
  return std::sin(1e-3f * static_cast<float>(i % 10'000) + static_cast<float>(step + 10 * rank));
}

std::vector<float> values(size_t count, int step, int rank) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = value(i, step, rank);
  return all;
}

// ||got - truth|| / ||truth||
template <class Truth>
double error(const std::vector<float>& got, const Truth& truth) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double exact = truth(i);
    difference += (got[i] - exact) * (got[i] - exact);
    norm += exact * exact;
  }
  return std::sqrt(difference / norm);
}

struct Communicators {
  Communicators(ncclUniqueId id, int ranks, int rank) {
    check(ncclCommInitRank(&world, ranks, id, rank));
    check(ncclCommSplit(world, rank / kPair, rank, &tensor, nullptr));
    check(ncclCommSplit(world, rank % kPair, rank, &data, nullptr));
  }
  ~Communicators() {
    for (const ncclComm_t comm : {data, tensor, world}) ncclCommDestroy(comm);
  }

  ncclComm_t world = nullptr, tensor = nullptr, data = nullptr;
};

}  // namespace

void run_steps(ncclUniqueId id, int ranks, int rank) {
  const Communicators comms(id, ranks, rank);
  const int in_pair = rank % kPair, pairs = ranks / kPair;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> gradient = values(kParameters, step, rank);
    const std::vector<float> shard = values(kParameters / kPair, step, in_pair);
    std::vector<float> parameters(kParameters);
    int64_t tokens = 1000 + rank;

    // Null streams: done on return (on the host; a GPU program passes its streams).
    check(ncclGroupStart());
    check(ncclAllReduce(gradient.data(), gradient.data(), kParameters, ncclFloat32, ncclAvg,
                        comms.data, nullptr));
    check(ncclAllGather(shard.data(), parameters.data(), shard.size(), ncclFloat32, comms.tensor,
                        nullptr));
    check(ncclAllReduce(&tokens, &tokens, 1, ncclInt64, ncclSum, comms.world, nullptr));
    check(ncclGroupEnd());

    const double of_gradient = error(gradient, [&](size_t i) {
      double sum = 0;
      for (int pair = 0; pair < pairs; ++pair) sum += value(i, step, kPair * pair + in_pair);
      return sum / pairs;
    });
    const double of_parameters = error(parameters, [&](size_t i) {
      return value(i % shard.size(), step, static_cast<int>(i / shard.size()));
    });
    std::printf("step %d rank %d: gradient error %.2g, parameter error %.2g, %lld tokens\n", step,
                rank, of_gradient, of_parameters, static_cast<long long>(tokens));
    if (tokens != 1000 * ranks + ranks * (ranks - 1) / 2)
      throw std::runtime_error("the number of tokens is wrong");
  }
}
