// Memory that all ranks of a communicator have agreed that they have, and the pause before they ask
// again if one of them has not (peers/prepare.h).
#pragma once

#include <cstddef>

namespace terse {

// Memory that calls need on every rank, in bytes.
struct Amounts {
  size_t scratch = 0;
  size_t exact = 0;  // for a native result beside the compressed one
};

class Reservations {
 public:
  // Returns true if all ranks have that much. record(): now they have.
  bool cover(const Amounts& amounts) const;
  void add(const Amounts& amounts);

  // Bytes of scratch that all ranks have.
  size_t scratch() const { return prepared_.scratch; }

  // Returns true if calls that need more stay native for now, without asking. Called once for all
  // such calls of a group.
  bool skips();
  // Results of asking: granted() on all ranks; or refused by one, after which ever more calls stay
  // native. refused() returns true if that is new.
  void granted() { refusals_ = 0; }
  bool refused();

 private:
  Amounts prepared_;
  unsigned refusals_ = 0, skips_ = 0;
};

}  // namespace terse
