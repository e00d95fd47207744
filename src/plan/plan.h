// A plan: how one collective call is done on one rank, as a value. It names no addresses, codecs or
// libraries, and so can be printed, checked, compared, cached and replayed.
//
// A plan's steps are given in the order in which they are issued. Each runs on a lane, an ordered
// queue, and starts when its lane has reached it and the steps in `after` are done. All are done
// when the decode lane has come to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/chunk_policy.h"
#include "plan/collective.h"
#include "plan/topology.h"

namespace terse::plan {

// Memory that a plan refers to, always by offset. kExact is for the call's result as NCCL itself
// gives it, to be compared with; kState keeps what it has from call to call, and kCodebook the
// levels that codes stand for.
enum class Region : uint8_t { kSend, kRecv, kScratch, kExact, kState, kCodebook };

struct Place {
  Region region = Region::kScratch;
  size_t offset = 0;  // bytes

  bool operator==(const Place&) const = default;
};

// How elements lie in memory, by what a call has: raw, in its dtype; packed, as its scheme says; or
// packed in the scheme's other ways, for what stays within a node, for a sum that is quantized
// again on its way to all ranks, and for sums that go between groups of nodes.
enum class Format : uint8_t { kRaw, kPacked, kIntraPacked, kSumPacked, kOuterPacked };
constexpr size_t kFormats = 5;

// Elements to read.
struct Input {
  Place place;
  Format format = Format::kPacked;
  bool negated = false;  // taken from the sum, if raw
};

// Part of a packed target that is written. If all ranks share a grid: first the parameters, to
// agree on, and then the codes by what was agreed on. kMerged: codes to which all inputs' codes are
// merged.
enum class Part : uint8_t { kAll, kParams, kCodes, kMerged };

// Key of the random numbers, but for the communicator: the call, unless it repeats, and a
// fingerprint.
struct RngKey {
  std::optional<Place> fingerprint = {};
  bool repeats = false;
};

// Number that is made of a uniform u: u, 1 - u, -2u or u + 1/2, modulo 1. Each is uniform.
enum class Variate : uint8_t { kOwn, kMirrored, kDoubled, kShifted };

// Draw that a contributor to a sum shares with one or two others (shared_draw.h).
struct SharedDraw {
  uint32_t rank = 0;  // of the first of them, whose u it is
  Variate variate = Variate::kOwn;

  bool operator==(const SharedDraw&) const = default;
};

// target = sum of the inputs, in their order, each times the call's factor if `averages`. All
// packed inputs are of one format. A target that is packed in another one has fp32 sums first, and
// no input is raw; it has neither if both formats have the same bodies.
struct Compute {
  std::vector<Input> inputs;
  Place target;
  Format target_format = Format::kPacked;
  Part part = Part::kAll;    // of a packed target
  size_t params_offset = 0;  // bytes from what is packed to its parameters; 0: behind the codes
  bool averages = false;     // multiplies each contribution once; or the sum of them, by its scale
  size_t count = 0;          // elements
  size_t origin = 0;         // the first element's index in its shard, for the random numbers
  uint32_t shard = 0;        // for the random numbers: the rank whose shard it is
  uint32_t stage = 0;        // first or second quantization
  uint32_t message = 0;      // whose buffers, type and codec
  std::optional<Place> sums = {};  // scratch for fp32 sums, if the packed formats differ
  std::optional<SharedDraw> shared_draw = {};  // empty: the rank's own
  std::optional<RngKey> rng_key = {};          // empty: by the call on its communicator
};

// Raw bytes, from the send buffer, scratch or the state to the receive buffer, scratch or the
// state; nothing where these are the same place.
struct Copy {
  Place target, source;
  size_t bytes = 0;
};

// Numbers whose sum says what there is in some raw bytes, made in scratch of kFingerprintBytes.
constexpr size_t kFingerprintBytes = 2048;
struct Fingerprint {
  Place target, source;
  size_t bytes = 0;
  bool of_samples = false;  // of samples, from the beginning to the end
};

// A stage in which levels are learned from the send buffer, by a state that all ranks make one
// between the stages: first it has the largest range of a block, then besides how often elements
// lie where in their blocks; and of these come the levels.
struct Learn {
  enum class Stage : uint8_t { kWidest, kHistogram, kFit };
  static constexpr size_t kBins = 1024, kBinsAt = 16;  // of 64 bits; and bytes to the first one
  static constexpr size_t kStateBytes = kBinsAt + kBins * sizeof(uint64_t);

