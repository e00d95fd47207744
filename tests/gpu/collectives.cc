// libterse's collectives on real buffers, over the NCCL that is there, one process for each rank:
//
//   tests/tools/gpu/ranks.py --ranks 4 gpu_collectives [--quick]
//
// Each call's bytes must be those of a plain reference on the host, the same on all ranks, within
// the codec's error of the exact result, with nothing written outside and the input unchanged. The
// last line of rank 0 is a JSON object; until then it says now and then how far it is, as others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "codec/codebook.h"
#include "codec/learning.h"
#include "json.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"
#include "verify.h"

namespace terse::gpu {
namespace {

using plan::Collective;
using test::Bytes;
using test::Call;

constexpr size_t kGuard = 256;
constexpr char kGuardByte = 0x5A;

struct Case {
  Call call;
  bool in_place;
  size_t offset;  // of the buffers, in bytes
};

std::string describe(const Case& c) {
  return fmt::format("{} {} count {} type {} op {} root {}{} offset {}",
                     plan::name(c.call.collective), print_scheme(c.call.scheme), c.call.count,
                     static_cast<int>(c.call.datatype), static_cast<int>(c.call.op), c.call.root,
                     c.in_place ? " in place" : "", c.offset);
}

// Device memory between guards, that grows.
class Buffer {
 public:
  explicit Buffer(const Rank& rank) : rank_(rank) {}
  ~Buffer() {
    if (memory_ != nullptr) rank_.device().release(memory_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Guards and `content` between; returns where the content lies.
  char* put(const Bytes& content, size_t offset) {
    image_.assign(content.size() + offset + 2 * kGuard, kGuardByte);
    begin_ = kGuard + offset;
    std::copy(content.begin(), content.end(), image_.begin() + begin_);
    if (size_ < image_.size()) {
      if (memory_ != nullptr) rank_.device().release(memory_);
      size_ = image_.size();
      memory_ = rank_.device().allocate(size_);
    }
    rank_.device().copy_in(memory_, image_.data(), image_.size());
    return static_cast<char*>(memory_) + begin_;
  }

  Bytes get(size_t at, size_t bytes) {
    fetch();
    return {now_.begin() + begin_ + at, now_.begin() + begin_ + at + bytes};
  }
  // Whether nothing but `bytes` bytes from `at` on has changed.
  bool intact(size_t at, size_t bytes) {
    fetch();
    const size_t first = begin_ + at, end = first + bytes;
    return std::equal(image_.begin(), image_.begin() + first, now_.begin()) &&
           std::equal(image_.begin() + end, image_.end(), now_.begin() + end);
  }

 private:
  void fetch() {
    now_.resize(image_.size());
    rank_.device().copy_out(now_.data(), memory_, now_.size());
  }

  const Rank& rank_;
  void* memory_ = nullptr;
  size_t size_ = 0, begin_ = 0;
  Bytes image_, now_;
};

// Makes `table` that of the levels which all ranks learn of what they send.
void learn(const Call& call, const std::vector<Bytes>& sent, float* table) {
  using codec::Learning;
  using enum Learning::Stage;
  const codec::Spec& spec = call.scheme.spec;
  codec::Dtype dtype{};
  compressible(call.datatype, &dtype);
  const auto stage = [&](Learning::Stage stage, const Bytes& of, codec::LearningState& state) {
    codec::learn({stage, dtype, spec.bits, spec.rounding, spec.block,
                  of.size() / codec::dtype_size(dtype), of.data(), &state, table});
  };
  codec::LearningState all{};
  for (const Bytes& of : sent) {
    codec::LearningState own;
    stage(kWidest, of, own);
    all.widest = std::max(all.widest, own.widest);
  }
  for (const Bytes& of : sent) stage(kHistogram, of, all);
  stage(kFit, {}, all);
}

class Suite {
 public:
  explicit Suite(const Rank& rank) : rank_(rank), send_(rank), recv_(rank) {}

  // `learned`: the levels that the call learns, and goes by.
  void check(Case c, float* learned = nullptr) {
    c.call.sequence = sequence_++;
    const Call& call = c.call;
    const int me = rank_.rank();
    const std::vector<Bytes> sent = all_sent(call);
    if (learned != nullptr) learn(call, sent, learned);
    const Bytes out = run(c, sent[me]);
    const Bytes expected = test::expected(call, sent)[me];
    if (out != expected) {
      const auto at = std::ranges::mismatch(out, expected).in1;
      complain(c, fmt::format("byte {} of {} is not the reference's, which has {}",
                              at - out.begin(), out.size(), expected.size()));
    }
    if (gives_all_the_same(call.collective) && !rank_.agree(checksum(out)))
      complain(c, "the ranks' bytes differ");
    if (call.count < 1000 || out.empty()) return;
    const double error =
        test::relative_error(test::values(out, call.datatype), test::exact(call, sent)[me]);
    if (!(error < bound(call.scheme))) complain(c, fmt::format("relative error {}", error));
    if (std::isfinite(error)) worst_ = std::max(worst_, error);
  }

  // Of a scheme by which the first call and the third learn.
  void check_learned(Case c) {
    std::vector<float> table(codec::codebook_floats(c.call.scheme.spec.bits));
    c.call.codebook = table.data();
    for (int k = 0; k < 4; ++k) check(c, k % 2 == 0 ? table.data() : nullptr);
  }

  // Weights that move a little: in full at first, then by their differences.
  void check_delta(const char* text) {
    constexpr int kCalls = 3;
    const Scheme parsed = parse_scheme(text);
    const Case c{
        {.collective = Collective::kAllGather, .scheme = parsed, .count = 30'001}, false, 0};
    const SchemeHandle scheme(text);
    const size_t differences = stats().delta_calls;
    const size_t bytes = rank_.ranks() * c.call.count * sizeof(float);
    char* const out = recv_.put(Bytes(bytes, kGuardByte), 0);
    for (int step = 0; step < kCalls; ++step) {
      const std::vector<Bytes> sent = weights_at(step, c.call);
      char* const in = send_.put(sent[rank_.rank()], 0);
      ++calls_;
      Rank::check_terse(terseAllGather(in, out, c.call.count, c.call.datatype, scheme.get(),
                                       rank_.comm(), rank_.stream()),
                        describe(c));
      rank_.device().synchronize(rank_.stream());
      const Bytes got = recv_.get(0, bytes);
      const double error = test::relative_error(test::values(got, c.call.datatype),
                                                test::exact(c.call, sent)[rank_.rank()]);
      if (!(error <= (step == 0 ? 0 : 1e-4)))
        complain(c, fmt::format("step {}: relative error {}", step, error));
      if (!rank_.agree(checksum(got))) complain(c, "the ranks' bytes differ");
      if (!recv_.intact(0, bytes) || !send_.intact(0, 0)) complain(c, "other bytes changed");
    }
    if (stats().delta_calls != differences + kCalls - 1) complain(c, "no differences were sent");
  }

  // Each rank sends to the next one.
  void check_ring(const Scheme& the_scheme, size_t count) {
    const Case c{{.collective = Collective::kSend,
                  .scheme = the_scheme,
                  .count = count,
                  .sequence = sequence_++},
                 false,
                 0};
    const int me = rank_.rank(), ranks = rank_.ranks(), before = (me + ranks - 1) % ranks;
    const SchemeHandle scheme(print_scheme(the_scheme));
    const std::vector<Bytes> sent = all_sent(c.call);
    char* const in = send_.put(sent[me], 0);
    char* const out = recv_.put(Bytes(sent[me].size(), kGuardByte), 0);
    ++calls_;
    terseGroupStart();
    terseSend(in, count, c.call.datatype, (me + 1) % ranks, scheme.get(), rank_.comm(),
              rank_.stream());
    terseRecv(out, count, c.call.datatype, before, scheme.get(), rank_.comm(), rank_.stream());
    Rank::check_terse(terseGroupEnd(), "a ring of messages");
    rank_.device().synchronize(rank_.stream());
    if (recv_.get(0, sent[me].size()) != test::expected_message(c.call, sent[before], before, 0))
      complain(c, "the message is not the reference's");
    if (!recv_.intact(0, sent[me].size()) || !send_.intact(0, 0))
      complain(c, "other bytes changed");
  }

  // All elements are excluded from compression: by an algorithm that is named, or else the call
  // would be NCCL's.
  void check_excluded(const Case& c) {
    const size_t pieces = c.call.collective == Collective::kAllReduce ? 1 : rank_.ranks();
    const terseRange_t all{0, pieces * c.call.count};
    Rank::check_terse(terseCommExclude(rank_.comm(), all.count, &all, 1), "terseCommExclude");
    const std::vector<Bytes> sent = all_sent(c.call);
    const Bytes out = run(c, sent[rank_.rank()]);
    ++sequence_;
    const double error = test::relative_error(test::values(out, c.call.datatype),
                                              test::exact(c.call, sent)[rank_.rank()]);
    if (!(error < 1e-6)) complain(c, fmt::format("excluded, and yet an error of {}", error));
    Rank::check_terse(terseCommExclude(rank_.comm(), all.count, nullptr, 0), "terseCommExclude");
  }

  // Some are, as far from each other as rows: they are brought together by one copy. (Of an
  // AllReduce of fp32.)
  void check_excluded_rows(Case c) {
    constexpr size_t kFirst = 1'000, kPitch = 10'000, kWidth = 100;
    constexpr terseRange_t kRanges[] = {
        {kFirst, kWidth}, {kFirst + kPitch, kWidth}, {kFirst + 2 * kPitch, kWidth}};
    c.call.sequence = sequence_++;
    const int me = rank_.rank();
    Rank::check_terse(terseCommExclude(rank_.comm(), c.call.count, kRanges, std::size(kRanges)),
                      "terseCommExclude");
    const std::vector<Bytes> sent = all_sent(c.call);
    const std::vector<double> got = test::values(run(c, sent[me]), c.call.datatype);
    std::vector<double> wanted = test::values(test::expected(c.call, sent)[me], c.call.datatype);
    const std::vector<double> exact = test::exact(c.call, sent)[me];
    for (const terseRange_t& range : kRanges)
      for (size_t i = range.first; i < range.first + range.count; ++i) {
        // Which order of summing is NCCL's own.
        const bool right = std::fabs(got[i] - exact[i]) <= 1e-5 * (1 + std::fabs(exact[i]));
        wanted[i] = right ? got[i] : exact[i];
      }
    const auto wrong = std::ranges::mismatch(got, wanted);
    if (wrong.in1 != got.end())
      complain(c, fmt::format("element {} is {}, not {}", wrong.in1 - got.begin(), *wrong.in1,
                              *wrong.in2));
    Rank::check_terse(terseCommExclude(rank_.comm(), c.call.count, nullptr, 0), "terseCommExclude");
  }

  // What terse hands to NCCL as it is.
  void check_bypass() {
    const SchemeHandle scheme("int8");
    std::vector<int> in(5003), out(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i) * (rank_.rank() + 1);
    Bytes bytes(in.size() * sizeof(int));
    std::memcpy(bytes.data(), in.data(), bytes.size());
    char* const data = send_.put(bytes, 0);
    Rank::check_terse(terseAllReduce(data, data, in.size(), ncclInt32, ncclSum, scheme.get(),
                                     rank_.comm(), rank_.stream()),
                      "terseAllReduce of int32");
    rank_.device().synchronize(rank_.stream());
    const Bytes result = send_.get(0, bytes.size());
    std::memcpy(out.data(), result.data(), result.size());
    const int sum = rank_.ranks() * (rank_.ranks() + 1) / 2;
    ++calls_;
    for (size_t i = 0; i < in.size(); ++i) {
      if (out[i] == static_cast<int>(i) * sum) continue;
      complain({}, fmt::format("int32: element {} is {}", i, out[i]));
      return;
    }
  }

  int finish() const {
    const int failures = rank_.total(failures_);
    if (rank_.rank() == 0)
      fmt::print(
          "{{\"ranks\": {}, \"gpu\": {}, \"calls\": {}, \"failures\": {}, "
          "\"worst_error\": {:.4g}}}\n",
          rank_.ranks(), rank_.on_gpu(), calls_, failures, worst_);
    return failures == 0 ? 0 : 1;
  }

 private:
  // Generous: the exact statistics are the codec tests' business.
  double bound(const Scheme& scheme) const {
    const codec::Spec spec = require_on_ranks(scheme, rank_.ranks()).spec;
    // Sums of powers of two may nearly cancel, and merges of them not.
    if (sharing_of(spec) == plan::Sharing::kMerged) return std::numeric_limits<double>::infinity();
    return 3.0 / codec::levels(spec.bits, spec.ranks);
  }

  static bool gives_all_the_same(Collective collective) {
    return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
           collective == Collective::kBroadcast;
  }

  std::vector<Bytes> all_sent(const Call& call) const {
    std::vector<Bytes> sent;
    for (int r = 0; r < rank_.ranks(); ++r)
      sent.push_back(test::gaussian(test::send_count(call, rank_.ranks()), call.datatype,
                                    static_cast<unsigned>(1000 * sequence_ + r)));
    return sent;
  }

  // Of each rank, after so many steps.
  std::vector<Bytes> weights_at(int step, const Call& call) const {
    std::vector<Bytes> all;
    for (unsigned r = 0; r < static_cast<unsigned>(rank_.ranks()); ++r) {
      std::vector<float> x =
          test::floats_of(test::gaussian(call.count, call.datatype, r), call.datatype);
      for (unsigned s = 1; s <= static_cast<unsigned>(step); ++s) {
        const std::vector<float> move =
            test::floats_of(test::gaussian(call.count, call.datatype, 100 * s + r), call.datatype);
        for (size_t i = 0; i < x.size(); ++i) x[i] += 1e-3f * move[i];
      }
      all.push_back(test::bytes_of(x, call.datatype));
    }
    return all;
  }

  terseStats_t stats() const {
    terseStats_t stats{.size = sizeof stats};
    Rank::check_terse(terseCommGetStats(rank_.comm(), &stats), "terseCommGetStats");
    return stats;
  }

  static std::string checksum(const Bytes& bytes) {
    return std::to_string(perf::checksum(bytes.data(), bytes.size()));
  }

  // In place, the smaller buffer lies in the larger one, where NCCL wants it. Ranks bring no buffer
  // that is not theirs to bring.
  Bytes run(const Case& c, const Bytes& sent) {
    if (calls_++ % 25 == 0) report_progress(c);
    const SchemeHandle scheme(print_scheme(c.call.scheme));
    const plan::Traits& traits = plan::traits(c.call.collective);
    const plan::Position at{rank_.ranks(), rank_.rank(), c.call.root};
    const size_t piece = c.call.count * datatype_size(c.call.datatype);
    const size_t recv_bytes = plan::extent(traits.recv, at) * piece;
    const bool sends = plan::extent(traits.send, at) != 0, receives = recv_bytes != 0;
    const bool in_place = c.in_place && sends && receives;
    const bool alike = traits.send.per_rank == traits.recv.per_rank;
    const size_t mine = alike ? 0 : static_cast<size_t>(rank_.rank()) * piece;
    const size_t in_at = in_place && traits.recv.per_rank ? mine : 0;
    const size_t out_at = in_place && traits.send.per_rank ? mine : 0;
    char *in, *out;
    if (in_place) {
      Bytes image(std::max(sent.size(), recv_bytes), kGuardByte);
      std::ranges::copy(sent, image.begin() + in_at);
      char* const both = recv_.put(image, c.offset);
      in = both + in_at;
      out = both + out_at;
    } else {
      in = send_.put(sent, c.offset);
      out = recv_.put(Bytes(recv_bytes, kGuardByte), c.offset);
    }
    Rank::check_terse(test::call_terse(c.call, sends ? in : nullptr, receives ? out : nullptr,
                                       scheme.get(), rank_.comm(), rank_.stream()),
                      describe(c));
    rank_.device().synchronize(rank_.stream());
    if (!in_place && !send_.intact(0, 0)) complain(c, "the send buffer has changed");
    if (!recv_.intact(out_at, recv_bytes)) complain(c, "bytes outside of the result have changed");
    return recv_.get(out_at, recv_bytes);
  }

  // What is known of a run that is killed.
  void report_progress(const Case& c) const {
    if (rank_.rank() == 0)
      fmt::print("{{\"calls\": {}, \"own_failures\": {}, \"now\": {}}}\n", calls_, failures_,
                 perf::quote_json(describe(c)));
  }

  void complain(const Case& c, const std::string& what) {
    if (++failures_ <= 10)
      fmt::print(stderr, "rank {}: call {}: {}: {}\n", rank_.rank(), calls_, describe(c), what);
  }

  const Rank& rank_;
  Buffer send_, recv_;
  uint64_t sequence_ = 0;
  int calls_ = 0, failures_ = 0;
  double worst_ = 0;
};

// Codes of a shared grid serve sums alone; and those that NCCL sums, nothing that is as narrow as
// they may be.
bool compresses(const Scheme& scheme, Collective collective, ncclDataType_t type) {
  const plan::Sharing sharing = sharing_of(scheme.spec);
  return plan::has_algorithm(collective, sharing) &&
         (sharing != plan::Sharing::kSummed || type == ncclFloat32);
}

constexpr Collective kCollectives[] = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllToAll,
                                       Collective::kBroadcast,     Collective::kReduce,
                                       Collective::kGather,        Collective::kScatter};

void run_several_chunks(Suite& suite) {
  for (const char* scheme : {"int8", "int4:round=stochastic,algo=twoshot"})
    for (const Collective collective : kCollectives)
      suite.check(
          {{.collective = collective,
            .scheme = parse_scheme(scheme),
            .count = collective == Collective::kAllReduce ? size_t{3'000'017} : size_t{1'000'003}},
           collective == Collective::kAllGather,
           0});
}

void run_learned(Suite& suite) {
  for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16})
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather})
      suite.check_learned({{.collective = collective,
                            .scheme = parse_scheme("learned4:learn=1+3"),
                            .datatype = type,
                            .count = 20'011},
                           false,
                           datatype_size(type)});
}

void run_all(Suite& suite, int ranks, bool quick) {
  static const char* const schemes[] = {"int8",
                                        "int4",
                                        "int4:block=64,round=stochastic",
                                        "minmax8:block=1024,round=shift",
                                        "int8:round=stochastic,seed=5,algo=twoshot",
                                        "int5:block=96,algo=oneshot",
                                        "minmax4:algo=twoshot",
                                        "minmax6:block=4096,round=stochastic",
                                        "linear8",
                                        "linear16:scale=bf16",
                                        "exp8",
                                        "learned4:learn=never"};
  static constexpr size_t kCounts[] = {1, 129, 4099, 100003};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  unsigned turn = 0;
  for (const char* scheme : schemes)
    for (const Collective collective : kCollectives)
      for (const ncclDataType_t type : kTypes)
        for (const size_t count : kCounts) {
          ++turn;
          // The others are built of the same parts as the first three.
          const bool first = collective <= Collective::kReduceScatter;
          if (turn % (quick || !first ? 5 : 1) != 0) continue;
          const Scheme parsed = parse_scheme(scheme);
          if (!compresses(parsed, collective, type)) continue;
          Case c{{.collective = collective,
                  .scheme = parsed,
                  .datatype = type,
                  .op = turn % 2 ? ncclSum : ncclAvg,
                  .count = count,
                  .root = static_cast<int>(turn) % ranks},
                 turn % 3 == 0,
                 turn % 4 == 0 ? datatype_size(type) : 0};
          suite.check(c);
        }
  suite.check_bypass();
  const Scheme int8 = parse_scheme("int8"), named = parse_scheme("int4:algo=twoshot");
  suite.check_ring(int8, 50'001);
  suite.check_ring(parse_scheme("int4:round=stochastic"), 4'099);
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter})
    suite.check_excluded({{.collective = collective, .scheme = named, .count = 30'001},
                          collective == Collective::kAllGather,
                          0});
  suite.check_excluded_rows({{.scheme = int8, .count = 30'001}, false, 0});
  run_learned(suite);
  if (!quick) run_several_chunks(suite);
  // At the end, for of these calls not all have a number.
  for (const char* scheme : {"int8:delta=shadow,own=quantized", "int8:delta=inplace,own=quantized"})
    suite.check_delta(scheme);
}

int body(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const Rank rank(argc, argv);
  Suite suite(rank);
  run_all(suite, rank.ranks(), quick);
  return suite.finish();
}

}  // namespace
}  // namespace terse::gpu

int main(int argc, char** argv) {
  return terse::gpu::run_rank("gpu_collectives", &terse::gpu::body, argc, argv);
}
