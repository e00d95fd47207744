// The speed of the codec on a GPU, next to the device's own copy.
//
//   gpu_codec_bench          a JSON object a line: the copy of each size, what the codec does with
//                            such messages, and the copy again
//
// Time is that of many launches between two events, the median of several rounds. Bytes are those
// that an operation must read and write; a `goal` is a share of the rate of cudaMemcpy from device
// to device of the same message, which reads and writes it once. It is less where memory is so fast
// that a GPU would have to issue more than kIssued of the instructions that it can. Memory is taken
// in turn from up to 64 buffers of each kind, or 1 GiB: messages of 1 MiB may find some of theirs
// in the L2 cache, and where all of it fits there the row says so, "cache_resident".
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "device_buffer.h"
#include "kernels/launch.h"

namespace terse::gpu {
namespace {

using codec::Combine;
using codec::Dtype;
using codec::Source;
using codec::Spec;

constexpr size_t kRing = size_t{1} << 30;  // bytes of all buffers of one kind
constexpr double kRound = 0.02;            // seconds
constexpr int kRounds = 5;
constexpr std::chrono::milliseconds kWarmUp{300};  // until the clocks are up
constexpr double kIssued = 0.6;                    // share of what a GPU can issue

struct Scheme {
  const char* name;
  Spec spec;
  double goal;  // share of the copy's rate; 0: none
  // Instructions an element, as docs/GPU.md has them of fp32, the type that takes most.
  double encode = 0, decode = 0;
};
constexpr codec::CodecId kSymmetric = codec::Symmetric::kDescriptor.id;
constexpr codec::CodecId kMinMax = codec::MinMax::kDescriptor.id;
constexpr Scheme kSchemes[] = {
    {"int8", {kSymmetric, codec::Rounding::kNearest, 8, 128}, 0.85, 14.7, 15.4},
    {"int4", {kSymmetric, codec::Rounding::kNearest, 4, 128}, 0.85, 15.8, 16.1},
    {"int8-stochastic", {kSymmetric, codec::Rounding::kStochastic, 8, 128}, 0.75, 27.0, 15.4},
    {"int5", {kSymmetric, codec::Rounding::kNearest, 5, 128}, 0},
    {"minmax8", {kMinMax, codec::Rounding::kNearest, 8, 128}, 0},
    {"minmax4", {kMinMax, codec::Rounding::kNearest, 4, 128}, 0}};

struct Type {
  const char* name;
  Dtype dtype;
  bool has_goals;
};
constexpr Type kTypes[] = {{"fp32", Dtype::kFloat32, true},
                           {"bf16", Dtype::kBfloat16, true},
                           {"fp16", Dtype::kFloat16, false}};

struct Operation {
  const char* name;
  bool has_goals;
  int encodes = 0, decodes = 0;  // of an element

