// Algorithms: their table, costs, and the choice for a call.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace terse::plan {

// Request of a scheme's key `algo`: a name of the table, or none.
struct Algo {
  uint8_t index = 0;  // in algo_names(); 0: auto

  auto operator<=>(const Algo&) const = default;
};

// "auto", and the names of the table, each once.
std::span<const std::string_view> algo_names();
std::optional<Algo> find_algo(std::string_view name);
inline std::string_view name(Algo algo) { return algo_names()[algo.index]; }

// Cost of a call for one rank: alpha for each step, 1/beta for each byte.
struct Cost {
  size_t steps = 0;  // one message waits for that of the step before
  Traffic sent;      // by one rank

  bool operator==(const Cost&) const = default;
};

// Decision on an algorithm, and its reason: "a large message: bytes count"; or if it does not
// apply, after its name: "for all ranks are on one node".
struct Answer {
  bool applies = false;
  std::string reason = {};
};

// Names of an algorithm for schemes: its own, and another one.
struct AlgoNames {
  std::string_view own, also = "";
};

struct Algorithm {
  Collective collective;
  AlgoNames names;
  Plan (*build)(const Shape& shape);
  // `wish`: auto, or one of its names. Decides by what all ranks know alike, not by the shape's
  // rank.
  Answer (*applies)(const Shape& shape, Algo wish);
  Cost (*cost)(const Shape& shape);
  Sharing sharing = Sharing::kNone;  // of the packings it is for, alone
  bool groups = false;               // of nodes, by radices_of() (grid.h)

  bool answers_to(Algo wish) const;
};

// Algorithms by collective: the first one that applies is taken; the last one for a call always
// applies.
std::span<const Algorithm> algorithms();

// Returns true if there is an algorithm for so shared packings.
bool has_algorithm(Collective collective, Sharing sharing);

// Returns true if the algorithm is for such calls, so that applies() may be asked.
bool is_for(const Algorithm& algorithm, Collective collective, const Shape& shape);

struct Selection {
  const Algorithm* algorithm;
  std::string reason;
};

// Selects an algorithm. A name that the collective lacks stands for auto. If the wished algorithm
// does not apply, the reason says why.
Selection select(Collective collective, const Shape& shape, Algo wish,
                 std::span<const Algorithm> table = algorithms());

}  // namespace terse::plan