  Stage stage;
  size_t count = 0;  // elements from the buffer's beginning
  Place state;
};

// A stage of the comparison of calls (headers.h): writes the own header, and room for those to be
// received, in scratch; or checks some that were. Before them are the verdict, a word that is not 0
// where calls differ, and the own header.
constexpr size_t kHeaderBytes = 32;
struct Header {
  enum class Stage : uint8_t { kWrite, kCheck };
  static constexpr size_t kReceived = 2;  // slots before the received ones

  Stage stage;
  Place memory;
  size_t first = 0, count = 0;  // received headers
  bool agrees = false;          // one, in two slots, that NCCL has reduced from those of all ranks
};

struct Transfer {
  int peer = 0;
  bool send = false;  // else receive
  Place place;
  size_t bytes = 0;
  uint32_t message = 0;  // whose buffers
  bool native = false;   // the caller's own message, with its own arguments
  bool header = false;   // names the call of the next message; not counted
};

// Type of a native collective's elements, and how it reduces: as the call, or as it says itself.
enum class Element : uint8_t { kOfCall, kUint8, kUint32, kFloat32, kBfloat16, kUint64 };
enum class Operation : uint8_t { kOfCall, kSum, kMax };

// Collective that NCCL does itself; no message between two ranks. In place as NCCL has it.
struct Native {
  Collective collective;
  Place send, recv;  // if this rank has such a buffer
  size_t count = 0;  // NCCL's own argument
  int root = 0;
  Element element = Element::kOfCall;
  Operation operation = Operation::kOfCall;
  bool meets = false;   // a barrier; contents are ignored
  bool header = false;  // names the call; not counted
};

// Communicate steps take turns on several lanes, so that one may start while the one before it
// waits for a late peer, and the link stays busy.
enum class Lane : uint8_t { kEncode, kDecode, kCommunicate };
constexpr size_t kCommunicateLanes = 2;
constexpr size_t kLanes = static_cast<size_t>(Lane::kCommunicate) + kCommunicateLanes;

struct Step {
  const char* name;  // for people
  Lane lane = Lane::kEncode;
  std::vector<size_t> after;  // earlier steps, on other lanes
  std::vector<Compute> compute;
  std::vector<Transfer> transfers;        // all at once; only on Lane::kCommunicate
  size_t turn = 0;                        // which of the communicate lanes
  std::vector<Copy> copies;               // not on Lane::kCommunicate
  std::vector<Fingerprint> fingerprints;  // before the computes; not on Lane::kCommunicate
  std::vector<Learn> learns;              // not on Lane::kCommunicate
  std::optional<Header> header = {};      // alone in its step; only on Lane::kDecode
  // Native collectives, all at once, in this order on all ranks; only on Lane::kCommunicate, and
  // not beside transfers, as ranks would order the two differently.
  std::vector<Native> natives;
  bool is_extra = false;  // not the call's own (native_extras.h): not timed

