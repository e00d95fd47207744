// How numbers of zero and more are distributed, in little memory for however many: they are counted
// in narrow classes on a logarithmic scale. Two distributions add up to that of all their numbers.
#pragma once

#include <cstdint>
#include <map>

namespace terse {

struct Distribution {
  static constexpr int kClassesPerOctave = 32;  // so a class is 2.2 % wide
  static constexpr int kLastClass = 64 * kClassesPerOctave - 1;

  uint64_t zeros = 0, infinite = 0;
  // Counts of all other numbers, by class. Class c is from 2^(c/32) to 2^((c+1)/32); the first,
  // -2048, and the last, 2047, also hold what is beyond.
  std::map<int, uint64_t> classes;
  double least = 0, largest = 0;  // of those; 0: there are none

  void add(double x);
  void add(const Distribution& other);

  uint64_t count() const;
  // The number below or at which that many percent of all are; half a class off at most, and exact
  // where it is the greatest. 0 where there are none.
  double percentile(unsigned percent) const;
  double median() const { return percentile(50); }
  double greatest() const { return percentile(100); }

  bool operator==(const Distribution&) const = default;
};

}  // namespace terse
