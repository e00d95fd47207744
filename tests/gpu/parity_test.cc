// The kernels on a GPU against the host codec, byte for byte. "Short" is what fits under a memory
// checker.
#include <gtest/gtest.h>

#include <cstring>

#include "codec/checksum.h"
#include "device_buffer.h"
#include "image.h"
#include "kernels/launch.h"

namespace terse::gpu {
namespace {

using codec::Bytes;
using codec::Dtype;
using codec::Random;
using kernels::Case;
using kernels::Work;

class Gpu {
 public:
  static Gpu& get() {
    static Gpu gpu;
    return gpu;
  }

  // The image of the case after the launches.
  Bytes run(const Image& image, const Case& c) {
    arena_.put(image.bytes().data(), image.bytes().size());
    replays_.put(&c.replays, sizeof c.replays);
    content_.put(c.content.data(), c.content.size() * sizeof c.content[0]);
    std::vector<codec::Source> sources;
    auto works = image.works(arena_.data(), sources);
    const auto* const times =
        reinterpret_cast<uint64_t*>(c.replays == 0 ? nullptr : replays_.data());
    if (!c.content.empty())
      for (codec::Combine& work : works)
        work.target.content = reinterpret_cast<uint64_t*>(content_.data()),
        work.target.content_parts = static_cast<uint32_t>(c.content.size());
    if (image.in_parts()) {
      for (codec::Combine& work : works) work.target.part = codec::Part::kParams;
      launcher_.combine(nullptr, works, times);
      for (codec::Combine& work : works) work.target.part = codec::Part::kCodes;
    }
    launcher_.combine(nullptr, works, times);
    check(cudaDeviceSynchronize(), "the kernels");
    Bytes result(image.bytes().size());
    arena_.get(result.data(), result.size());
    return result;
  }

 private:
  cuda::Launcher launcher_{cuda::Device(0)};
  DeviceBuffer arena_{64 << 20}, replays_{256}, content_{codec::kCheckParts * sizeof(uint64_t)};
};

void expect_parity(const Case& c) {
  const Image image(c);
  HostCopy expected(image.bytes());
  std::vector<codec::Source> sources;
  for (codec::Combine work : image.works(expected.data(), sources)) {
    work.target.draw = kernels::changed_draw(c, work.target.draw);
    codec::combine(work);
  }
  const Bytes found = Gpu::get().run(image, c);
  if (std::memcmp(expected.data(), found.data(), found.size()) == 0) return;
  size_t at = 0;
  while (expected.data()[at] == found[at]) ++at;
  FAIL() << kernels::describe(c) << ": " << image.describe(at) << ": " << int(expected.data()[at])
         << " expected, " << int(found[at]) << " found";
}

void random_cases(int n, uint64_t seed) {
  Random random(seed);
  for (int repeat = 0; repeat < n; ++repeat) {
    expect_parity(kernels::some_case(random));
    if (testing::Test::HasFatalFailure()) return;
  }
}

void every_kernel(std::span<const size_t> blocks, uint64_t seed) {
  Random random(seed);
  for (const size_t block : blocks)
    for (const codec::Spec& spec : codec::every_spec(block))
      for (const Dtype raw : codec::kAllDtypes)
        for (const bool packed : {true, false}) {
          const size_t counts[] = {4096 + block + 40, 201};  // whole tiles and others
          expect_parity(kernels::conversion(spec, raw, packed, counts, random));
          if (testing::Test::HasFatalFailure()) return;
        }
}

TEST(Short, RandomLaunches) { random_cases(60, 1); }

TEST(Short, EveryKernel) {
  const size_t blocks[] = {128};
  every_kernel(blocks, 2);
}

TEST(Parity, RandomLaunches) { random_cases(4000, 3); }

TEST(Parity, EveryKernelOnEveryBlock) { every_kernel(kernels::kBlocks, 4); }

// What is added may lie where the sum goes.
TEST(Parity, InPlace) {
  Random random(5);
  for (const Dtype raw : codec::kAllDtypes) {
    Case c{codec::make_spec(codec::kIntegerKinds[0], 8, 128), raw, false, {}};
    Work w{{}, 100003, 1.0f, {}, 0};
    w.inputs.push_back(kernels::some_input(c, w.count, true, random));
    w.inputs.push_back(kernels::some_input(c, w.count, false, random));
    c.works.push_back(w);
    const Image image(c);
    const auto in_place = [&](uint8_t* base, std::vector<codec::Source>& sources) {
      auto works = image.works(base, sources);
      works[0].target.data = const_cast<void*>(works[0].sources[1].data);
      return works;
    };
    HostCopy expected(image.bytes());
    std::vector<codec::Source> sources;
    for (const codec::Combine& work : in_place(expected.data(), sources)) codec::combine(work);

    const DeviceBuffer device(image.bytes().size());
    device.put(image.bytes().data(), device.size());
    cuda::Launcher(cuda::Device(0)).combine(nullptr, in_place(device.data(), sources), nullptr);
    check(cudaDeviceSynchronize(), "the kernels");
    Bytes found(device.size());
    device.get(found.data(), found.size());
    EXPECT_EQ(std::memcmp(expected.data(), found.data(), found.size()), 0) << codec::name_of(raw);
  }
}

}  // namespace
}  // namespace terse::gpu
