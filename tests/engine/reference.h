// What compressed collectives must give, byte for byte, computed plainly from all ranks' inputs
// with the codec alone: no plans, chunks, streams or messages.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/draw.h"
#include "engine/comm/request.h"
#include "policy/scheme.h"

namespace terse::test {

using Bytes = std::vector<char>;

struct Call {
  plan::Collective collective = plan::Collective::kAllReduce;
  Scheme scheme;
  ncclDataType_t datatype = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  size_t count = 0;  // NCCL's argument
  int root = 0;
  uint64_t ordinal = 0;          // of the communicator in this process
  uint64_t sequence = 0;         // of the call on it
  uint64_t replays = 0;          // of a recorded call: the runs of its graph's calls before
  std::vector<int> node = {};    // by rank, where nodes of equally many ranks are known
  std::vector<int> groups = {};  // nodes to a group, groups to a group of groups; none: two levels
  size_t part_bytes = 0;         // in groups, raw bytes wanted of a part; 0: one part has all
  const float* codebook = nullptr;  // of a learned codec; null: levels are equally far apart
  bool preloaded = false;           // of the preload library, not of libterse.so
};

// Elements that a rank sends and receives; of rooted collectives, the root.
size_t send_count(const Call& call, int ranks);
size_t recv_count(const Call& call, int ranks);

// What each rank receives, nothing where that is nothing; `sent` by rank. Not for Send and Recv.
std::vector<Bytes> expected(const Call& call, const std::vector<Bytes>& sent);

// The random numbers of what `rank`, which sends `sent` to the collective, encodes.
codec::Draw draw_by(const Bytes& sent, const Call& call, size_t rank, uint32_t shard,
                    uint32_t stage);

// Ranks that encode for one sum, in their order.
using Contributors = std::vector<size_t>;

// The random numbers of a contributor that rounds stochastically, of two or more.
codec::Draw shared_draw(const Call& call, const Contributors& contributors, size_t rank,
                        uint32_t shard, uint32_t stage);

// What becomes of a message of `sender` that is the `index`-th of its group.
Bytes expected_message(const Call& call, const Bytes& sent, int sender, uint32_t index);

// The exact result in double precision, as values: what an uncompressed call means.
std::vector<std::vector<double>> exact(const Call& call, const std::vector<Bytes>& sent);
std::vector<double> values(const Bytes& bytes, ncclDataType_t datatype);
std::vector<float> floats_of(const Bytes& bytes, ncclDataType_t datatype);  // the same

// The same values in a dtype, rounded to it.
Bytes bytes_of(const std::vector<float>& values, ncclDataType_t datatype);

// |a - b| / |b|, in the L2 norm.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

// libterse numbers the communicators of a process as their ranks first agree; so must the tests
// that predict random numbers: one call for each such communicator.
uint64_t next_ordinal();

// One rank's call.
Request request_of(const Call& call, const void* in, void* out, cudaStream_t stream);

// Gaussian data of a dtype.
Bytes gaussian(size_t count, ncclDataType_t datatype, unsigned seed);

}  // namespace terse::test
