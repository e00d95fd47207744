// The memory that all ranks of a communicator have told each other that they have, and how often
// they ask again where one of them has not (peers/prepare.h).
#pragma once

#include <cstddef>

namespace terse {

// How much memory calls need of every rank.
struct Amounts {
  size_t scratch = 0;
  size_t exact = 0;  // for a native result beside the compressed one
};

class Reservations {
 public:
  // Whether all ranks have that much; and from now on they have.
  bool cover(const Amounts& amounts) const;
  void add(const Amounts& amounts);

  // Bytes of scratch that all ranks have.
  size_t scratch() const { return prepared_.scratch; }

  // Whether calls that need more do without, and the ranks do not ask each other again yet. To be
  // asked once for all such calls of a group.
  bool skips();
  // The ranks have asked each other: all of them have it; or one has not, and then the next calls
  // do without, ever more of them. Whether that is news.
  void granted() { refusals_ = 0; }
  bool refused();

 private:
  Amounts prepared_;
  unsigned refusals_ = 0, skips_ = 0;
};

}  // namespace terse
