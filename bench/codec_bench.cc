// The speed of the codec on one core, next to memcpy.
//
// Each iteration copies the raw bytes with memcpy and then does the operation, so that noise of the
// machine meets both. Reported, in bytes of raw elements (4 or 2 for each):
//   GB/s     at the median time      best    at the least time
//   memcpy   at its median time      share   of memcpy's speed: median of the iterations' ratios
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "codec/checksum.h"
#include "codec/codec.h"
#include "codec/codecs.h"
#include "codec/host_ops.h"

namespace {

using namespace terse::codec;
using Bytes = std::vector<uint8_t>;

enum class Operation { kEncode, kDecode, kReduce, kParams, kCodes, kMerge };
constexpr const char* kOperations[] = {"encode", "decode", "reduce4", "params", "codes", "merge2"};
constexpr const char* kDtypeNames[] = {"fp32", "fp16", "bf16"};
constexpr size_t kSources = 4;  // of a decode-reduce-encode: all packed but the last

struct Case {
  Operation operation;
  std::string name;
  Spec spec;
  Dtype dtype;
  size_t bytes;
};

// About bell-shaped: the sum of four uniform numbers.
std::vector<float> gradient(size_t n, uint64_t seed) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = splitmix64(seed + i);
    float sum = -131070.0f;
    for (int k = 0; k < 64; k += 16) sum += static_cast<float>(bits >> k & 0xFFFF);
    x[i] = sum * 1e-7f;
  }
  return x;
}

void convert(Source from, Target to, size_t count) {
  combine({.sources = {&from, 1}, .target = to, .total = count, .count = count});
}

double seconds(void (*work)(void*), void* argument) {
  const auto start = std::chrono::steady_clock::now();
  work(argument);
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Work>
double time_of(Work work) {
  return seconds([](void* w) { (*static_cast<Work*>(w))(); }, &work);
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + x.size() / 2, x.end());
  return x[x.size() / 2];
}

void run(benchmark::State& state, const Case& c) {
  const size_t count = c.bytes / dtype_size(c.dtype);
  Bytes raw(c.bytes), copy(c.bytes), out(body_size(c.spec, count));
  std::vector<Bytes> packed(c.operation == Operation::kReduce  ? kSources
                            : c.operation == Operation::kMerge ? 2
                                                               : 1,
                            out);
  for (size_t i = 0; i < packed.size(); ++i) {
    const std::vector<float> x = gradient(count, i << 40);
    convert({x.data(), Dtype::kFloat32}, {raw.data(), c.dtype}, count);
    convert({raw.data(), c.dtype}, {packed[i].data(), c.spec, make_draw({.rank = 1})}, count);
  }
  std::vector<Source> sources;
  for (const Bytes& body : packed) sources.push_back({body.data(), c.spec});
  if (c.operation == Operation::kReduce) sources.back() = {raw.data(), c.dtype};
  const Draw draw = make_draw({.seed = 1});
  const auto encode = [&](Part part) {
    convert({raw.data(), c.dtype}, {out.data(), c.spec, draw, 0, part}, count);
  };
  const auto operation = [&] {
    switch (c.operation) {
      case Operation::kEncode:
        return encode(Part::kAll);
      case Operation::kParams:
        return encode(Part::kParams);
      case Operation::kCodes:
        return encode(Part::kCodes);
      case Operation::kDecode:
        return convert({packed[0].data(), c.spec}, {copy.data(), c.dtype}, count);
      case Operation::kMerge:
        return combine({.sources = sources,
                        .target = {out.data(), c.spec, draw, 0, Part::kMerged},
                        .total = count,
                        .count = count});
      case Operation::kReduce:
        return combine({.sources = sources,
                        .target = {out.data(), c.spec, draw},
                        .total = count,
                        .count = count});
    }
  };

  // What a merge takes the place of.
  const std::vector<float> addend(c.operation == Operation::kMerge ? count : 0, 1.0f);
  std::vector<float> sums = addend;
  const auto add = [&] {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += addend[i];
  };

  std::vector<double> times, copies, shares, adds;
  encode(Part::kAll);  // codes are made of parameters that are there
  operation();         // touches every page
  std::memcpy(copy.data(), raw.data(), c.bytes);
  for (auto iteration : state) {
    (void)iteration;
    copies.push_back(time_of([&] { std::memcpy(copy.data(), raw.data(), c.bytes); }));
    times.push_back(time_of(operation));
    if (!sums.empty()) adds.push_back(times.back() / time_of(add));
    shares.push_back(copies.back() / times.back());
    state.SetIterationTime(times.back());
  }
  const double gigabytes = static_cast<double>(c.bytes) * 1e-9;
  state.counters["GB/s"] = gigabytes / median(times);
  state.counters["best"] = gigabytes / *std::min_element(times.begin(), times.end());
  state.counters["memcpy"] = gigabytes / median(copies);
  state.counters["share"] = median(shares);
  // Time for a byte of codes by that for a byte of fp32, of which there are four times as many.
  if (!adds.empty()) state.counters["omega"] = 4 * median(adds);
}

