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
// packed in the scheme's other way, for what stays within a node.
enum class Format : uint8_t { kRaw, kPacked, kIntraPacked };

// Elements to read.
struct Input {
  Place place;
  Format format = Format::kPacked;
  bool negated = false;  // of raw ones: they are taken from the sum
};

// What of a packed target is written. Where all ranks share a grid, first the parameters, to agree
// on; and then, of what was agreed on, the codes. Or codes that all inputs' codes are merged to.
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
// packed inputs are of one format; the target may be packed in another where no input is raw.
struct Compute {
  std::vector<Input> inputs;
  Place target;
  Format target_format = Format::kPacked;
  Part part = Part::kAll;    // of a packed target
  size_t params_offset = 0;  // bytes from what is packed to its parameters; 0: behind the codes
  bool averages = false;     // each contribution once; or the sum that came of them, by its scale
  size_t count = 0;          // elements
  size_t origin = 0;         // the first element's index in its shard, for the random numbers
  uint32_t shard = 0;        // whose shard, for the random numbers
  uint32_t stage = 0;        // first or second quantization
  uint32_t message = 0;      // whose buffers, type and codec
  Place sums = {};           // scratch for fp32 sums, where the packed formats differ
  std::optional<SharedDraw> shared_draw = {};  // empty: the rank's own
  std::optional<RngKey> rng_key = {};          // empty: by the call on its communicator
};

// Whether what is packed in one way comes to be packed in another.
bool changes_format(const Compute& compute);

// Raw bytes, from the send buffer, scratch or the state to the receive buffer, scratch or the
// state; nothing where these are the same place.
struct Copy {
  Place target, source;
  size_t bytes = 0;
};

// A number that says what there is in some raw bytes, made in scratch of kFingerprintBytes.
constexpr size_t kFingerprintBytes = 4352;
struct Fingerprint {
  Place target, source;
  size_t bytes = 0;
  bool of_samples = false;  // of some, from the beginning to the end
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
  bool agrees = false;          // one, in two slots, that NCCL has made of those of all ranks
};

struct Transfer {
  int peer = 0;
  bool send = false;  // otherwise receive
  Place place;
  size_t bytes = 0;
  uint32_t message = 0;  // whose buffers
  bool native = false;   // a message that is the caller's own, with its own arguments
  bool header = false;   // says what call the next one is of; not counted
};

// What a native collective is of, and how it reduces: as the call, or as it says itself.
enum class Element : uint8_t { kOfCall, kUint8, kUint32, kFloat32, kBfloat16, kUint64 };
enum class Operation : uint8_t { kOfCall, kSum, kMax };

// A collective that NCCL does itself; no message between two ranks. In place as NCCL has it.
struct Native {
  Collective collective;
  Place send, recv;  // where this rank has such a buffer
  size_t count = 0;  // NCCL's own argument
  int root = 0;
  Element element = Element::kOfCall;
  Operation operation = Operation::kOfCall;
  bool meets = false;   // of whatever is there: only so that all ranks have come to it
  bool header = false;  // of what call it is; not counted
};

// Communicate steps take turns on several lanes of their kind, so that one may start while the one
// before it still waits for a peer that is late, and the link stays busy.
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
  std::optional<Header> header = {};      // alone; only on Lane::kDecode
  // All at once, in this order on all ranks; only on Lane::kCommunicate, and not beside transfers,
  // for the order of the two is not the same on all of them.
  std::vector<Native> natives;
  bool is_extra = false;  // not the call's own (native_extras.h), and so not timed

  // The lane's number among all kLanes.
  size_t queue() const { return static_cast<size_t>(lane) + turn; }
};

// What a communicator keeps for a plan, all zeros at first. Calls of one type and codec whose plans
// name the same key have the same, one after another; so the key says what else it depends on. All
// ranks name it, or none; they may have different amounts of it.
struct State {
  std::string key;  // empty: there is none
  size_t bytes = 0;
};

// Extents of the caller's buffers.
struct Buffers {
  size_t send_bytes = 0, recv_bytes = 0;
};

// What the ranks of a node send, of the one that sends the most to others, as NCCL does the call
// and as is planned; nothing where nodes are not known, or there is one.
struct Link {
  Traffic native, compressed;
};

