// What identifies a plan tells calls apart by every field that there is. The bindings name all
// fields: with one more they do not compile, and it belongs in the list below.
#include <gtest/gtest.h>

#include <set>

#include "engine/comm/communicator.h"
#include "idle.h"

namespace terse::test {
namespace {

using codec::Dtype;
using codec::Rounding;
using codec::Spec;

const std::vector<Spec>& specs() {
  static const std::vector<Spec> all = [] {
    const Spec one;
    const auto& [codec, rounding, bits, block, scale, hadamard, ranks] = one;
    return std::vector<Spec>{one,
                             {codec::CodecId{2}, rounding, bits, block, scale, hadamard, ranks},
                             {codec, Rounding::kStochastic, bits, block, scale, hadamard, ranks},
                             {codec, rounding, 4, block, scale, hadamard, ranks},
                             {codec, rounding, bits, 64, scale, hadamard, ranks},
                             {codec, rounding, bits, block, codec::Number::kBf16, hadamard, ranks},
                             {codec, rounding, bits, block, scale, 32, ranks},
                             {codec, rounding, bits, block, scale, hadamard, 2}};
  }();
  return all;
}

template <class Key>
void expect_distinct(const std::vector<Key>& keys) {
  EXPECT_EQ(std::set<Key>(keys.begin(), keys.end()).size(), keys.size());
}

TEST(PlanKeys, OfCollectivesDifferByEveryField) {
  const PlanKey one{
      plan::Collective::kAllReduce, 0, 100, Dtype::kFloat32, {}, {}, {}, false, false};
  const auto& [collective, root, count, dtype, forms, algorithm, delta, verified, learns] = one;
  std::vector<PlanKey> keys{
      {plan::Collective::kReduce, root, count, dtype, forms, algorithm, delta, verified, learns},
      {collective, 1, count, dtype, forms, algorithm, delta, verified, learns},
      {collective, root, 101, dtype, forms, algorithm, delta, verified, learns},
      {collective, root, count, Dtype::kBfloat16, forms, algorithm, delta, verified, learns},
      {collective, root, count, dtype, forms, plan::Algo{1}, delta, verified, learns},
      {collective, root, count, dtype, forms, algorithm, delta, true, learns},
      {collective, root, count, dtype, forms, algorithm, delta, verified, true}};
  for (const plan::Delta& other :
       {plan::Delta{.base = plan::Base::kShadow}, plan::Delta{.gathers = plan::Gathers::kNothing},
        plan::Delta{.own_exact = true}})
    keys.push_back({collective, root, count, dtype, forms, algorithm, other, verified, learns});
  std::vector<Forms> others{{.spec = {}, .intra = {.off = true}}};
  for (const Spec& s : specs()) {
    others.push_back({.spec = s});
    others.push_back({.spec = {}, .intra = {.spec = s}});
    others.push_back({.spec = {}, .second = s});
  }
  for (const Forms& other : others)
    keys.push_back({collective, root, count, dtype, other, algorithm, delta, verified, learns});
  expect_distinct(keys);
}

TEST(PlanKeys, OfMessagesDifferByEveryField) {
  const MessageKey one{true, 1, 100, 4, Spec{}};
  const auto& [send, peer, count, element_bytes, spec] = one;
  std::vector<MessageKey> keys{{false, peer, count, element_bytes, spec},
                               {send, 2, count, element_bytes, spec},
                               {send, peer, 101, element_bytes, spec},
                               {send, peer, count, 2, spec},
                               {send, peer, count, element_bytes, std::nullopt}};
  for (const Spec& s : specs()) keys.push_back({send, peer, count, element_bytes, s});
  expect_distinct(keys);
}

// An algorithm may go by the nodes, which the ranks learn of after the first plans may be there.
TEST(PlanKeys, PlansAreMadeAnewWhenTheTopologyIsLearnt) {
  IdleCommunicator c(Scheme{});
  const PlanKey key{
      plan::Collective::kAllReduce, 0, 100, Dtype::kFloat32, {}, {}, {}, false, false};
  const PlanPointer before = c.state.routing().plans().of(key);
  EXPECT_EQ(c.state.routing().plans().of(key), before);
  c.state.routing().plans().learn(plan::topology_of(std::vector<uint64_t>{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(c.state.topology().nodes(), 2);
  EXPECT_NE(c.state.routing().plans().of(key), before);
}

}  // namespace
}  // namespace terse::test