// The check of memory that delta= makes, as a share of reading it.
void run_check(benchmark::State& state) {
  const size_t bytes = size_t{64} << 20;
  const Bytes raw(bytes, 3);
  uint64_t parts[kCheckParts];
  const auto check = [&] {
    checksum({.of = {{raw.data(), bytes, 1, 0}}, .count = 1, .parts = parts});
  };
  const auto read = [&] {
    uint8_t all = 0;
    for (size_t i = 0; i < bytes; i += 64) all ^= raw[i];  // of each line a byte
    benchmark::DoNotOptimize(all);
  };
  std::vector<double> times, shares;
  for (auto iteration : state) {
    (void)iteration;
    const double reading = time_of(read);
    times.push_back(time_of(check));
    shares.push_back(reading / times.back());
    state.SetIterationTime(times.back());
  }
  state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / median(times);
  state.counters["share"] = median(shares);
}

struct Named {
  std::string name;
  Spec spec;
};

// Every codec with 4 and 8 bits, or as many as it has, as it usually is; with stochastic rounding;
// and with the transform. And the blocks of SDP4Bit's weights and of QSDP.
std::vector<Named> schemes() {
  std::vector<Named> all;
  for (const Descriptor& d : kDescriptors) {
    std::set<int> widths{std::clamp(4, d.min_bits, d.max_bits),
                         std::clamp(8, d.min_bits, d.max_bits)};
    for (const int bits : widths) {
      Spec spec = default_spec(d, bits, Rounding::kNearest);
      std::string name(d.name);
      if (!has_one_width(d)) name += std::to_string(bits);
      if (d.fit == Fit::kMse) name += "-mse";
      const auto add = [&](const char* suffix) {
        if (valid(spec)) all.push_back({name + suffix, spec});
      };
      add("");
      spec.hadamard = kHadamard;
      add("-hadamard");
      spec.hadamard = 0;
      spec.rounding = Rounding::kStochastic;
      add("-stochastic");
    }
  }
  all.push_back({"int3", {Symmetric::kDescriptor.id, Rounding::kNearest, 3, 128}});
  all.push_back({"int4-2048", {Symmetric::kDescriptor.id, Rounding::kNearest, 4, 2048}});
  for (uint8_t bits = kMinBits; bits <= kMaxBits; ++bits) {
    const std::string suffix = std::to_string(bits) + "-1024";
    all.push_back({"minmax" + suffix, {MinMax::kDescriptor.id, Rounding::kNearest, bits, 1024}});
    all.push_back({"learned" + suffix, {Learned::kDescriptor.id, Rounding::kNearest, bits, 1024}});
  }
  all.push_back({"minmax8-shift-1024", {MinMax::kDescriptor.id, Rounding::kShift, 8, 1024}});
  return all;
}

// Codes of a shared grid are made in two parts, and summed by NCCL or merged.
bool has(const Named& scheme, Operation operation, Dtype dtype) {
  if (operation == Operation::kDecode) return true;
  const Descriptor& d = descriptor(scheme.spec.codec);
  if (operation == Operation::kMerge)
    return d.sharing == Sharing::kMerged && dtype == Dtype::kFloat32;
  const bool parts = operation == Operation::kParams || operation == Operation::kCodes;
  return parts == shares_grid(d);
}

void register_cases() {
  using enum Operation;
  for (Operation operation : {kEncode, kDecode, kReduce, kParams, kCodes, kMerge}) {
    for (const Named& scheme : schemes()) {
      for (Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kBfloat16}) {
        if (!has(scheme, operation, dtype)) continue;
        for (size_t mebibytes : {1, 64}) {
          const Case c{operation, scheme.name, scheme.spec, dtype, mebibytes << 20};
          const std::string name = std::string(kOperations[static_cast<int>(operation)]) + "/" +
                                   scheme.name + "/" + kDtypeNames[static_cast<int>(dtype)] + "/" +
                                   std::to_string(mebibytes) + "MiB";
          benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& s) { run(s, c); })
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond)
              ->Iterations(mebibytes == 1 ? 301 : 15);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction set", host_ops().isa);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_cases();
  benchmark::RegisterBenchmark("check/64MiB", &run_check)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(15);
  benchmark::RunSpecifiedBenchmarks();
}
