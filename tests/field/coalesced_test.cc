// Many calls on slices of one buffer in one group, as PyTorch's coalescing manager makes them.
// pytorch/pytorch#104168, #120683, #122807, #139739: they summed wrongly, hung, or did nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "host_stream.h"
#include "programs.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kRanks = 3;

class Coalesced : public EachScheme {};

// Calls in place, each on a slice that follows the one before without a gap.
std::vector<Call> calls() {
  struct Slice {
    Collective collective;
    ncclDataType_t type;
    size_t count;
    int root = 0;
  };
  static constexpr Slice kSlices[] = {{Collective::kAllReduce, ncclFloat32, 1000},
                                      {Collective::kReduceScatter, ncclBfloat16, 4099},
                                      {Collective::kAllReduce, ncclFloat32, 0},
                                      {Collective::kAllReduce, ncclFloat32, 1031},
                                      {Collective::kBroadcast, ncclBfloat16, 3001, 1},
                                      {Collective::kReduceScatter, ncclFloat32, 7},
                                      {Collective::kReduce, ncclBfloat16, 2500, 2},
                                      {Collective::kReduce, ncclFloat32, 2500, 0},
                                      {Collective::kAllGather, ncclFloat16, 1501},
                                      {Collective::kAllReduce, ncclBfloat16, 6000},
                                      {Collective::kReduceScatter, ncclFloat32, 6000}};
  std::vector<Call> all;
  for (const Slice& s : kSlices)
    all.push_back(
        {.collective = s.collective, .datatype = s.type, .count = s.count, .root = s.root});
  return all;
}

size_t bytes_of_slice(const Call& call) {
  return std::max(send_count(call, kRanks), recv_count(call, kRanks)) *
         datatype_size(call.datatype);
}

Bytes filled(int rank) {
  Bytes all;
  for (const Call& call : calls()) {
    const auto slice = gaussian(bytes_of_slice(call) / datatype_size(call.datatype), call.datatype,
                                static_cast<unsigned>(rank));
    all.insert(all.end(), slice.begin(), slice.end());
  }
  return all;
}

enum class Way { kAlone, kGrouped, kBackwards };

void make(const Call& call, char* slice, int rank, ncclComm_t comm, cudaStream_t stream) {
  const size_t own = rank * call.count * datatype_size(call.datatype);
  const plan::Traits& traits = plan::traits(call.collective);
  const bool gathers = traits.recv.per_rank && !traits.send.per_rank;
  const bool scatters = traits.send.per_rank && !traits.recv.per_rank;
  EXPECT_EQ(
      call_nccl(call, slice + (gathers ? own : 0), slice + (scatters ? own : 0), comm, stream),
      ncclSuccess)
      << ncclGetLastError(comm);
}

// Each rank's buffer after the calls.
std::vector<Bytes> after(const std::string& name, Way way) {
  std::vector<Bytes> all(kRanks);
  on_ranks(kRanks, name, [&](int rank, ncclComm_t comm) {
    const Bytes input = filled(rank);
    Fenced memory(input.size());
    std::ranges::copy(input, memory.data());
    const HostStream stream;
    std::vector<std::pair<Call, char*>> slices;
    char* at = memory.data();
    for (const Call& call : calls()) {
      slices.emplace_back(call, at);
      at += bytes_of_slice(call);
    }
    if (way == Way::kBackwards) std::ranges::reverse(slices);
    const bool grouped = way != Way::kAlone;
    ASSERT_EQ(grouped ? ncclGroupStart() : ncclSuccess, ncclSuccess);
    for (const auto& [call, slice] : slices) make(call, slice, rank, comm, stream.get());
    ASSERT_EQ(grouped ? ncclGroupEnd() : ncclSuccess, ncclSuccess) << ncclGetLastError(comm);
    ASSERT_EQ(stream.synchronize(), ncclSuccess);
    EXPECT_TRUE(memory.intact());
    all[rank].assign(memory.data(), memory.data() + memory.size());
  });
  return all;
}

// A slice of both is the same, but for what the scheme may err; its rank's own part alone, where
// the others stay as they were sent.
void expect_near(const Call& call, const char* got, const char* want, double tolerance) {
  const size_t bytes = bytes_of_slice(call);
  const auto found = values({got, got + bytes}, call.datatype);
  const auto truth = values({want, want + bytes}, call.datatype);
  size_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) wrong += !(std::abs(found[i] - truth[i]) <= tolerance);
  EXPECT_EQ(wrong, 0u) << name(call.collective) << " of " << call.count << " of type "
                       << call.datatype;
}

TEST_P(Coalesced, SlicesOfOneBuffer) {
  static const auto want = after(kNative, Way::kAlone);
  static const auto grouped = after(kNative, Way::kGrouped);
  EXPECT_EQ(grouped, want);
  for (const Way way : {Way::kAlone, Way::kGrouped, Way::kBackwards}) {
    const auto got = after(scheme(), way);
    for (int r = 0; r < kRanks; ++r) {
      size_t at = 0;
      for (const Call& call : calls()) {
        expect_near(call, &got[r][at], &want[r][at], 2 * step(scheme()) * kRanks * 5);
        at += bytes_of_slice(call);
      }
    }
  }
}

// Of 4096 bytes on.
TEST(CoalescedBySize, SlicesOnBothSidesOfTheSmallestMessage) {
  constexpr size_t kCounts[] = {1023, 1024, 0, 1, 5000};
  const auto numbers = [](size_t count, int rank) {
    return floats_of(gaussian(count, ncclFloat32, static_cast<unsigned>(rank)), ncclFloat32);
  };
  std::vector<Floats> sums;
  for (const size_t count : kCounts) {
    Floats& sum = sums.emplace_back(count);
    for (int r = 0; r < kRanks; ++r)
      std::ranges::transform(sum, numbers(count, r), sum.begin(), std::plus());
  }
  on_ranks(kRanks, "usual", [&](int rank, ncclComm_t comm) {
    const HostStream stream;
    std::vector<Floats> data;
    for (const size_t count : kCounts) data.push_back(numbers(count, rank));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (Floats& x : data)
      ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm, stream.get());
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    ASSERT_EQ(stream.synchronize(), ncclSuccess);
    EXPECT_EQ(compressed_calls(comm), 2u);
    for (size_t k = 0; k < data.size(); ++k)
      for (size_t i = 0; i < data[k].size(); ++i)
        ASSERT_NEAR(data[k][i], sums[k][i], data[k].size() < 1024 ? 1e-6 : 0.2);
  });
}

INSTANTIATE_TEST_SUITE_P(Schemes, Coalesced, kSchemes);

}  // namespace
}  // namespace terse::test
