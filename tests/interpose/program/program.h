// A random NCCL program, as a value: every rank makes the same one from the same seed.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace terse::program {

// kShift: each rank sends to the rank `root` places on and receives from the one before, in a
// group. kMessage: rank `root` sends to rank `to`, and the others do nothing.
enum class Kind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kShift,
  kMessage
};
constexpr int kKinds = 10;
const char* name(Kind kind);

enum class Op { kSum, kProd, kMax, kMin, kAvg, kPreMulHost, kPreMulDevice };

// All ranks, the ranks of like parity, and all of them in reverse order.
constexpr int kCommunicators = 3;
constexpr int kStreams = 3;  // the last one is the null stream
constexpr int kFresh = -1;

// What the configuration of a call asks for: nothing, the exact result, a scheme, that scheme or an
// error, the rule of a tag (native, or that scheme), or an algorithm of NCCL's (native).
enum class Configured {
  kNot,
  kEmpty,
  kExact,
  kScheme,
  kMustCompress,
  kNativeTag,
  kSchemeTag,
  kForced
};
constexpr int kConfigurations = 8;
constexpr uint64_t kNativeTag = 77, kSchemeTag = 78;
constexpr const char kOwnScheme[] = "int8";
constexpr double kOwnError = 0.02;  // of a call in that scheme
bool may_be_configured(Kind kind);
// Returns true if the configuration chooses kOwnScheme.
bool chooses_scheme(Configured what);

// Of what a call that is repeated sends.
enum class Change { kNothing, kLittle, kAll };

struct Call {
  Kind kind;
  ncclDataType_t datatype;
  Op op;
  size_t count;
  int root, to;
  int communicator, stream;
  bool in_place;
  size_t offset;  // of buffers, in bytes
  int input;      // an earlier call of the same stream whose result is sent, or kFresh
  bool fails;     // for its group does, and so nothing is received
  int repeats;    // the first call with the same arguments, whose buffers it takes, or kFresh
  Change change;  // of a call that repeats another one
  Configured configured;
};

// What a rank asks of the preload library, where it is there.
struct Request {
  enum Kind { kPause, kResume, kExclude };
  Kind kind;
  int communicator;
  int call;       // of the step: the messages of its size have exact ranges from now on
  uint32_t seed;  // of the ranges
};

// An AllReduce that no NCCL takes, for it has nothing to send, before the group's call `at`.
struct BadCall {
  size_t at;
  ncclDataType_t datatype;
  int communicator;
};

// Calls that are made one by one, or in a group of some depth, which fails with a bad one. What
// consists of messages alone may be a group on some ranks and not on others.
struct Step {
  int depth;
  std::vector<Call> calls;
  std::optional<Request> request;  // before it
  std::optional<BadCall> bad;
  bool only_on_odd_ranks;  // is it a group

  int depth_on(int rank) const { return only_on_odd_ranks && rank % 2 == 0 ? 0 : depth; }
};

struct Program {
  std::vector<Step> steps;
  std::vector<Call> calls() const;
};

Program make_program(uint32_t seed, int ranks);

// 1 to 5, for seeds in a row.
inline int usual_ranks(int seed) { return 1 + seed % 5; }

// The size of a communicator that holds world rank `rank`, and that rank's number in it.
int size_of(int communicator, int rank, int ranks);
int rank_in(int communicator, int rank, int ranks);
size_t element_size(ncclDataType_t datatype);
// Returns true if a scheme takes the call's type and operation.
bool is_for_schemes(const Call& call);
bool reduces(Kind kind);
// Whether the communicator's rank `me` makes the call, and whether it receives anything by it.
bool takes_part(const Call& call, int me);
bool receives(const Call& call, int me);
size_t send_count(const Call& call, int size);
size_t recv_count(const Call& call, int size);
// Elements of the whole message.
size_t message_count(const Call& call, int size);

struct Range {
  size_t first, count;
  bool contains(size_t element) const { return element >= first && element - first < count; }
};
// Those that a request excludes of a message of so many elements: in order, and apart.
std::vector<Range> exact_ranges(const Request& request, size_t elements);
std::string describe(const Call& call);
std::string describe(const Request& request);

}  // namespace terse::program