  // Number of the lane among all kLanes.
  size_t queue() const { return static_cast<size_t>(lane) + turn; }
};

// Memory that a communicator keeps for a plan, zeroed at first. Calls of one type and codec whose
// plans name the same key share it, one after another: the key has all else that it depends on. All
// ranks name it, or none; the bytes may differ.
struct State {
  std::string key;  // empty: no state
  size_t bytes = 0;
};

// Bytes of the caller's buffers.
struct Buffers {
  size_t send_bytes = 0, recv_bytes = 0;
};

// Bytes of the node that sends the most to others, as NCCL does the call and as planned; nothing if
// nodes are unknown, or there is one.
struct Link {
  Traffic native, compressed;
};

struct Fused;

struct Plan {
  const char* algorithm = "";
  std::vector<Step> steps;
  bool is_chain = false;  // each step follows the one before (order.h): one queue may do all
  size_t scratch_bytes = 0;
  size_t max_scratch_bytes = 0;  // max over the ranks' plans of the call, as a root's
  size_t exact_bytes = 0;        // of Region::kExact
  State state;
  std::optional<Place> verdict;  // of the headers, before which the caller gets nothing
  size_t codebook_bytes = 0;     // as the packing says
  std::vector<Buffers> buffers;  // by message; a collective is one
  size_t wire_bytes = 0;         // sent to peers, without headers and native messages
  std::vector<size_t> wire_to;   // wire_bytes by peer, up to the last one that gets any
  Traffic native;        // sent by NCCL's own collectives, without barriers, headers, or for kExact
  size_t raw_bytes = 0;  // of an uncompressed call
  Link link;             // link_of()
  bool asked_for = false;  // the scheme names its algorithm
  bool is_slow = false;    // a profile predicts that NCCL is faster
  // What the only step does on the windows of all ranks (fuse.h); null: the call is not fused.
  std::shared_ptr<const Fused> fused;
  // Same call, fused, for ranks that have windows; null: it cannot be.
  std::shared_ptr<const Plan> with_windows;

  size_t sent_bytes() const { return wire_bytes + native.bytes; }
};

// Sharing of one grid by all ranks, and who makes one code of theirs: NCCL, by sums of 32-bit
// words, or the owner of a shard, who merges them.
enum class Sharing : uint8_t { kNone, kSummed, kMerged };

// Grid of the largest parameters, which NCCL can find.
struct SharedGrid {
  std::function<size_t(size_t count)> code_bytes;  // whole words
  Element params;                                  // behind them, up to whole words
  Sharing sharing = Sharing::kSummed;
};

// Codec as a builder knows it: sizes alone.
struct Packing {
  size_t quantum = 1;  // elements; shards are cut at its multiples
  std::function<size_t(size_t count)> bytes;
  std::optional<SharedGrid> shared_grid = {};
  bool draws = false;         // rounds by random numbers
  bool shares_draws = false;  // errors of a sum's contributors cancel by shared_draw.h
  size_t codebook_bytes = 0;  // of a table of levels that all ranks hold; 0: none
  // Bytes of codes ahead of parameters, for algorithms that send parts of what is packed.
  std::function<size_t(size_t count)> codes = {};

  // Bytes of codes, and of the parameters that all agree on, on a shared grid.
  size_t code_bytes(size_t count) const { return count == 0 ? 0 : shared_grid->code_bytes(count); }
  size_t param_bytes(size_t count) const {
    return count == 0 ? 0 : bytes(count) - code_bytes(count);
  }

  Sharing sharing() const { return shared_grid ? shared_grid->sharing : Sharing::kNone; }
};

// Format between the ranks of a node, for algorithms with such steps.
struct IntraNode {
  Format format = Format::kPacked;
  Packing packing = {};  // of Format::kIntraPacked
};

// Format of a shard's sum on its way to all ranks, for algorithms with a second quantization.
struct SumFormat {
  Format format = Format::kPacked;
  Packing packing = {};      // of Format::kSumPacked
  bool is_rounding = false;  // its bodies are those of Format::kPacked, rounded otherwise

  // Returns true if what is packed for a sum has to be packed anew.
  bool repacks() const { return format == Format::kSumPacked && !is_rounding; }
};

// Format of sums between groups of nodes, for algorithms of three levels or more.
struct OuterFormat {
  Format format = Format::kPacked;
  Packing packing = {};  // of Format::kOuterPacked
};

// Call as a builder knows it.
struct Shape {
  size_t count = 0;  // NCCL's own argument: of a shard, where there is one for every rank
  size_t element_bytes = 4;
  int ranks = 1, rank = 0, root = 0;
  ChunkPolicy chunk_policy = kHostChunks;
  Packing packing;
  Topology topology;  // of all ranks; empty: not known
  IntraNode within;
  SumFormat sum;
  OuterFormat outer;

