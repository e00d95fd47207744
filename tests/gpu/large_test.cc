// Messages that keep a whole GPU busy for many rounds of its persistent grid, and ones beyond 2^31
// elements, against the host codec.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "device_buffer.h"
#include "kernels/launch.h"
#include "support.h"

namespace terse::gpu {
namespace {

using codec::Combine;
using codec::Dtype;
using codec::Spec;

// Not std::vector, whose first touch would be serial.
struct HostMemory {
  explicit HostMemory(size_t bytes) : data(new uint8_t[bytes]), size(bytes) {}
  std::unique_ptr<uint8_t[]> data;
  size_t size;
};

// What a read of the host's memory takes from the GPU at a time.
constexpr size_t kSlice = size_t{256} << 20;

// What there is for us, where the system or the container says so.
size_t host_memory() {
  size_t bytes = SIZE_MAX, kilobytes = 0;
  std::ifstream system("/proc/meminfo"), container("/sys/fs/cgroup/memory.max");
  for (std::string word; system >> word;)
    if (word == "MemAvailable:" && system >> kilobytes) bytes = kilobytes << 10;
  size_t limit = 0;
  return container >> limit ? std::min(bytes, limit) : bytes;  // "max" where there is none
}

// body(first, count) for parts of [0, total), whose borders are multiples of `quantum`.
template <class Body>
void in_parallel(size_t total, size_t quantum, const Body& body) {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const size_t part = (total / threads / quantum + 1) * quantum;
  std::vector<std::thread> running;
  for (size_t first = 0; first < total; first += part)
    running.emplace_back([=, &body] { body(first, std::min(part, total - first)); });
  for (std::thread& thread : running) thread.join();
}

// Finite numbers of about one size, of either sign; raw memory of `raw`.
void fill(HostMemory& memory, Dtype raw, uint64_t seed) {
  const size_t size = codec::dtype_size(raw);
  in_parallel(memory.size / size, 4096, [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      const uint64_t bits = codec::splitmix64(seed ^ i);
      const float value = (static_cast<float>(bits & 0xFFFFFF) - 8388607.5f) * (1.0f / 8388608.0f);
      if (raw == Dtype::kFloat32) {
        std::memcpy(memory.data.get() + i * size, &value, size);
      } else {
        const auto narrow = static_cast<uint16_t>(oracle::narrow(raw, value));
        std::memcpy(memory.data.get() + i * size, &narrow, size);
      }
    }
  });
}

void on_host(const Combine& work) {
  in_parallel(work.total, codec::kMaxBlock, [&](size_t first, size_t count) {
    Combine part = work;
    part.first = first;
    part.count = count;
    codec::combine(part);
  });
}

// Slice by slice, for the host has less memory than the GPU.
void expect_same(const HostMemory& expected, const DeviceBuffer& device, const char* what) {
  HostMemory found(std::min(expected.size, kSlice));
  for (size_t first = 0; first < expected.size; first += found.size) {
    const size_t bytes = std::min(found.size, expected.size - first);
    device.get(found.data.get(), bytes, first);
    const uint8_t* const wanted = expected.data.get() + first;
    if (std::memcmp(wanted, found.data.get(), bytes) == 0) continue;
    size_t at = 0;
    while (wanted[at] == found.data[at]) ++at;
    FAIL() << what << ": byte " << first + at << " of " << expected.size;
  }
}

// There and back, and once more with a sum: on the host in place of what is added.
void round_trip(const Spec& spec, Dtype raw, size_t count) {
  SCOPED_TRACE(codec::describe(spec) + " " + codec::name_of(raw) + " " + std::to_string(count));
  const size_t raw_bytes = count * codec::dtype_size(raw);
  const cuda::Launcher launcher(cuda::Device(0));
  const codec::Draw draw = codec::make_draw({.seed = 11, .rank = 3});
  const auto work = [&](std::span<const codec::Source> sources, codec::Target target) {
    return Combine{
        .sources = sources, .target = target, .total = count, .first = 0, .count = count};
  };

  HostMemory in(raw_bytes), packed(codec::body_size(spec, count));
  fill(in, raw, 77);
  const DeviceBuffer gpu_in(in.size), gpu_packed(packed.size), gpu_out(in.size);
  gpu_in.put(in.data.get(), in.size);
  gpu_packed.fill(0x5A);
  gpu_out.fill(0x5A);

  const codec::Source host_raw{in.data.get(), raw}, gpu_raw{gpu_in.data(), raw};
  on_host(work({&host_raw, 1}, {packed.data.get(), spec, draw, 32}));
  launcher.combine(nullptr, {work({&gpu_raw, 1}, {gpu_packed.data(), spec, draw, 32})}, nullptr);
  check(cudaDeviceSynchronize(), "encode");
  ASSERT_NO_FATAL_FAILURE(expect_same(packed, gpu_packed, "encode"));

  const codec::Source host_sum[] = {{packed.data.get(), spec}, host_raw};
  const codec::Source gpu_sum[] = {{gpu_packed.data(), spec}, gpu_raw};
  on_host(work(host_sum, {in.data.get(), raw}));
  launcher.combine(nullptr, {work(gpu_sum, {gpu_out.data(), raw})}, nullptr);
  check(cudaDeviceSynchronize(), "decode and reduce");
  ASSERT_NO_FATAL_FAILURE(expect_same(in, gpu_out, "decode and reduce"));
}

TEST(Large, ManyRoundsOfTheGrid) {
  const codec::Kind nearest = codec::kIntegerKinds[0], stochastic = codec::kIntegerKinds[1],
                    shift = codec::kIntegerKinds[4];
  const size_t count = (32 << 20) + 4099;
  round_trip(codec::make_spec(nearest, 8, 128), Dtype::kFloat32, count);
  round_trip(codec::make_spec(stochastic, 4, 64), Dtype::kBfloat16, count);
  round_trip(codec::make_spec(shift, 8, 1024), Dtype::kFloat16, count);
  round_trip(codec::make_spec(stochastic, 3, 4096), Dtype::kFloat32, count);
}

TEST(Large, BeyondTwoToThe31) {
  const size_t count = (size_t{1} << 31) + 5003;
  size_t available = 0, all = 0;
  check(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
  if (available < 6 * count) GTEST_SKIP() << "needs " << 6 * count << " bytes of GPU memory";
  const size_t needed = 3 * count + kSlice;
  if (host_memory() < needed) GTEST_SKIP() << "needs " << needed << " bytes of the host's memory";
  round_trip(codec::make_spec(codec::kIntegerKinds[1], 4, 128), Dtype::kBfloat16, count);
}

}  // namespace
}  // namespace terse::gpu
