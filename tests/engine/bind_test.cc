// What NCCL is called with for a plan's native collectives.
#include "engine/run/bind.h"

#include <gtest/gtest.h>

namespace terse::test {
namespace {

using plan::Element;
using plan::Operation;
using plan::Region;

constexpr char kSent[8] = {};
char g_received[8], g_scratch[8], g_exact[8];

const Request kCall{.collective = plan::Collective::kReduceScatter,
                    .send = kSent,
                    .recv = g_received,
                    .count = 1000,
                    .datatype = ncclBfloat16,
                    .op = ncclAvg,
                    .root = 7};

Request bound(const plan::Native& native) {
  return request_of(native, kCall, {.scratch = g_scratch, .exact = g_exact});
}

TEST(Bind, ANativeCollectiveIsOfTheCallsOwnTypeAndOperation) {
  const Request r = bound({.collective = plan::Collective::kReduce,
                           .send = {Region::kSend, 2},
                           .recv = {Region::kScratch, 4},
                           .count = 3,
                           .root = 1});
  EXPECT_EQ(r.collective, plan::Collective::kReduce);
  EXPECT_EQ(r.send, kSent + 2);
  EXPECT_EQ(r.recv, g_scratch + 4);
  EXPECT_EQ(r.count, 3u);
  EXPECT_EQ(r.datatype, ncclBfloat16);
  EXPECT_EQ(r.op, ncclAvg);
  EXPECT_EQ(r.root, 1);
}

TEST(Bind, ANativeCollectiveMayHaveItsOwn) {
  const auto type = [](Element e) { return bound({.element = e}).datatype; };
  EXPECT_EQ(type(Element::kUint8), ncclUint8);
  EXPECT_EQ(type(Element::kUint32), ncclUint32);
  EXPECT_EQ(type(Element::kFloat32), ncclFloat32);
  const auto op = [](Operation o) { return bound({.operation = o}).op; };
  EXPECT_EQ(op(Operation::kSum), ncclSum);
  EXPECT_EQ(op(Operation::kMax), ncclMax);
}

TEST(Bind, EveryRegionHasItsMemory) {
  const auto at = [](Region region) {
    return address({region, 1}, kCall, {.scratch = g_scratch, .exact = g_exact});
  };
  EXPECT_EQ(at(Region::kSend), kSent + 1);
  EXPECT_EQ(at(Region::kRecv), g_received + 1);
  EXPECT_EQ(at(Region::kScratch), g_scratch + 1);
  EXPECT_EQ(at(Region::kExact), g_exact + 1);
}

}  // namespace
}  // namespace terse::test
