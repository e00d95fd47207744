// Chooses the block operations for this processor.
#include "codec/host_ops.h"

#ifdef TERSE_X86_LEVELS
#include <cpuid.h>

#include "codec/x86_level.h"
#endif

namespace terse::codec {

#define TERSE_DECLARE_ISA(name) \
  namespace name {              \
  extern const HostOps kOps;    \
  }
TERSE_DECLARE_ISA(baseline)
#ifdef TERSE_X86_LEVELS
TERSE_DECLARE_ISA(x86_64_v3)
TERSE_DECLARE_ISA(x86_64_v4)
#endif

#ifdef TERSE_X86_LEVELS
namespace {

X86Words x86_words() {
  X86Words words{};
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) words.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) words.leaf7_ebx = ebx;
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx)) words.extended_ecx = ecx;
  if (words.leaf1_ecx & kX86Osxsave) asm volatile("xgetbv" : "=a"(words.xcr0), "=d"(edx) : "c"(0));
  return words;
}

}  // namespace
#endif

bool processor_runs(const HostOps& ops) {
#ifdef TERSE_X86_LEVELS
  static const int level = x86_level(x86_words());
  if (&ops == &x86_64_v3::kOps) return level >= 3;
  if (&ops == &x86_64_v4::kOps) return level >= 4;
#endif
  return &ops == &baseline::kOps;
}

const HostOps& host_ops() {
#ifdef TERSE_X86_LEVELS
  static const HostOps& chosen = processor_runs(x86_64_v4::kOps)   ? x86_64_v4::kOps
                                 : processor_runs(x86_64_v3::kOps) ? x86_64_v3::kOps
                                                                   : baseline::kOps;
  return chosen;
#else
  return baseline::kOps;
#endif
}

}  // namespace terse::codec
