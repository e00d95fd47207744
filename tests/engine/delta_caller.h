// A rank that gathers differences of weights, bucket by bucket, step by step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "client_stats.h"
#include "normal.h"
#include "terse_client.h"

namespace terse::test {

using Floats = std::vector<float>;

// One rank's calls with a scheme, of whose values these tests need not know more than that all
// ranks have the same, and how near it is.
class Caller {
 public:
  Caller(int rank, int ranks, ncclComm_t comm, const char* scheme)
      : rank_(rank), ranks_(ranks), comm_(comm), scheme_(scheme) {}

  // Of what all ranks' weights are at a step; by bucket.
  static Bytes weights(size_t rank, size_t bucket, int step) {
    std::mt19937 random(static_cast<unsigned>(rank * 1000 + bucket));
    Normal normal;
    Floats all(kCount);
    for (float& x : all) x = normal(random);
    for (int s = 0; s < step; ++s)
      for (float& x : all) x += 0.001f * normal(random);
    return bytes_of(all, ncclFloat32);
  }

  void gather(Bytes& recv, size_t bucket, int step) const {
    char* const own = recv.data() + rank_ * kBytes;
    std::ranges::copy(weights(rank_, bucket, step), own);
    ASSERT_EQ(try_to_gather(recv), ncclSuccess) << terseGetLastError();
  }
  ncclResult_t try_to_gather(Bytes& recv) const {
    const char* const own = recv.data() + rank_ * kBytes;
    return terseAllGather(own, recv.data(), kCount, ncclFloat32, scheme_.get(), comm_, nullptr);
  }

  // The largest error of what is received.
  double error(const Bytes& recv, size_t bucket, int step) const {
    double largest = 0;
    for (int r = 0; r < ranks_; ++r) {
      const Bytes part(recv.begin() + r * kBytes, recv.begin() + (r + 1) * kBytes);
      const Floats got = floats_of(part, ncclFloat32),
                   want = floats_of(weights(r, bucket, step), ncclFloat32);
      for (size_t i = 0; i < got.size(); ++i)
        largest = std::max<double>(largest, std::fabs(got[i] - want[i]));
    }
    return largest;
  }

  terseStats_t stats() const { return client_stats(comm_); }

  static constexpr size_t kCount = 3000, kBytes = kCount * sizeof(float);

 private:
  const int rank_, ranks_;
  const ncclComm_t comm_;
  const SchemeHandle scheme_;
};

}  // namespace terse::test
