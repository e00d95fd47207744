#include "programs.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>

#include "clients.h"
#include "terse/terse.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr char kGuard = '\x5a';

decltype(&tersePreloadStats) preload_stats() {
  return reinterpret_cast<decltype(&tersePreloadStats)>(dlsym(RTLD_DEFAULT, "tersePreloadStats"));
}

// The operator of a case on one rank's communicator.
class Operator {
 public:
  Operator(const Case& c, int rank, ncclComm_t comm)
      : op_(c.call.op), scalar_(datatype_size(c.call.datatype)), comm_(comm) {
    if (c.factors.empty()) return;
    made_ = true;
    std::ranges::copy(bytes_of({c.factors[rank]}, c.call.datatype), scalar_.data());
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op_, scalar_.data(), c.call.datatype, c.residence, comm),
              ncclSuccess)
        << ncclGetLastError(comm);
    if (c.residence == ncclScalarHostImmediate)
      std::memset(scalar_.data(), 0xff, scalar_.size());  // it was copied
  }
  ~Operator() {
    if (made_) {
      EXPECT_EQ(ncclRedOpDestroy(op_, comm_), ncclSuccess);
    }
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  ncclRedOp_t get() const { return op_; }

 private:
  ncclRedOp_t op_;
  Fenced scalar_;
  ncclComm_t comm_;
  bool made_ = false;
};

}  // namespace

void EachScheme::SetUp() {
  if (preload_stats() == nullptr) FAIL() << "run this program by ctest, which preloads the library";
}

bool EachScheme::serves(Collective collective) const {
  return terse::serves(parse_scheme(scheme()), collective);
}

size_t EachScheme::block() const { return parse_scheme(scheme()).spec.block; }

double step(const std::string& scheme) {
  static const std::map<std::string, double> kSteps = {
      {"int8", 1.0 / 127}, {"int4", 1.0 / 7},  {"minmax8", 2.0 / 255}, {"fp8e4m3", 1.0 / 8},
      {"mxfp8", 1.0 / 8},  {"mxfp4", 1.0 / 3}, {"nvfp4", 1.0 / 3},     {"linear8", 1.0 / 12},
      {"exp8", 2},         {"learned4", 0.3},  {kNative, 1.0 / 128}};
  return kSteps.at(scheme);
}

Fenced::Fenced(size_t bytes, size_t gap) : bytes_(bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t usable = (bytes + gap) / page * page + page;
  mapped_ = usable + page;
  void* const memory =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory");
  base_ = static_cast<char*>(memory);
  data_ = base_ + usable - gap - bytes;
  std::memset(base_, kGuard, usable);
  mprotect(base_ + usable, page, PROT_NONE);
}

Fenced::~Fenced() { munmap(base_, mapped_); }

bool Fenced::intact() const {
  const auto guard = [](char c) { return c == kGuard; };
  const char* const fence = base_ + mapped_ - sysconf(_SC_PAGESIZE);
  return std::all_of(static_cast<const char*>(base_), data(), guard) &&
         std::all_of(data() + bytes_, fence, guard);
}

void on_ranks(int ranks, const std::string& name,
              const std::function<void(int rank, ncclComm_t comm)>& body) {
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name.c_str();
    const ncclComm_t comm = made_with(config, rank, ranks, id);
    body(rank, comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

size_t compressed_calls(ncclComm_t comm) {
  terseStats_t stats{.size = sizeof stats};
  EXPECT_EQ(preload_stats()(comm, &stats), ncclSuccess);
  return stats.calls;
}

Buffers::Buffers(const Call& call, int ranks, int rank, const Bytes& sent, bool in_place,
                 size_t gap)
    : send_(sent.size(), gap),
      recv_(std::max(in_place ? sent.size() : 0,
                     recv_count(call, ranks) * datatype_size(call.datatype)),
            gap),
      sent_(sent) {
  const plan::Traits& traits = plan::traits(call.collective);
  const plan::Position at{ranks, rank, call.root};
  const bool sends = plan::extent(traits.send, at) != 0;
  const bool receives = plan::extent(traits.recv, at) != 0;
  in_place_ = in_place && sends && receives;
  if (receives) {
    received_ = recv_count(call, ranks) * datatype_size(call.datatype);
    out_ = recv_.data() + recv_.size() - received_;
  }
  if (sends) in_ = send_.data();
  if (in_place_) {
    const size_t own = rank * call.count * datatype_size(call.datatype);
    const bool alike = traits.send.per_rank == traits.recv.per_rank;
    in_ = recv_.data() + (traits.recv.per_rank && !alike ? own : 0);
    out_ = recv_.data() + (traits.send.per_rank && !alike ? own : 0);
  }
  if (sends) std::ranges::copy(sent, in_);
}

bool Buffers::intact() const {
  return send_.intact() && recv_.intact() &&
         (in_place_ || in_ == nullptr || std::equal(sent_.begin(), sent_.end(), in_));
}

Results play(const std::string& name, int ranks, std::span<const Case> cases) {
  Results results{.received = {cases.size(), std::vector<Bytes>(ranks)}};
  on_ranks(ranks, name, [&](int rank, ncclComm_t comm) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      const Operator op(c, rank, comm);
      Call call = c.call;
      call.op = op.get();
      Buffers buffers(call, ranks, rank, c.sent[rank], c.in_place, c.gap);
      ASSERT_EQ(call_nccl(call, buffers.in(), buffers.out(), comm, nullptr), ncclSuccess)
          << ncclGetLastError(comm);
      EXPECT_TRUE(buffers.intact()) << "case " << i << ", rank " << rank;
      results.received[i][rank] = buffers.received();
    }
    if (rank == 0) results.compressed = compressed_calls(comm);
  });
  return results;
}

}  // namespace terse::test
