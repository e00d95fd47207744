// Programs of NCCL calls under the preload library. A rule in rules.toml gives each communicator
// the scheme that it is named after, so that one process makes the same calls native and
// compressed.
#pragma once

#include <gtest/gtest.h>
#include <hostnccl.h>
#include <nccl.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nccl_client.h"
#include "reference.h"

namespace terse::test {

using Floats = std::vector<float>;

constexpr const char* kNative = "native";

// A scheme of each family of formats.
inline const auto kSchemes = testing::Values("int8", "int4", "minmax8", "fp8e4m3", "mxfp8", "mxfp4",
                                             "nvfp4", "linear8", "exp8", "learned4");

// Tests for each of them.
class EachScheme : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override;
  std::string scheme() const { return GetParam(); }
  bool serves(plan::Collective collective) const;
  size_t block() const;
};

// The largest error of an element, as a share of its block's absmax: of one encoding, or, of exp8,
// of merges.
double step(const std::string& scheme);

// Memory that ends `gap` bytes before a page which nobody may touch.
class Fenced {
 public:
  explicit Fenced(size_t bytes, size_t gap = 0);
  ~Fenced();
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return bytes_; }
  // Returns true if nothing before or behind it was written.
  bool intact() const;

 private:
  size_t bytes_, mapped_;
  char *base_, *data_;
};

// Runs body(rank, comm) on a thread for each rank of a communicator of this name.
void on_ranks(int ranks, const std::string& name,
              const std::function<void(int rank, ncclComm_t comm)>& body);

// Calls of a communicator that were compressed.
size_t compressed_calls(ncclComm_t comm);

// A rank's buffers for a call.
class Buffers {
 public:
  Buffers(const Call& call, int ranks, int rank, const Bytes& sent, bool in_place, size_t gap);
  const void* in() const { return in_; }
  void* out() const { return out_; }
  Bytes received() const { return {out_, out_ + received_}; }
  // Returns true if nothing but the result was written.
  bool intact() const;

 private:
  Fenced send_, recv_;
  char *in_ = nullptr, *out_ = nullptr;
  size_t received_ = 0;
  const Bytes& sent_;
  bool in_place_;
};

struct Case {
  Call call;
  std::vector<Bytes> sent = {};  // by rank
  bool in_place = false;
  size_t gap = 0;       // of buffers, in bytes
  Floats factors = {};  // by rank, of a PreMulSum; empty: the operator is the call's own
  ncclScalarResidence_t residence = ncclScalarHostImmediate;
};

struct Results {
  std::vector<std::vector<Bytes>> received;  // by case and rank
  size_t compressed = 0;                     // calls of rank 0
};

// Makes the calls one after another on one communicator.
Results play(const std::string& name, int ranks, std::span<const Case> cases);

}  // namespace terse::test
