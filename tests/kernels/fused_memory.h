// What fused calls and plans have in common: the memory of a call on one rank, and computes bound
// to it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory_resource>
#include <vector>

#include "codec/codec.h"
#include "fused_calls.h"

namespace terse::kernels {

constexpr size_t kMemoryAlignment = 256;
using Storage = std::pmr::vector<uint8_t>;
char* aligned(Storage& bytes, size_t offset);

// Memory of a call on one rank. In place, as NCCL has it: where its part of the larger one is.
struct Memory {
  explicit Memory(std::pmr::memory_resource* memory)
      : bytes{Storage(memory), Storage(memory)}, fingerprints(memory) {}

  Storage bytes[2], fingerprints;
  char *send = nullptr, *recv = nullptr;
  size_t recv_bytes = 0;
};

Memory make_memory(const FusedRun& run, size_t number, int rank,
                   std::pmr::memory_resource* memory = std::pmr::get_default_resource());
oracle::Bytes result(const Memory& memory);

plan::Shape shape_of(const FusedCall& call, int ranks);
plan::Plan build(const FusedCall& call, const plan::Shape& shape);

// Binds computes of a call on a rank to addresses, of which places in scratch are up to the caller.
class Binder {
 public:
  using Address = std::function<char*(const plan::Place&)>;

  Binder(const FusedCall& call, size_t number, int ranks, int rank, Memory& memory)
      : call_(call), number_(number), ranks_(ranks), rank_(rank), memory_(memory) {}

  char* address(const plan::Place& place, const Address& scratch) const;

  codec::Combine bind(const plan::Compute& c, const Address& source, const Address& target,
                      const Address& fingerprint);

  void fingerprint(const plan::Fingerprint& f, char* to) const;

  void copy(const plan::Copy& c) const;

 private:
  const FusedCall& call_;
  const size_t number_;
  const int ranks_, rank_;
  Memory& memory_;
  std::deque<std::vector<codec::Source>> sources_;
};

}  // namespace terse::kernels
