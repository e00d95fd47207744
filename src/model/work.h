// Work of a plan's steps, by which their time is predicted or simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/profile.h"
#include "plan/plan.h"

namespace terse::model {

// Elements that a step packs, and unpacks.
struct Coding {
  size_t packed = 0, unpacked = 0;

  Coding& operator+=(const Coding& other);
  double seconds(const Rates& rates) const;
};
Coding coding_of(const plan::Step& step);

// Launches that a step takes: one, and on a GPU as many more as its computes need.
size_t launches_of(const Profile& profile, const plan::Step& step);

// Rates of a codec, by its name in the profile.
const Rates& rates_of(const Profile& profile, std::string_view codec);

// Message to or from a peer.
struct WorkMessage {
  uint32_t peer;
  bool send;
  size_t bytes;
};

// Step of a rank, without its memory. It starts when those in `after` are done.
struct WorkStep {
  std::vector<uint32_t> after = {};  // earlier steps of the rank
  double launch = 0;                 // seconds, at its beginning
  double coding = 0;                 // seconds of the rank's processor, after that
  std::vector<WorkMessage> messages = {};
  // Seconds of NCCL's collectives, from when all ranks are there; empty: it has none.
  std::optional<double> meeting = {};
};

// Steps of a rank. Messages between two ranks match in the order of their steps.
using RankWork = std::vector<WorkStep>;

// Work of a plan for the shape: steps of a lane follow each other, and NCCL's own collectives take
// as long as is predicted.
RankWork work_of_plan(const Profile& profile, const plan::Plan& plan, const plan::Shape& shape,
                      std::string_view codec);

}  // namespace terse::model
