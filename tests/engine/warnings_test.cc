// Warnings of calls that may do harm: each once in a process, by rank 0.
#include <gtest/gtest.h>

#include "engine/comm/directory.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"

namespace terse::test {
namespace {

using plan::Collective;

size_t times(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What two ranks say at calls on a communicator.
std::string said(const std::function<void(int rank, ncclComm_t comm)>& body) {
  next_ordinal();
  testing::internal::CaptureStderr();
  run_ranks(2, body);
  return testing::internal::GetCapturedStderr();
}

void gather(ncclComm_t comm, size_t count) {
  std::vector<float> in(count, 1.0f), out(2 * count);
  submit(comm, {Collective::kAllGather, in.data(), out.data(), count, ncclFloat32},
         parse_scheme("int8"));
}

TEST(Warnings, AGatherThatComesLateMayBeACheckpoints) {
  const std::string text = said([](int, ncclComm_t comm) {
    for (int call = 0; call < 120; ++call) gather(comm, 5000);
    gather(comm, 6000);
    gather(comm, 7000);
    release_communicator(comm, false);
  });
  EXPECT_EQ(times(text,
                  "an AllGather of 6000 elements in fp32 comes for the first time after 120 "
                  "calls and is rounded"),
            1u)
      << text;
  EXPECT_EQ(times(text, "comes for the first time"), 1u) << text;
}

TEST(Warnings, GradientsBesideTensorParallelismWantExclusions) {
  const std::string text = said([](int rank, ncclComm_t comm) {
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &other, nullptr), ncclSuccess);
    name_communicator(other, "TENSOR_MODEL_PARALLEL_GROUP");
    name_communicator(comm, "dp");
    std::vector<float> data(5000, 1.0f);
    for (int call = 0; call < 3; ++call)
      submit(comm, {Collective::kAllReduce, data.data(), data.data(), data.size(), ncclFloat32},
             parse_scheme("int8"));
    release_communicator(comm, false);
    release_communicator(other, false);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
  EXPECT_EQ(times(text,
                  "compressed beside tensor parallelism (communicator "
                  "\"TENSOR_MODEL_PARALLEL_GROUP\")"),
            1u)
      << text;
}

}  // namespace
}  // namespace terse::test
