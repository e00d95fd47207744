// An NCCL that only records: every function of functions.inc writes down its name and what was in
// the argument registers and on the stack.
#pragma once

#include <cstdint>

// The first six (64-bit Arm: eight) in registers, the rest on the stack.
constexpr int kFakeWords = 24;

struct FakeCall {
  const char* name;
  uint64_t words[kFakeWords];
  double numbers[8];
};

// The calls since the last fakeForget(), in order; *count of them. Found by name on the library.
extern "C" const FakeCall* fakeCalls(int* count);
extern "C" void fakeForget();

// What NCCL does inside the call of the function `name`: `inner` runs within the library, and calls
// its exported functions as another library would.
//   0 nothing, 1 ncclBroadcast as ncclBcast does, 2 a group with an AllReduce of floats and a new
//   communicator
extern "C" void fakeNest(const char* name, int inner);