struct Plan {
  const char* algorithm = "";
  std::vector<Step> steps;
  size_t scratch_bytes = 0;
  size_t max_scratch_bytes = 0;  // of any rank's plan of the call: a root's, where there is one
  size_t exact_bytes = 0;        // of Region::kExact
  State state;
  std::optional<Place> verdict;  // of the headers, before which nothing is given to the caller
  size_t codebook_bytes = 0;     // as the packing says
  std::vector<Buffers> buffers;  // by message; a collective is one
  size_t wire_bytes = 0;         // sent to peers, but for headers and messages that stay native
  std::vector<size_t> wire_to;   // those by peer, up to the last one that gets any
  Traffic native;        // what NCCL's own collectives send, but to meet, for headers, or to kExact
  size_t raw_bytes = 0;  // what an uncompressed call would send
  Link link;             // link_of()
  bool asked_for = false;  // the scheme names its algorithm

  size_t sent_bytes() const { return wire_bytes + native.bytes; }
};

// Whether all ranks have one grid, and what makes one code of theirs: NCCL, by sums of 32-bit
// words, or the owner of a shard, who merges them.
enum class Sharing : uint8_t { kNone, kSummed, kMerged };

// That of the largest parameters, which NCCL can find.
struct SharedGrid {
  std::function<size_t(size_t count)> code_bytes;  // whole words
  Element params;                                  // behind them, up to whole words
  Sharing sharing = Sharing::kSummed;
};

// What a builder knows of a codec: sizes alone.
struct Packing {
  size_t quantum = 1;  // elements; shards are cut at multiples of it
  std::function<size_t(size_t count)> bytes;
  std::optional<SharedGrid> shared_grid = {};
  bool draws = false;         // random numbers, to round by
  bool shares_draws = false;  // errors of a sum's contributors cancel by shared_draw.h
  size_t codebook_bytes = 0;  // of a table of levels, which all ranks hold; 0: there is none

  // On a shared grid: of codes, and of the parameters that all agree on.
  size_t code_bytes(size_t count) const { return count == 0 ? 0 : shared_grid->code_bytes(count); }
  size_t param_bytes(size_t count) const {
    return count == 0 ? 0 : bytes(count) - code_bytes(count);
  }

  Sharing sharing() const { return shared_grid ? shared_grid->sharing : Sharing::kNone; }
};

// What goes from rank to rank within a node, where an algorithm has such steps.
struct IntraNode {
  Format format = Format::kPacked;
  Packing packing = {};  // of Format::kIntraPacked
};

// What a builder knows of a call.
struct Shape {
  size_t count = 0;  // NCCL's own argument: of a shard, where there is one for every rank
  size_t element_bytes = 4;
  int ranks = 1, rank = 0, root = 0;
  ChunkPolicy chunk_policy = kHostChunks;
  Packing packing;
  Topology topology;  // of all ranks; empty: not known
  IntraNode within;

  size_t bytes(Format format, size_t elements) const;
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

// A message between two ranks. Both ends must know all but `send` and `peer` alike.
struct Message {
  bool send = false;  // otherwise receive
  int peer = 0;
  size_t count = 0;  // not 0
  size_t element_bytes = 4;
  bool packed = true;  // otherwise it travels as it is, and `packing` is of no interest
  Packing packing;
};

// Messages that are under way together, as those of an NCCL group. Between two ranks they match in
// their order. A rank may send to itself what is not packed.
struct Batch {
  int ranks = 1, rank = 0;
  ChunkPolicy chunk_policy = kHostChunks;
  std::vector<Message> messages;
};

Plan point_to_point(const Batch& batch);

// A batch of one message, to or from the root.
Plan send(const Shape& shape);
Plan receive(const Shape& shape);

// What is wrong with a plan; empty when nothing is: places within their regions, steps that wait
// only for earlier ones, every byte of scratch written before it is read and no longer in use when
// it is written again, whatever the timing. (Not: that raw messages out of the send buffer have
// left before what comes over them, where the call is in place. That builders see to.)
std::string validate(const Plan& plan, const Shape& shape);
std::string validate(const Plan& plan, const Batch& batch);

// The memory that it takes, about.
size_t memory_bytes(const Plan& plan);

// One line for each step.
std::string print(const Plan& plan);

}  // namespace terse::plan
