#include "fake_nccl.h"

#include <cstring>
#include <string>

namespace {

constexpr int kCapacity = 4096;
FakeCall g_calls[kCapacity];
int g_count = 0;
std::string g_outer;
int g_inner = 0;

void run_inner(int inner);

void record(const FakeCall& call) {
  if (g_count < kCapacity) g_calls[g_count++] = call;
  if (g_inner == 0 || g_outer != call.name) return;
  const int inner = g_inner;
  g_inner = 0;
  run_inner(inner);
}

}  // namespace

extern "C" {

const FakeCall* fakeCalls(int* count) {
  *count = g_count;
  return g_calls;
}
void fakeForget() { g_count = 0; }
void fakeNest(const char* name, int inner) {
  g_outer = name;
  g_inner = inner;
}

// What a function returns, by the list's word for it.
struct Team {
  int ranks, rank, stride;
};
#define FAKE_TYPE_result uint64_t
#define FAKE_TYPE_text const char*
#define FAKE_TYPE_number Team
#define FAKE_TYPE_nothing void
#define FAKE_RETURN_result return 0;
#define FAKE_RETURN_text return "the fake's text";
#define FAKE_RETURN_number return {8, 5, 3};
#define FAKE_RETURN_nothing

#define FAKE_PARAMETERS                                                                         \
  uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, double n0, double n1, \
      double n2, double n3, double n4, double n5, double n6, double n7, uint64_t g, uint64_t h, \
      uint64_t i, uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n, uint64_t o,       \
      uint64_t p, uint64_t q, uint64_t r, uint64_t s, uint64_t t, uint64_t u, uint64_t v,       \
      uint64_t w, uint64_t x
#define FAKE_BODY(name, returns)                                                    \
  record({#name,                                                                    \
          {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x}, \
          {n0, n1, n2, n3, n4, n5, n6, n7}});                                       \
  FAKE_RETURN_##returns

#define FAKE_FUNCTION(name, returns) \
  __attribute__((weak)) FAKE_TYPE_##returns name(FAKE_PARAMETERS) { FAKE_BODY(name, returns) }
#define FAKE_ALIAS(name, returns) \
  __attribute__((alias(#name))) FAKE_TYPE_##returns p##name(FAKE_PARAMETERS);
#define FAKE_ALIAS_ours FAKE_ALIAS
#define FAKE_ALIAS_next FAKE_ALIAS
#define FAKE_ALIAS_inner(name, returns)
#define NCCL_FUNCTION(name, whose, returns) \
  FAKE_FUNCTION(name, returns) FAKE_ALIAS_##whose(name, returns)
#include "interpose/functions.inc"
#undef NCCL_FUNCTION

}  // extern "C"

namespace {

// Through the PLT, as libnccl.so.2 calls its own exports.
template <class... Words>
void call(uint64_t (*function)(FAKE_PARAMETERS), Words... words) {
  uint64_t w[kFakeWords] = {static_cast<uint64_t>(words)...};
  function(w[0], w[1], w[2], w[3], w[4], w[5], 0, 0, 0, 0, 0, 0, 0, 0, w[6], w[7], w[8], w[9],
           w[10], w[11], w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21],
           w[22], w[23]);
}

void run_inner(int inner) {
  constexpr int kFloat32 = 7, kSum = 0;
  if (inner == 1) return call(ncclBroadcast, 11, 11, 12, 13, 14, 15, 16);
  call(ncclGroupStart);
  call(ncclAllReduce, 0x1000, 0x1000, 1 << 20, kFloat32, kSum, 0x2000, 0x3000);
  call(ncclGroupEnd);
  call(ncclCommInitRank, 0x4000, 2, 1);
}

}  // namespace
