#include "player.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <hostnccl.h>
#include <nccl_config.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "terse/terse.h"

namespace terse::program {
namespace {

void require(ncclResult_t result, const std::string& what) {
  if (result != ncclSuccess)
    throw std::runtime_error(
        fmt::format("{}: {} ({})", what, ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

void require_refused(ncclResult_t result, const std::string& what) {
  if (result != ncclInvalidArgument)
    throw std::runtime_error(fmt::format("{} gave {}", what, ncclGetErrorString(result)));
}

uint16_t to_half(float x, ncclDataType_t datatype) {  // of 1 <= x < 2
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (datatype == ncclBfloat16) return static_cast<uint16_t>(bits >> 16);
  return static_cast<uint16_t>(0x3c00 | (bits >> 13 & 0x3ff));
}

void put(char* to, ncclDataType_t datatype, float x) {
  const auto store = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (datatype) {
    case ncclFloat32:
      return store(x);
    case ncclFloat64:
      return store(static_cast<double>(x));
    case ncclFloat16:
    case ncclBfloat16:
      return store(to_half(x, datatype));
    case ncclInt32:
      return store(static_cast<int32_t>(x * 100));
    case ncclInt64:
      return store(static_cast<int64_t>(x * 100));
    default:
      return store(static_cast<uint8_t>(x * 10));
  }
}

// From 0 to 1.
float fraction(uint32_t seed, size_t i) {
  uint32_t x = seed * 2654435761u + static_cast<uint32_t>(i) * 40503u;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  return static_cast<float>((x ^ x >> 12) & 0xffff) / 65537.0f;
}

// Numbers from 1 to 2: sums do not cancel, so that relative errors mean something. Of what is
// `seed`'s the part `changed` is `other`'s.
void fill(char* to, size_t count, ncclDataType_t datatype, uint32_t seed, uint32_t other = 0,
          float changed = 0) {
  for (size_t i = 0; i < count; ++i)
    put(to + i * element_size(datatype), datatype,
        1.0f + (1 - changed) * fraction(seed, i) + changed * fraction(other, i));
}

// What the preload library has for programs; null without it.
template <class Function>
Function* preloaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// A demand to compress is an error where terse is off, and on several nodes where NCCL sends less
// between them.
bool can_demand() {
  const char* const scheme = std::getenv("TERSE_SCHEME");
  const bool is_off = scheme != nullptr && std::string_view(scheme) == "off";
  return !is_off && std::getenv("NCCL_HOSTID") == nullptr && std::getenv("TERSE_NODE") == nullptr;
}

// A call's configuration; refers to its own options, and so stays where it is.
class Config {
 public:
  explicit Config(Configured what) {
    option_.key.vendorId = demand_.key.vendorId = TERSE_VENDOR_ID;
    switch (what) {
      case Configured::kNot:
      case Configured::kEmpty:
        break;
      case Configured::kExact:
        option_.key.optionId = TERSE_OPTION_EXACT;
        option_.val.i = 1;
        config_.ext = &option_;
        break;
      case Configured::kMustCompress:
        demand_.key.optionId = TERSE_OPTION_MUST_COMPRESS;
        demand_.val.i = 1;
        if (can_demand()) option_.next = &demand_;
        [[fallthrough]];
      case Configured::kScheme:
        option_.key.optionId = TERSE_OPTION_SCHEME;
        option_.val.s = kOwnScheme;
        config_.ext = &option_;
        break;
      case Configured::kNativeTag:
        config_.userProfilerTag = kNativeTag;
        break;
      case Configured::kSchemeTag:
        config_.userProfilerTag = kSchemeTag;
        break;
      case Configured::kForced:
        config_.algSelection = "ring";
        break;
    }
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  const ncclCollConfig_t* get() const { return &config_; }

 private:
  ncclConfigExt_t option_{}, demand_{};
  ncclCollConfig_t config_ = NCCL_COLLCONFIG_INITIALIZER;
};

class Player {
 public:
  Player(const Program& program, ncclUniqueId id, int rank, int ranks)
      : program_(program), rank_(rank), ranks_(ranks) {
    try {
      open(id);
    } catch (...) {
      abandon();
      throw;
    }
  }

  Results play() {
    try {
      for (const Step& step : program_.steps) run(step);
      for (int s = 0; s + 1 < kStreams; ++s)
        check(hostncclStreamSynchronize(streams_[s]), "hostncclStreamSynchronize");
      Results results = collect();
      for (ncclComm_t& comm : comms_)
        require(ncclCommDestroy(std::exchange(comm, nullptr)), "destroy");
      for (int s = 0; s + 1 < kStreams; ++s) hostncclStreamDestroy(streams_[s]);
      return results;
    } catch (...) {
      abandon();
      throw;
    }
  }

 private:
  struct Place {
    std::vector<char> memory;
    char *sent = nullptr, *received = nullptr;
    size_t bytes = 0;
    int last = 0;  // call in these buffers, of those that the first one laid out
    std::optional<std::vector<char>>
        kept;  // what it received, where another call has overwritten it
    std::array<char, 8> scalar_bytes{};
  };

  void open(ncclUniqueId id) {
    check(ncclCommInitRank(&comms_[0], ranks_, id, rank_), "ncclCommInitRank");
    for (const auto& [color, key, part] :
         {std::tuple(rank_ % 2, rank_, &comms_[1]), std::tuple(0, ranks_ - rank_, &comms_[2])}) {
      check(ncclCommSplit(comms_[0], color, key, part, nullptr), "ncclCommSplit");
      check(ncclInProgress, "ncclCommSplit");  // NCCL may say that it is done before it is
    }
    for (int s = 0; s + 1 < kStreams; ++s)
      check(hostncclStreamCreate(&streams_[s]), "hostncclStreamCreate");
  }

  // What a call has come to in the end, where communicators do not block.
  ncclResult_t settled(ncclResult_t state) const {
    if (state != ncclInProgress) return state;
    for (const ncclComm_t comm : comms_) {
      if (comm == nullptr) continue;
      do {
        if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess)
          return asked;
      } while (state == ncclInProgress);
      if (state != ncclSuccess) return state;
    }
    return state;
  }

  void check(ncclResult_t result, const std::string& what) const { require(settled(result), what); }
  void check_refused(ncclResult_t result, const std::string& what) const {
    require_refused(settled(result), what);
  }

  // The streams end with the communicators; until then they use the buffers.
  void abandon() noexcept {
    for (ncclComm_t comm : comms_)
      if (comm != nullptr) ncclCommAbort(comm);
    for (cudaStream_t stream : streams_)
      if (stream != nullptr) hostncclStreamSynchronize(stream);
  }

  void run(const Step& step) {
    if (step.request) issue(*step.request, step);
    const int depth = step.depth_on(rank_);
    for (int d = 0; d < depth; ++d) check(ncclGroupStart(), "ncclGroupStart");
    for (size_t k = 0; k < step.calls.size(); ++k) {
      if (step.bad && step.bad->at == k) issue(*step.bad);
      issue(step.calls[k]);
    }
    if (step.bad && step.bad->at == step.calls.size()) issue(*step.bad);
    for (int d = 1; d < depth; ++d) check(ncclGroupEnd(), "ncclGroupEnd");
    if (step.bad)
      check_refused(ncclGroupEnd(), "ncclGroupEnd");
    else if (depth > 0)
      check(ncclGroupEnd(), "ncclGroupEnd");
  }

  void issue(const Request& r, const Step& step) {
    static const auto exclude = preloaded<decltype(tersePreloadExclude)>("tersePreloadExclude");
    static const auto pause = preloaded<decltype(tersePreloadPause)>("tersePreloadPause");
    const ncclComm_t comm = comms_[r.communicator];
    if (r.kind != Request::kExclude) {
      if (pause != nullptr) check(pause(comm, r.kind == Request::kPause), "tersePreloadPause");
      return;
    }
    const size_t elements = message_count(step.calls[static_cast<size_t>(r.call)],
                                          size_of(r.communicator, rank_, ranks_));
    std::vector<terseRange_t> ranges;
    for (const Range& range : exact_ranges(r, elements))
      ranges.push_back({range.first, range.count});
    if (exclude != nullptr && elements > 0)
      check(exclude(comm, elements, ranges.data(), ranges.size()), "tersePreloadExclude");
  }

  void issue(const BadCall& c) {
    static char unwritten[4 * 2000];
    check_refused(ncclAllReduce(nullptr, unwritten, 2000, c.datatype, ncclSum,
                                comms_[c.communicator], nullptr),
                  "a bad call");
  }

  void issue(const Call& c) {
    const int index = static_cast<int>(places_.size());
    const ncclComm_t comm = comms_[c.communicator];
    int me = 0, size = 0;
    check(ncclCommUserRank(comm, &me), "ncclCommUserRank");
    check(ncclCommCount(comm, &size), "ncclCommCount");
    Place& place = places_.emplace_back();
    if (c.repeats == kFresh)
      lay_out(c, index, me, size, place);
    else
      take_over(c, index, size, place);
    if (takes_part(c, me)) call(c, place.sent, place.received, comm, me, size, place);
  }

  void lay_out(const Call& c, int index, int me, int size, Place& place) {
    const size_t element = element_size(c.datatype);
    const size_t sent = send_count(c, size) * element, received = recv_count(c, size) * element;
    place.memory.resize(2 * c.offset + sent + received + 64);
    char* send = place.memory.data() + c.offset;
    char* recv = send + sent + 32 / element * element;
    if (c.in_place) {
      // The smaller buffer is this rank's part of the larger one.
      const size_t own = static_cast<size_t>(me) * c.count * element;
      recv = send;
      if (sent < received) send += own;
      if (received < sent) recv += own;
    }
    if (c.input != kFresh)
      send = places_[static_cast<size_t>(c.input)].received;
    else
      fill(send, send_count(c, size), c.datatype, seed_of(index));
    place.sent = send;
    place.received = recv;
    place.bytes = receives(c, me) ? received : 0;
    place.last = index;
  }

  // Of what was called before, whose result is kept.
  void take_over(const Call& c, int index, int size, Place& place) {
    constexpr float kChanged[] = {0, 1 / 64.0f, 1};
    if (streams_[c.stream] != nullptr)
      check(hostncclStreamSynchronize(streams_[c.stream]), "hostncclStreamSynchronize");
    Place& first = places_[static_cast<size_t>(c.repeats)];
    Place& last = places_[static_cast<size_t>(std::exchange(first.last, index))];
    last.kept.emplace(last.received, last.received + last.bytes);
    place.sent = first.sent;
    place.received = first.received;
    place.bytes = first.bytes;
    fill(place.sent, send_count(c, size), c.datatype, seed_of(c.repeats), seed_of(index),
         kChanged[static_cast<int>(c.change)]);
  }

  uint32_t seed_of(int call) const { return static_cast<uint32_t>(call * 97 + rank_); }

  void call(const Call& c, const char* send, char* recv, ncclComm_t comm, int me, int size,
            Place& place) {
    const cudaStream_t s = streams_[c.stream];
    const ncclDataType_t t = c.datatype;
    const ncclRedOp_t op = reduces(c.kind) ? make_op(c, comm, place) : ncclSum;
    const Config config(c.configured);
    const auto issue_configured = [&]() -> ncclResult_t {
      const ncclCollConfig_t* const own = config.get();
      switch (c.kind) {
        case Kind::kAllReduce:
          return ncclAllReduceConfig(send, recv, c.count, t, op, comm, s, own);
        case Kind::kAllGather:
          return ncclAllGatherConfig(send, recv, c.count, t, comm, s, own);
        case Kind::kReduceScatter:
          return ncclReduceScatterConfig(send, recv, c.count, t, op, comm, s, own);
        case Kind::kAllToAll:
          return ncclAlltoAllConfig(send, recv, c.count, t, comm, s, own);
        case Kind::kBroadcast:
          return ncclBroadcastConfig(send, recv, c.count, t, c.root, comm, s, own);
        case Kind::kReduce:
          return ncclReduceConfig(send, recv, c.count, t, op, c.root, comm, s, own);
        case Kind::kGather:
          return ncclGatherConfig(send, recv, c.count, t, c.root, comm, s, own);
        case Kind::kScatter:
          return ncclScatterConfig(send, recv, c.count, t, c.root, comm, s, own);
        case Kind::kShift:
        case Kind::kMessage:
          break;
      }
      return ncclInvalidUsage;  // has no such function
    };
    const auto issue = [&]() -> ncclResult_t {
      switch (c.kind) {
        case Kind::kAllReduce:
          return ncclAllReduce(send, recv, c.count, t, op, comm, s);
        case Kind::kAllGather:
          return ncclAllGather(send, recv, c.count, t, comm, s);
        case Kind::kReduceScatter:
          return ncclReduceScatter(send, recv, c.count, t, op, comm, s);
        case Kind::kAllToAll:
          return ncclAlltoAll(send, recv, c.count, t, comm, s);
        case Kind::kBroadcast:
          return ncclBroadcast(send, recv, c.count, t, c.root, comm, s);
        case Kind::kReduce:
          return ncclReduce(send, recv, c.count, t, op, c.root, comm, s);
        case Kind::kGather:
          return ncclGather(send, recv, c.count, t, c.root, comm, s);
        case Kind::kScatter:
          return ncclScatter(send, recv, c.count, t, c.root, comm, s);
        case Kind::kShift:
        case Kind::kMessage:
          break;
      }
      const bool shifts = c.kind == Kind::kShift;
      const int to = shifts ? (me + c.root) % size : c.to;
      const int from = shifts ? (me + size - c.root % size) % size : c.root;
      check(ncclGroupStart(), "ncclGroupStart");
      if (shifts || me == from) check(ncclSend(send, c.count, t, to, comm, s), "ncclSend");
      if (shifts || me == to) check(ncclRecv(recv, c.count, t, from, comm, s), "ncclRecv");
      return ncclGroupEnd();
    };
    check(c.configured == Configured::kNot ? issue() : issue_configured(), describe(c));
    if (op >= ncclNumOps) check(ncclRedOpDestroy(op, comm), "ncclRedOpDestroy");
  }

  ncclRedOp_t make_op(const Call& c, ncclComm_t comm, Place& place) const {
    if (c.op < Op::kPreMulHost) return static_cast<ncclRedOp_t>(c.op);
    put(place.scalar_bytes.data(), c.datatype, 1.0f + 0.25f * static_cast<float>(rank_ % 4));
    ncclRedOp_t op;
    check(ncclRedOpCreatePreMulSum(
              &op, place.scalar_bytes.data(), c.datatype,
              c.op == Op::kPreMulHost ? ncclScalarHostImmediate : ncclScalarDevice, comm),
          "ncclRedOpCreatePreMulSum");
    return op;
  }

  Results collect() const {
    Results results;
    for (const Place& p : places_)
      results.push_back(p.kept ? *p.kept : std::vector<char>(p.received, p.received + p.bytes));
    return results;
  }

  const Program& program_;
  const int rank_, ranks_;
  std::array<ncclComm_t, kCommunicators> comms_{};
  std::array<cudaStream_t, kStreams> streams_{};
  std::deque<Place> places_;  // by call
};

}  // namespace

Results play(const Program& program, ncclUniqueId id, int rank, int ranks) {
  return Player(program, id, rank, ranks).play();
}

}  // namespace terse::program
