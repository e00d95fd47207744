// Standard normal numbers in a fraction of the standard library's time: each is made of two of a
// table of them.
#pragma once

#include <array>
#include <cstdint>
#include <random>

namespace terse::test {

class Normal {
 public:
  float operator()(std::mt19937& random) const {
    static const Table table = draw();
    const auto bits = static_cast<uint32_t>(random());
    return 0.70710678f * (table[bits % kDrawn] + table[bits / kDrawn % kDrawn]);
  }

 private:
  static constexpr uint32_t kDrawn = 1 << 14;
  using Table = std::array<float, kDrawn>;

  static Table draw() {
    Table table;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& x : table) x = normal(random);
    return table;
  }
};

}  // namespace terse::test
