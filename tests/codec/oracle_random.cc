// FORMAT.md, section 5: random numbers.
#include "oracle.h"

namespace oracle {

// Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC'11), section 3.3 and
// table 2. Seven rounds; before each but the first the key advances by the Weyl constants.
Words4 philox4x32_7(Words4 counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 7; ++round) {
    if (round > 0) {
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    const uint64_t a = uint64_t{0xD2511F53} * counter.w[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter.w[2];
    const uint32_t high_a = static_cast<uint32_t>(a >> 32), low_a = static_cast<uint32_t>(a);
    const uint32_t high_b = static_cast<uint32_t>(b >> 32), low_b = static_cast<uint32_t>(b);
    counter = {{high_b ^ counter.w[1] ^ k0, low_b, high_a ^ counter.w[3] ^ k1, low_a}};
  }
  return counter;
}

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

uint32_t random16(const Stream& s, uint64_t element) {
  const uint64_t key = mix(s.seed ^ mix(s.communicator ^ mix(s.sequence)));
  const uint64_t e = s.origin + element;
  const uint64_t g = e / 8;
  const Words4 counter = {{static_cast<uint32_t>(g % (uint64_t{1} << 32)),
                           static_cast<uint32_t>(g >> 32), s.rank, s.shard + (s.stage << 24)}};
  const uint32_t word = philox4x32_7(counter, key).w[e % 8 / 2];
  const uint32_t own = e % 2 == 0 ? word % 65536 : word / 65536;
  const uint32_t other = e % 2 == 0 ? word / 65536 : word % 65536;
  switch (s.variate) {
    case 1:
      return 65535 - own;
    case 2:  // one bit more than u has, for -2u alone is never even
      return 65535 - (2 * own % 65536 + other / 32768);
    case 3:
      return (own + 32768) % 65536;
    default:
      return own;
  }
}

}  // namespace oracle
