// Philox4x32-7, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC'11): of seven rounds, the fewest that pass all of BigCrush there (table 2). A draw
// is a pure function of its key and counter, so bytes do not depend on chunking, threads or
// devices.
#pragma once

#include "codec/portable.h"

namespace terse::codec {

constexpr int kPhiloxRounds = 7;
constexpr uint32_t kPhiloxFactor0 = 0xD2511F53u, kPhiloxFactor1 = 0xCD9E8D57u;
// Increments of the keys in each round.
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u, kPhiloxWeyl1 = 0xBB67AE85u;

struct PhiloxWords {
  uint32_t w[4];
};

TERSE_INLINE PhiloxWords philox(uint32_t key0, uint32_t key1, PhiloxWords counter) {
  uint32_t c0 = counter.w[0], c1 = counter.w[1], c2 = counter.w[2], c3 = counter.w[3];
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kPhiloxFactor0) * c0;
    const uint64_t p1 = static_cast<uint64_t>(kPhiloxFactor1) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace terse::codec
