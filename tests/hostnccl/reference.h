// What the collectives must give, computed the simple way, and buffers that notice a stray write.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hostnccl.h"

namespace hostnccl_test {

#define ASSERT_NCCL(call) ASSERT_EQ(ncclSuccess, call) << ncclGetLastError(nullptr)
#define EXPECT_NCCL(call) EXPECT_EQ(ncclSuccess, call) << ncclGetLastError(nullptr)

inline constexpr ncclDataType_t kAllTypes[] = {
    ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,      ncclUint64,
    ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};

size_t size_of(ncclDataType_t type);
bool is_float(ncclDataType_t type);
bool is_signed(ncclDataType_t type);

// One element. Floats by search among all codes or by the compiler; integers modulo 2^bits.
void encode(ncclDataType_t type, double value, void* to);
double decode(ncclDataType_t type, const void* from);
double rounded(ncclDataType_t type, double value);  // to what the type has

// Memory of `count` elements at an odd address if `shift` is odd, with guard bytes on both sides.
class Buffer {
 public:
  Buffer(ncclDataType_t type, size_t count, size_t shift = 0);
  char* data() { return memory_.data() + kGuard + shift_; }
  const char* data() const { return memory_.data() + kGuard + shift_; }
  char* at(size_t i) { return data() + i * size_of(type_); }
  const char* at(size_t i) const { return data() + i * size_of(type_); }
  size_t count() const { return count_; }
  double operator[](size_t i) const { return decode(type_, at(i)); }
  void set(size_t i, double value) { encode(type_, value, at(i)); }
  void fill(const std::function<double(size_t)>& value);
  bool guards_intact() const;
  bool operator==(const Buffer& other) const;

 private:
  static constexpr size_t kGuard = 64;
  ncclDataType_t type_;
  size_t count_;
  size_t shift_;
  std::vector<char> memory_;
};

// An input such that every result is exact in every type, but for averages of floats: small
// integers, few factors. It repeats.
inline constexpr size_t kInputPeriod = 60;
double input(ncclDataType_t type, ncclRedOp_t op, int rank, size_t i);

// The reduction of the ranks' inputs at element i. ncclNumOps stands for PreMulSum by 2.
double reduced(ncclDataType_t type, ncclRedOp_t op, int ranks, size_t i);

// What the average of the ranks' inputs at element i may be in a type of floats: they are
// multiplied by 1 / ranks and added in the order of the ranks, from any of them on, every step
// rounded.
std::vector<double> averages(ncclDataType_t type, int ranks, size_t i);

// The communicators of one process, made by ncclCommInitAll; driven in groups by one thread.
class Clique {
 public:
  explicit Clique(int size);
  ~Clique();
  int size() const { return static_cast<int>(comms_.size()); }
  ncclComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // Calls `call(rank, comm)` for every rank inside one group.
  ncclResult_t each(const std::function<ncclResult_t(int, ncclComm_t)>& call) const;

 private:
  std::vector<ncclComm_t> comms_;
};

// Runs `body(rank)` on a thread per rank.
void on_threads(int ranks, const std::function<void(int)>& body);

// A sum at once of one number of each rank.
inline void expect_sum(ncclComm_t comm, int own, int expected) {
  int value = own;
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
  EXPECT_EQ(value, expected);
}

}  // namespace hostnccl_test
