// The machine code of the kernels against the host codec, byte for byte. kernel_test.cc of
// tests/kernels, which this program has too, has random launches of all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "cases.h"
#include "kernel_listings.h"
#include "machine_kernels.h"
#include "run_case.h"
#include "simt/global_memory.h"

namespace terse::kernels {
namespace {

using codec::Dtype;
using codec::Random;

// A block of elements, and a short one, there and back: the smallest example.
TEST(MachineCode, EncodesAndDecodesAsTheHostDoes) {
  Random random(1);
  const size_t counts[] = {160, 7};
  for (const bool packed : {true, false}) {
    const Case c = conversion(codec::make_spec(codec::kIntegerKinds[0], 5, 32), Dtype::kBfloat16,
                              packed, counts, random);
    EXPECT_EQ(on_kernels(c, random), on_host(c));
  }
}

TEST(MachineCode, IncrementsACounter) {
  if (!machine::has_kernel("terse::kernels::(anonymous namespace)::increment_kernel"))
    GTEST_SKIP() << "of this architecture there are kernels of one width alone";
  uint64_t number = 0xffffffff;
  const simt::Memory allowed(&number, sizeof number, simt::Access::kReadWrite, "number");
  machine_increment(&number);
  EXPECT_EQ(number, 0x100000000u);
}

// Whether the build has kernels of so many bits for the architecture (TERSE_WIDTHS).
bool has_width(int bits) {
  const char* const widths = std::getenv("TERSE_WIDTHS");
  std::istringstream all(widths == nullptr ? "" : widths);
  for (int width; all >> width;)
    if (width == bits) return true;
  return false;
}

// Whole tiles and others, one source and eight, any alignment. Every kernel of these widths is run.
TEST(MachineCode, OfEveryKernelGivesTheHostsBytes) {
  Random random(7);
  std::set<std::string> run;
  for (const codec::Spec& spec : codec::every_spec(128))
    for (const Dtype raw : codec::kAllDtypes)
      for (const bool packed : {true, false}) {
        const size_t counts[] = {4096 + 168, 201};
        Case c = conversion(spec, raw, packed, counts, random);
        const std::string name = kernel_name({spec, raw, packed, spec.hadamard != 0});
        if (!has_width(spec.bits)) continue;
        ASSERT_TRUE(machine::has_kernel(name)) << name;
        run.insert(name);
        SCOPED_TRACE(describe(c));
        ASSERT_EQ(on_kernels(c, random), on_host(c));
        c.works[0].offset = 1;
        for (size_t i = 0; i < 7; ++i)
          c.works[0].inputs.push_back(some_input(c, c.works[0].count, true, random));
        ASSERT_EQ(on_kernels(c, random), on_host(c));
      }
  const auto names = machine::kernel_names();
  EXPECT_EQ(run.size(), std::ranges::count_if(names, [](const std::string& name) {
              return name.find("combine_kernel") != name.npos;
            }));
}

}  // namespace
}  // namespace terse::kernels
