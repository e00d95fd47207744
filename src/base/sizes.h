// How many things there were of what size, in bounded memory: they are counted by powers of two.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace terse {

struct Sizes {
  struct Class {
    uint64_t count = 0, bytes = 0;
    bool operator==(const Class&) const = default;
  };

  // Class k holds the sizes from 2^k to 2^(k+1) - 1 B; the first also that of nothing.
  std::array<Class, 64> classes{};

  static size_t class_of(uint64_t bytes) { return bytes == 0 ? 0 : std::bit_width(bytes) - 1; }

  void add(uint64_t bytes) {
    Class& its = classes[class_of(bytes)];
    ++its.count;
    its.bytes += bytes;
  }
  void add(const Sizes& other) {
    for (size_t k = 0; k < classes.size(); ++k) {
      classes[k].count += other.classes[k].count;
      classes[k].bytes += other.classes[k].bytes;
    }
  }

  bool operator==(const Sizes&) const = default;
};

}  // namespace terse
