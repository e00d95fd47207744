// The algorithms: which there are, what each costs, and which one does a call.
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

// What a scheme's key `algo` asks for: a name of the table, or none.
struct Algo {
  uint8_t index = 0;  // among algo_names(); 0: auto

  auto operator<=>(const Algo&) const = default;
};

// "auto", and the names of the table, each once.
std::span<const std::string_view> algo_names();
std::optional<Algo> find_algo(std::string_view name);
inline std::string_view name(Algo algo) { return algo_names()[algo.index]; }

// What a call costs one rank: alpha for each step, 1/beta for each byte.
struct Cost {
  size_t steps = 0;  // one message waits for that of the step before
  Traffic sent;      // by the rank

  bool operator==(const Cost&) const = default;
};

// Whether an algorithm does a call, and why: "a large message: bytes count"; or why not, after its
// name: "for all ranks are on one node".
struct Answer {
  bool applies = false;
  std::string reason = {};
};

// What a scheme may call an algorithm: by its own name, or by another one that it has, too.
struct AlgoNames {
  std::string_view own, also = "";
};

struct Algorithm {
  Collective collective;
  AlgoNames names;
  Plan (*build)(const Shape& shape);
  // `wish`: auto, or one of its names. By what all ranks know alike: not by the shape's rank.
  Answer (*applies)(const Shape& shape, Algo wish);
  Cost (*cost)(const Shape& shape);
  Sharing sharing = Sharing::kNone;  // of packings of this kind, and of no others

  bool answers_to(Algo wish) const;
};

// By collective; an earlier one is taken where it applies, the last one that is for a call always
// does.
std::span<const Algorithm> algorithms();

// Whether there is an algorithm for what is packed so.
bool has_algorithm(Collective collective, Sharing sharing);

// Whether one is for a call, so that it may be asked whether it applies.
bool is_for(const Algorithm& algorithm, Collective collective, const Shape& shape);

struct Selection {
  const Algorithm* algorithm;
  std::string reason;
};

// A name that the collective does not have stands for auto. Where the algorithm that is asked for
// does not apply, the reason says why.
Selection select(Collective collective, const Shape& shape, Algo wish,
                 std::span<const Algorithm> table = algorithms());

}  // namespace terse::plan