  const Packing& packing_of(Format format) const;  // not of Format::kRaw
  size_t quantum() const;  // of shards in whole blocks of any format but `outer`
  size_t bytes(Format format, size_t elements) const;
  size_t code_bytes(Format format, size_t elements) const;  // not of Format::kRaw
  // Raw bytes of a chunk of so many elements in all shards.
  size_t chunk(size_t elements, size_t shards) const {
    return chunk_policy.chunk(bytes(Format::kRaw, elements), bytes(Format::kPacked, elements),
                              shards);
  }
  bool draws() const;  // in any of its formats
  Position position() const { return {ranks, rank, root}; }
};

// Builders, one per algorithm. ranks >= 2.
Plan one_shot_all_reduce(const Shape& shape);
Plan two_shot_all_reduce(const Shape& shape);
Plan hierarchical_all_reduce(const Shape& shape);  // of a topology that is_grid()
Plan hierarchical_reduce(const Shape& shape);
Plan hierarchical_broadcast(const Shape& shape);
Plan hierarchical_reduce_scatter(const Shape& shape);
Plan hierarchical_all_gather(const Shape& shape);
Plan multilevel_all_reduce(const Shape& shape);  // of nodes alike, in groups (grid.h)
Plan multilevel_reduce(const Shape& shape);
Plan multilevel_broadcast(const Shape& shape);
Plan multilevel_reduce_scatter(const Shape& shape);
Plan multilevel_all_gather(const Shape& shape);
Plan reduce_scatter(const Shape& shape);
Plan all_gather(const Shape& shape);
Plan all_to_all(const Shape& shape);
Plan direct_broadcast(const Shape& shape);
Plan shared_broadcast(const Shape& shape);
Plan summed_all_reduce(const Shape& shape);  // of Sharing::kSummed
Plan summed_reduce_scatter(const Shape& shape);
Plan summed_reduce(const Shape& shape);
Plan merged_all_reduce(const Shape& shape);  // of Sharing::kMerged
Plan merged_reduce_scatter(const Shape& shape);
Plan merged_reduce(const Shape& shape);
Plan direct_reduce(const Shape& shape);
Plan two_shot_reduce(const Shape& shape);
Plan gather(const Shape& shape);
Plan scatter(const Shape& shape);

// Message between two ranks. Both ends know all but `send` and `peer` alike.
struct Message {
  bool send = false;  // else receive
  int peer = 0;
  size_t count = 0;  // not 0
  size_t element_bytes = 4;
  bool packed = true;  // else it travels as it is, and `packing` is ignored
  Packing packing;
};

// Messages under way together, as those of an NCCL group. Between two ranks they match in their
// order. A rank may send itself only native messages.
struct Batch {
  int ranks = 1, rank = 0;
  ChunkPolicy chunk_policy = kHostChunks;
  std::vector<Message> messages;
};

Plan point_to_point(const Batch& batch);

// Batch of one message, to or from the root.
Plan send(const Shape& shape);
Plan receive(const Shape& shape);

// Returns what is wrong with a plan; empty: nothing. Checks that places lie within their regions,
// that steps wait only for earlier ones, and that every byte of scratch is written before it is
// read and out of use when it is written again, whatever the timing. Builders see to raw messages
// out of the send buffer, which must have left before an in-place call overwrites them.
std::string validate(const Plan& plan, const Shape& shape);
std::string validate(const Plan& plan, const Batch& batch);

// Approximate memory of a plan.
size_t memory_bytes(const Plan& plan);

// Prints one line for each step.
std::string print(const Plan& plan);

}  // namespace terse::plan
