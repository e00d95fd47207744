// Which level of x86-64 a processor has.
#include "codec/x86_level.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "isa_tables.h"

namespace terse::codec {
namespace {

// What the psABI lists, as Linux calls it, where it does; and the level of a processor that has all
// the others.
struct X86Feature {
  const char* flag;
  uint32_t X86Words::*word;
  int bit, level_without;
};
constexpr X86Feature kX86Features[] = {{"pni", &X86Words::leaf1_ecx, 0, 1},
                                       {"ssse3", &X86Words::leaf1_ecx, 9, 1},
                                       {"fma", &X86Words::leaf1_ecx, 12, 1},
                                       {"cx16", &X86Words::leaf1_ecx, 13, 1},
                                       {"sse4_1", &X86Words::leaf1_ecx, 19, 1},
                                       {"sse4_2", &X86Words::leaf1_ecx, 20, 1},
                                       {"movbe", &X86Words::leaf1_ecx, 22, 1},
                                       {"popcnt", &X86Words::leaf1_ecx, 23, 1},
                                       {"", &X86Words::leaf1_ecx, 27, 1},  // OSXSAVE
                                       {"avx", &X86Words::leaf1_ecx, 28, 1},
                                       {"f16c", &X86Words::leaf1_ecx, 29, 1},
                                       {"bmi1", &X86Words::leaf7_ebx, 3, 1},
                                       {"avx2", &X86Words::leaf7_ebx, 5, 1},
                                       {"bmi2", &X86Words::leaf7_ebx, 8, 1},
                                       {"lahf_lm", &X86Words::extended_ecx, 0, 1},
                                       {"abm", &X86Words::extended_ecx, 5, 1},  // LZCNT
                                       {"", &X86Words::xcr0, 1, 1},             // XMM
                                       {"", &X86Words::xcr0, 2, 1},             // YMM
                                       {"avx512f", &X86Words::leaf7_ebx, 16, 3},
                                       {"avx512dq", &X86Words::leaf7_ebx, 17, 3},
                                       {"avx512cd", &X86Words::leaf7_ebx, 28, 3},
                                       {"avx512bw", &X86Words::leaf7_ebx, 30, 3},
                                       {"avx512vl", &X86Words::leaf7_ebx, 31, 3},
                                       {"", &X86Words::xcr0, 5, 3},   // masks
                                       {"", &X86Words::xcr0, 6, 3},   // ZMM0 to ZMM15, upper halves
                                       {"", &X86Words::xcr0, 7, 3}};  // ZMM16 to ZMM31

TEST(X86Level, NeedsEachOfItsFeatures) {
  X86Words all{};
  for (const X86Feature& f : kX86Features) all.*f.word |= 1u << f.bit;
  EXPECT_EQ(x86_level(all), 4);
  for (const X86Feature& f : kX86Features) {
    X86Words words = all;
    words.*f.word ^= 1u << f.bit;
    EXPECT_EQ(x86_level(words), f.level_without) << f.flag << ", bit " << f.bit;
  }
}

#ifdef TERSE_X86_LEVELS
TEST(X86Level, OfThisProcessorAsLinuxHasIt) {
  std::ifstream cpus("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpus, line) && !line.starts_with("flags")) {
  }
  if (!cpus) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  std::istringstream words(line);
  const std::set<std::string> flags{std::istream_iterator<std::string>(words), {}};
  int level = 4;
  for (const X86Feature& f : kX86Features)
    if (*f.flag != 0 && !flags.contains(f.flag)) level = std::min(level, f.level_without);
  EXPECT_EQ(processor_runs(x86_64_v3::kOps), level >= 3);
  EXPECT_EQ(processor_runs(x86_64_v4::kOps), level >= 4);
  EXPECT_TRUE(processor_runs(host_ops()));
}
#endif

}  // namespace
}  // namespace terse::codec
