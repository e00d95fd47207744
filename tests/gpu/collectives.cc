// libterse's collectives on real buffers, over the NCCL that is there, one process for each rank:
//
//   tests/gpu/ranks.py --ranks 4 gpu_collectives [--quick]
//
// Each call's bytes must be those of a plain reference on the host, the same on all ranks, within
// the codec's error of the exact result, with nothing written outside and the input unchanged. The
// last line of rank 0 is a JSON object.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranks.h"
#include "reference.h"
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
  return fmt::format("{} {} count {} type {} op {}{} offset {}", plan::name(c.call.collective),
                     print_scheme(c.call.scheme), c.call.count, static_cast<int>(c.call.datatype),
                     static_cast<int>(c.call.op), c.in_place ? " in place" : "", c.offset);
}

ncclResult_t run_terse(const Call& c, const void* in, void* out, const terseScheme_t* scheme,
                       const Rank& r) {
  switch (c.collective) {
    case Collective::kAllReduce:
      return terseAllReduce(in, out, c.count, c.datatype, c.op, scheme, r.comm(), r.stream());
    case Collective::kAllGather:
      return terseAllGather(in, out, c.count, c.datatype, scheme, r.comm(), r.stream());
    default:
      break;
  }
  return terseReduceScatter(in, out, c.count, c.datatype, c.op, scheme, r.comm(), r.stream());
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

class Suite {
 public:
  explicit Suite(const Rank& rank) : rank_(rank), send_(rank), recv_(rank) {}

  void check(Case c) {
    c.call.sequence = sequence_++;
    ++calls_;
    const Call& call = c.call;
    const int ranks = rank_.ranks(), me = rank_.rank();
    const size_t size = datatype_size(call.datatype);
    std::vector<Bytes> sent;
    for (int r = 0; r < ranks; ++r)
      sent.push_back(test::gaussian(test::send_count(call, ranks), call.datatype,
                                    static_cast<unsigned>(1000 * call.sequence + r)));
    const Bytes out = run(c, sent[me], test::recv_count(call, ranks) * size, size);
    const std::vector<Bytes> expected = test::expected(call, sent);
    if (out != expected[me]) {
      const auto at = std::mismatch(out.begin(), out.end(), expected[me].begin()).first;
      complain(c,
               fmt::format("byte {} of {} is not the reference's", at - out.begin(), out.size()));
    }
    if (call.collective != Collective::kReduceScatter && !rank_.agree(checksum(out)))
      complain(c, "the ranks' bytes differ");
    if (call.count < 1000) return;
    const double error =
        test::relative_error(test::values(out, call.datatype), test::exact(call, sent)[me]);
    if (!(error < bound(call.scheme))) complain(c, fmt::format("relative error {}", error));
    worst_ = std::max(worst_, error);
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
  static double bound(const Scheme& scheme) {
    const double levels = (1 << scheme.spec.bits) - 2;
    return 6.0 / levels;
  }

  static std::string checksum(const Bytes& bytes) {
    return std::to_string(perf::Checksum(bytes.data(), bytes.size()));
  }

  // In place, the smaller buffer lies in the larger one, where NCCL wants it.
  Bytes run(const Case& c, const Bytes& sent, size_t recv_bytes, size_t size) {
    const SchemeHandle scheme(print_scheme(c.call.scheme));
    const size_t mine = static_cast<size_t>(rank_.rank()) * c.call.count * size;
    size_t out_at = 0;
    char *in, *out;
    if (c.in_place && c.call.collective == Collective::kAllGather) {
      Bytes image(recv_bytes, kGuardByte);
      std::copy(sent.begin(), sent.end(), image.begin() + mine);
      out = recv_.put(image, c.offset);
      in = out + mine;
    } else if (c.in_place) {
      out_at = c.call.collective == Collective::kReduceScatter ? mine : 0;
      in = recv_.put(sent, c.offset);
      out = in + out_at;
    } else {
      in = send_.put(sent, c.offset);
      out = recv_.put(Bytes(recv_bytes, kGuardByte), c.offset);
    }
    Rank::check_terse(run_terse(c.call, in, out, scheme.get(), rank_), describe(c));
    rank_.device().synchronize(rank_.stream());
    if (!c.in_place && !send_.intact(0, 0)) complain(c, "the send buffer has changed");
    if (!recv_.intact(out_at, recv_bytes)) complain(c, "bytes outside of the result have changed");
    return recv_.get(out_at, recv_bytes);
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

void run_all(Suite& suite, bool quick) {
  static const char* const kSchemes[] = {"int8",
                                         "int4",
                                         "int4:block=64,round=stochastic",
                                         "minmax8:block=1024,round=shift",
                                         "int8:round=stochastic,seed=5,algo=twoshot",
                                         "int5:block=96,algo=oneshot",
                                         "minmax4:algo=twoshot",
                                         "minmax6:block=4096,round=stochastic"};
  static constexpr size_t kCounts[] = {1, 129, 4099, 100003};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  unsigned turn = 0;
  for (const char* scheme : kSchemes)
    for (int collective = 0; collective < 3; ++collective)
      for (const ncclDataType_t type : kTypes)
        for (const size_t count : kCounts) {
          if (quick && turn++ % 5 != 0) continue;
          if (!quick) ++turn;
          Case c{{.collective = static_cast<Collective>(collective),
                  .scheme = parse_scheme(scheme),
                  .datatype = type,
                  .op = turn % 2 ? ncclSum : ncclAvg,
                  .count = count},
                 turn % 3 == 0,
                 turn % 4 == 0 ? datatype_size(type) : 0};
          suite.check(c);
        }
  suite.check_bypass();
  if (quick) return;
  // Several chunks.
  for (const char* scheme : {"int8", "int4:round=stochastic,algo=twoshot"})
    for (int collective = 0; collective < 3; ++collective)
      suite.check({{.collective = static_cast<Collective>(collective),
                    .scheme = parse_scheme(scheme),
                    .count = collective == 0 ? size_t{3'000'017} : size_t{1'000'003}},
                   collective == 1,
                   0});
}

int body(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const Rank rank(argc, argv);
  Suite suite(rank);
  run_all(suite, quick);
  return suite.finish();
}

}  // namespace
}  // namespace terse::gpu

int main(int argc, char** argv) {
  return terse::gpu::run_rank("gpu_collectives", &terse::gpu::body, argc, argv);
}