  double instructions(const Scheme& scheme) const {
    return encodes * scheme.encode + decodes * scheme.decode;
  }
};
constexpr Operation kEncode{"encode", true, 1, 0}, kDecode{"decode", true, 0, 1},
    kAdd{"decode-add", false}, kReduce{"reduce4", true, 1, 3};

class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Seconds of one of work(0), work(1), ...
  template <class Work>
  double time(const Work& work) const {
    size_t repeats = 1;
    double seconds = round(work, repeats);  // warms up, too
    for (; seconds * static_cast<double>(repeats) < kRound && repeats < 100'000; repeats *= 2)
      seconds = round(work, repeats);
    std::vector<double> rounds;
    for (int i = 0; i < kRounds; ++i) rounds.push_back(round(work, repeats));
    std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
    return rounds[kRounds / 2];
  }

 private:
  template <class Work>
  double round(const Work& work, size_t repeats) const {
    check(cudaEventRecord(begin_), "cudaEventRecord");
    for (size_t i = 0; i < repeats; ++i) work(i);
    check(cudaEventRecord(end_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "the work");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds * 1e-3 / static_cast<double>(repeats);
  }

  cudaEvent_t begin_, end_;
};

// Equal buffers in one allocation, each on a border of 256 bytes.
class Ring {
 public:
  Ring(size_t bytes, size_t at_most)
      : stride_((bytes + 255) / 256 * 256),
        buffers_(std::clamp<size_t>(kRing / stride_, 1, at_most)),
        memory_(stride_ * buffers_) {}
  uint8_t* operator[](size_t i) const { return memory_.data() + i % buffers_ * stride_; }
  size_t buffers() const { return buffers_; }
  size_t size() const { return memory_.size(); }

 private:
  size_t stride_, buffers_;
  DeviceBuffer memory_;
};

// About bell-shaped numbers of a type.
std::vector<uint8_t> gradient(Dtype dtype, size_t count) {
  std::vector<uint8_t> bytes(count * codec::dtype_size(dtype));
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = codec::splitmix64(i);
    float sum = -131070.0f;
    for (int k = 0; k < 64; k += 16) sum += static_cast<float>(bits >> k & 0xFFFF);
    x[i] = sum * 1e-7f;
  }
  const Source source{x.data(), Dtype::kFloat32};
  if (dtype == Dtype::kFloat32) {
    std::copy_n(reinterpret_cast<const uint8_t*>(x.data()), bytes.size(), bytes.data());
  } else {
    codec::combine(
        {.sources = {&source, 1}, .target = {bytes.data(), dtype}, .total = count, .count = count});
  }
  return bytes;
}

int attribute(cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
  return value;
}

size_t l2_cache() { return static_cast<size_t>(attribute(cudaDevAttrL2CacheSize)); }

// Of all threads, a second: a multiprocessor issues one for each of four warps at a time.
double instructions_a_second() {
  return 1e3 * attribute(cudaDevAttrClockRate) * attribute(cudaDevAttrMultiProcessorCount) * 4 * 32;
}

// The messages of one type and size.
class Bench {
 public:
  Bench(const Type& type, size_t bytes)
      : type_(type),
        bytes_(bytes),
        count_(bytes / codec::dtype_size(type.dtype)),
        raw_(bytes, 64),
        out_(bytes, 64) {
    constexpr size_t kPart = 4 << 20;  // elements
    const auto part = gradient(type.dtype, std::min(count_, kPart));
    for (size_t at = 0; at < bytes; at += part.size())
      check(cudaMemcpy(raw_[0] + at, part.data(), std::min(part.size(), bytes - at),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
    for (size_t i = 1; i < raw_.buffers(); ++i)
      check(cudaMemcpy(raw_[i], raw_[0], bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy");
  }

  void run() {
    warm_up();
    copy_rate_ = time_copy();
    for (const Scheme& scheme : kSchemes) run(scheme);
    time_copy();
  }

 private:
  void copy(size_t i) const {
    check(cudaMemcpyAsync(out_[i], raw_[i], bytes_, cudaMemcpyDeviceToDevice, nullptr),
          "cudaMemcpyAsync");
  }

  void warm_up() const {
    const auto end = std::chrono::steady_clock::now() + kWarmUp;
    while (std::chrono::steady_clock::now() < end) {
      for (size_t i = 0; i < raw_.buffers(); ++i) copy(i);
      check(cudaDeviceSynchronize(), "the copies");
    }
  }

  double time_copy() const {
    return report("copy", "", 2 * bytes_, raw_.size() + out_.size(), [&](size_t i) { copy(i); });
  }

  void run(const Scheme& scheme) const {
    const size_t body = codec::body_size(scheme.spec, count_);
    const Ring packed(body, 64), target(body, 64);
    for (size_t i = 0; i < packed.buffers(); ++i) {
      const Source source{raw_[i], type_.dtype};
      combine({&source, 1}, {packed[i], scheme.spec, draw(i)});
    }
    report(scheme, kEncode, bytes_ + body, raw_.size() + target.size(), [&](size_t i) {
      const Source source{raw_[i], type_.dtype};
      combine({&source, 1}, {target[i], scheme.spec, draw(i)});
    });
    report(scheme, kDecode, body + bytes_, packed.size() + out_.size(), [&](size_t i) {
      const Source source{packed[i], scheme.spec};
      combine({&source, 1}, {out_[i], type_.dtype});
    });
    report(scheme, kAdd, body + 2 * bytes_, packed.size() + raw_.size() + out_.size(),
           [&](size_t i) {
             const Source sources[] = {{packed[i], scheme.spec}, {raw_[i], type_.dtype}};
             combine(sources, {out_[i], type_.dtype});
           });
    // As in a sum over four ranks: three contributions that came, and the own one.
    const Ring second(body, 64), third(body, 64);
    for (size_t i = 0; i < packed.buffers(); ++i)
      for (uint8_t* other : {second[i], third[i]})
        check(cudaMemcpy(other, packed[i], body, cudaMemcpyDeviceToDevice), "cudaMemcpy");
    report(scheme, kReduce, bytes_ + 4 * body, raw_.size() + 4 * packed.size(), [&](size_t i) {
      const Source sources[] = {{packed[i], scheme.spec},
                                {second[i], scheme.spec},
                                {third[i], scheme.spec},
                                {raw_[i], type_.dtype}};
      combine(sources, {target[i], scheme.spec, draw(i)});
    });
  }

  static codec::Draw draw(size_t i) { return codec::make_draw({.sequence = i}); }

  void combine(std::span<const Source> sources, codec::Target target) const {
    work_.assign(
        1, {.sources = sources, .target = target, .total = count_, .first = 0, .count = count_});
    launcher_.combine(nullptr, work_, nullptr);
  }

  template <class Work>
  void report(const Scheme& scheme, const Operation& operation, size_t moved, size_t touched,
              const Work& work) const {
    std::string more = fmt::format(", \"scheme\": \"{}\"", scheme.name);
    if (scheme.goal > 0 && type_.has_goals && operation.has_goals)
      more += fmt::format(", \"goal\": {:.3f}", goal(scheme, operation, moved));
    report(operation.name, more, moved, touched, work);
  }

  // As a share of the copy's rate.
  double goal(const Scheme& scheme, const Operation& operation, size_t moved) const {
    const double elements = kIssued * instructions_a_second() / operation.instructions(scheme);
    const double rate = elements * static_cast<double>(moved) / static_cast<double>(count_);
    return std::min(scheme.goal, rate / copy_rate_);
  }

  // `moved`: bytes of one of the times; `touched`: of all of them together. How many a second.
  template <class Work>
  double report(const char* operation, const std::string& more, size_t moved, size_t touched,
                const Work& work) const {
    const double seconds = timer_.time(work), rate = static_cast<double>(moved) / seconds;
    fmt::print(
        "{{\"operation\": \"{}\"{}, \"dtype\": \"{}\", \"bytes\": {}, \"us\": {:.3f}, "
        "\"GB/s\": {:.1f}{}}}\n",
        operation, more, type_.name, bytes_, seconds * 1e6, 1e-9 * rate,
        touched <= l2_cache() ? ", \"cache_resident\": true" : "");
    std::fflush(stdout);
    return rate;
  }

  const Type& type_;
  const size_t bytes_, count_;
  const Timer timer_;
  const cuda::Launcher launcher_{cuda::Device(0)};
  const Ring raw_, out_;
  double copy_rate_ = 0;  // bytes a second
  mutable std::vector<Combine> work_;
};

void run() {
  for (const Type& type : kTypes)
    for (const size_t mebibytes : {1, 64, 512}) Bench(type, mebibytes << 20).run();
}

}  // namespace
}  // namespace terse::gpu

int main() {
  if (terse::gpu::devices() == 0) {
    std::puts("not run: there is no GPU here");
    return 77;
  }
  try {
    terse::gpu::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_codec_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
