// A compressed call allocates nothing after the first ones of its kind.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "../plan/running_sum.h"
#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "idle.h"

namespace {

thread_local size_t t_allocations = 0, t_bytes = 0;

void* counted(void* memory, size_t bytes) {
  ++t_allocations;
  t_bytes += bytes;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#pragma GCC visibility push(default)  // the standard library's own code takes them, too
void* operator new(size_t bytes) { return counted(std::malloc(bytes), bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const size_t unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit), bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#pragma GCC visibility pop

namespace terse::test {
namespace {

using plan::Collective;

struct Caller {
  explicit Caller(const char* scheme, uint64_t timing = 0)
      : scheme(parse_scheme(scheme)), c(this->scheme) {
    c.backend.timing = timing;
  }

  void call(Collective collective, size_t count, int root = 0) {
    const Request request{.collective = collective,
                          .send = data,
                          .recv = data + 1,
                          .count = count,
                          .datatype = dtype,
                          .stream = reinterpret_cast<cudaStream_t>(data),
                          .root = root};
    submit(c.state, request, route(c.state, request, scheme));
  }

  // How many allocations a hundred repetitions make, after some to warm up.
  size_t allocations(const std::function<void()>& body) {
    for (int i = 0; i < 200; ++i) body();
    const size_t before = t_allocations, combines = c.backend.combines;
    for (int i = 0; i < 100; ++i) body();
    EXPECT_GT(c.backend.combines, combines);  // it is compressed
    return t_allocations - before;
  }

  const Scheme scheme;
  ncclDataType_t dtype = ncclFloat32;
  float data[2] = {};
  IdleCommunicator c;
};

TEST(Allocations, AreSeen) {
  Caller caller("int8");
  EXPECT_GE(caller.allocations([&] {
    caller.call(Collective::kAllReduce, 5'000);
    std::free(nullptr);
    ::operator delete(::operator new(4));  // which the compiler may not leave out
  }),
            100u);
}

TEST(Allocations, NoneForACall) {
  for (const uint64_t timing : {0, 1, 3}) {
    Caller caller("int4:round=stochastic", timing);
    for (const size_t count : {1'000u, 300'000u, 20'000'000u})
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
            Collective::kAllToAll, Collective::kBroadcast, Collective::kReduce, Collective::kGather,
            Collective::kScatter, Collective::kSend, Collective::kRecv})
        EXPECT_EQ(caller.allocations([&] { caller.call(collective, count); }), 0u)
            << plan::name(collective) << ' ' << count << " timing " << timing;
  }
}

TEST(Allocations, NoneForACallOnASharedGrid) {
  for (const char* scheme : {"linear8", "exp8"}) {
    Caller caller(scheme);
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
      EXPECT_EQ(caller.allocations([&] { caller.call(collective, 300'000); }), 0u)
          << scheme << " " << plan::name(collective);
  }
}

TEST(Allocations, NoneForACallThatIsPartlyNative) {
  Caller caller("int8");
  caller.c.state.routing().plans().exclude(5'000, {{10, 20}, {100, 7}});
  EXPECT_EQ(caller.allocations([&] { caller.call(Collective::kAllReduce, 5'000); }), 0u);
}

TEST(Allocations, NoneForACallWithAState) {
  static constexpr plan::Algorithm kTable[] = {
      {Collective::kAllReduce,
       {"direct"},
       plan::running_sum,
       [](const plan::Shape&, plan::Algo) { return plan::Answer{true}; },
       [](const plan::Shape&) { return plan::Cost{1}; }}};
  Caller caller("int8");
  Communicator& c = caller.c.state;
  c.routing().plans().use(kTable);
  const StateKind kind{codec::Dtype::kFloat32, caller.scheme.spec};
  const plan::State state{"running sum of 5000", 40'000};
  c.memory().states().make(kind, state, c.memory().stream_sets().of(nullptr));
  c.memory().states().agree(kind, state);
  EXPECT_EQ(caller.allocations([&] { caller.call(Collective::kAllReduce, 5'000); }), 0u);
}

TEST(Allocations, NoneForACallOfALearnedCodec) {
  Caller caller("learned4:learn=never");
  Communicator& c = caller.c.state;
  const CodebookKind kind{Collective::kAllReduce, 5'000, codec::Dtype::kFloat32, caller.scheme.spec,
                          caller.scheme.learn};
  c.memory().codebooks().make(kind, c.memory().stream_sets().of(nullptr));
  c.memory().codebooks().agree(kind);
  EXPECT_EQ(caller.allocations([&] { caller.call(Collective::kAllReduce, 5'000); }), 0u);
  EXPECT_NE(c.memory().codebooks().find(kind)->calls, 0u);
}

TEST(Allocations, NoneForAGroup) {
  Caller caller("int8", 1);
  EXPECT_EQ(caller.allocations([&] {
    group_start();
    for (size_t i = 0; i < 20; ++i) caller.call(Collective::kAllReduce, 1'000 + 10 * i);
    caller.call(Collective::kReduceScatter, 1'000'000);
    for (int peer = 0; peer < 8; ++peer) {
      if (peer == caller.c.state.rank) continue;
      caller.call(Collective::kSend, 1'000, peer);
      caller.call(Collective::kRecv, 1'000, peer);
    }
    group_end();
  }),
            0u);
}

// By which the plans that are kept are bounded: a copy allocates what a plan has.
TEST(Allocations, AreWhatAPlanSaysThatItHas) {
  Caller caller("int8");
  for (const size_t count : {1'000u, 20'000'000u}) {
    const PlanPointer plan = caller.c.state.routing().plans().of(
        PlanKey{.collective = Collective::kAllReduce, .count = count});
    const size_t allocations = t_allocations, bytes = t_bytes;
    const plan::Plan copy = *plan;
    const size_t own = sizeof copy + t_bytes - bytes;
    EXPECT_GE(plan::memory_bytes(copy), own);
    EXPECT_LE(plan::memory_bytes(copy), own + 100 + 16 * (t_allocations - allocations));
    EXPECT_GE(plan::memory_bytes(*plan), plan::memory_bytes(copy));
  }
}

// What is not compressed goes along with what is, and is not measured.
TEST(Allocations, NoneForAGroupWithNativeMessages) {
  Caller caller("int8", 1);
  EXPECT_EQ(caller.allocations([&] {
    group_start();
    caller.dtype = ncclFloat32;
    caller.call(Collective::kAllReduce, 1'000);
    caller.dtype = ncclInt32;
    for (const Collective end : {Collective::kSend, Collective::kRecv}) caller.call(end, 1'000, 1);
    group_end();
  }),
            0u);
}

}  // namespace
}  // namespace terse::test
