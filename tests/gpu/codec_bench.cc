// The speed of the codec on a GPU, next to the device's own copy.
//
//   gpu_codec_bench          a JSON object a line: the copy of each size, then each operation
//
// Time is that of many launches between two events, the median of several rounds. Bytes are those
// that an operation must read and write; `share` is their rate over that of cudaMemcpy from device
// to device of the same message, which reads and writes it once. Memory is taken from a ring of
// buffers larger than the caches.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "cuda/launch.h"
#include "device_buffer.h"

namespace terse::gpu {
namespace {

using codec::Combine;
using codec::Dtype;
using codec::Source;
using codec::Spec;

constexpr size_t kRing = size_t{1} << 30;  // bytes of all buffers of one kind
constexpr double kRound = 0.02;            // seconds
constexpr int kRounds = 5;

struct Scheme {
  const char* name;
  Spec spec;
  double goal;  // share of the copy's rate
};
constexpr Scheme kSchemes[] = {
    {"int8", {codec::Family::kSymmetric, codec::Rounding::kNearest, 8, 128}, 0.85},
    {"int4", {codec::Family::kSymmetric, codec::Rounding::kNearest, 4, 128}, 0.85},
    {"int8-stochastic", {codec::Family::kSymmetric, codec::Rounding::kStochastic, 8, 128}, 0.75}};

enum class Operation { kEncode, kDecode, kReduce };
constexpr const char* kOperations[] = {"encode", "decode", "reduce4"};

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
    codec::combine({.spec = {},
                    .sources = {&source, 1},
                    .target = {bytes.data(), dtype},
                    .total = count,
                    .count = count});
  }
  return bytes;
}

class Bench {
 public:
  Bench(Dtype dtype, size_t bytes)
      : dtype_(dtype),
        bytes_(bytes),
        count_(bytes / codec::dtype_size(dtype)),
        raw_(bytes, 64),
        out_(bytes, 64) {
    constexpr size_t kPart = 4 << 20;  // elements
    const auto part = gradient(dtype, std::min(count_, kPart));
    for (size_t i = 0; i < raw_.buffers(); ++i)
      for (size_t at = 0; at < bytes; at += part.size())
        check(cudaMemcpy(raw_[i] + at, part.data(), std::min(part.size(), bytes - at),
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
    copy_ = timer_.time([&](size_t i) {
      check(cudaMemcpyAsync(out_[i], raw_[i], bytes_, cudaMemcpyDeviceToDevice, nullptr),
            "cudaMemcpyAsync");
    });
    fmt::print(
        "{{\"operation\": \"copy\", \"dtype\": \"{}\", \"bytes\": {}, \"us\": {:.3f}, "
        "\"GB/s\": {:.1f}}}\n",
        name(), bytes_, copy_ * 1e6, copy_rate());
  }

  void run(const Scheme& scheme) const {
    const size_t body = codec::body_size(scheme.spec, count_);
    const Ring packed(body, 64), target(body, 64);
    for (size_t i = 0; i < packed.buffers(); ++i) {
      const Source source{raw_[i], dtype_};
      combine(scheme, {&source, 1}, {packed[i], {}, draw(i)});
    }
    report(scheme, Operation::kEncode, bytes_ + body, [&](size_t i) {
      const Source source{raw_[i], dtype_};
      combine(scheme, {&source, 1}, {target[i], {}, draw(i)});
    });
    report(scheme, Operation::kDecode, body + bytes_, [&](size_t i) {
      const Source source{packed[i], {}};
      combine(scheme, {&source, 1}, {out_[i], dtype_});
    });
    // As in a sum over four ranks: three contributions that came, and the own one.
    const Ring second(body, 64), third(body, 64);
    for (size_t i = 0; i < packed.buffers(); ++i)
      for (uint8_t* other : {second[i], third[i]})
        check(cudaMemcpy(other, packed[i], body, cudaMemcpyDeviceToDevice), "cudaMemcpy");
    report(scheme, Operation::kReduce, bytes_ + 4 * body, [&](size_t i) {
      const Source sources[] = {
          {packed[i], {}}, {second[i], {}}, {third[i], {}}, {raw_[i], dtype_}};
      combine(scheme, sources, {target[i], {}, draw(i)});
    });
  }

 private:
  const char* name() const { return dtype_ == Dtype::kFloat32 ? "fp32" : "bf16"; }
  double copy_rate() const { return 2e-9 * static_cast<double>(bytes_) / copy_; }
  static codec::Draw draw(size_t i) { return codec::make_draw({.sequence = i}); }

  void combine(const Scheme& scheme, std::span<const Source> sources, codec::Target target) const {
    work_.assign(1, {.spec = scheme.spec,
                     .sources = sources,
                     .target = target,
                     .total = count_,
                     .first = 0,
                     .count = count_});
    launcher_.combine(nullptr, work_, nullptr);
  }

  template <class Work>
  void report(const Scheme& scheme, Operation operation, size_t moved, const Work& work) const {
    const double seconds = timer_.time(work);
    const double rate = 1e-9 * static_cast<double>(moved) / seconds;
    fmt::print(
        "{{\"operation\": \"{}\", \"scheme\": \"{}\", \"dtype\": \"{}\", \"bytes\": {}, "
        "\"us\": {:.3f}, \"GB/s\": {:.1f}, \"share\": {:.3f}, \"goal\": {}}}\n",
        kOperations[static_cast<int>(operation)], scheme.name, name(), bytes_, seconds * 1e6, rate,
        rate / copy_rate(), scheme.goal);
    std::fflush(stdout);
  }

  const Dtype dtype_;
  const size_t bytes_, count_;
  const Timer timer_;
  const cuda::Launcher launcher_{0};
  const Ring raw_, out_;
  double copy_ = 0;
  mutable std::vector<Combine> work_;
};

void run() {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const size_t mebibytes : {1, 64, 512}) {
      const Bench bench(dtype, mebibytes << 20);
      for (const Scheme& scheme : kSchemes) bench.run(scheme);
    }
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
