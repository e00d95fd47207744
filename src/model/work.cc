#include "model/work.h"

#include <array>

#include "model/launches.h"
#include "model/predict.h"
#include "plan/native_traffic.h"

namespace terse::model {
namespace {

// Seconds of a step's native collectives, without their launch.
double seconds_of(const Profile& profile, const std::vector<plan::Native>& natives,
                  plan::Shape shape) {
  const size_t of_call = shape.element_bytes;
  double seconds = 0;
  for (const plan::Native& n : natives) {
    shape.element_bytes = plan::element_bytes(n.element, of_call);
    shape.count = n.count;
    shape.root = n.root;
    seconds += native_seconds(profile, n.collective, shape) - profile.launch;
  }
  return seconds;
}

}  // namespace

Coding& Coding::operator+=(const Coding& other) {
  packed += other.packed;
  unpacked += other.unpacked;
  return *this;
}

double Coding::seconds(const Rates& rates) const {
  return static_cast<double>(packed) / rates.encode + static_cast<double>(unpacked) / rates.decode;
}

Coding coding_of(const plan::Step& step) {
  Coding coding;
  for (const plan::Compute& c : step.compute) {
    if (c.part == plan::Part::kParams) continue;  // as the codes' rate has it
    if (c.target_format != plan::Format::kRaw) coding.packed += c.count;
    for (const plan::Input& input : c.inputs)
      if (input.format != plan::Format::kRaw) coding.unpacked += c.count;
  }
  return coding;
}

size_t launches_of(const Profile& profile, const plan::Step& step) {
  return profile.gpu && !step.compute.empty() ? launches(step.compute) : 1;
}

const Rates& rates_of(const Profile& profile, std::string_view codec) {
  const auto named = profile.codecs.find(codec);
  return named == profile.codecs.end() ? profile.coding : named->second;
}

RankWork work_of_plan(const Profile& profile, const plan::Plan& plan, const plan::Shape& shape,
                      std::string_view codec) {
  const Rates& rates = rates_of(profile, codec);
  RankWork work;
  work.reserve(plan.steps.size());
  std::array<uint32_t, plan::kLanes> reached{};  // by lane: its last step, counted from 1
  for (const plan::Step& step : plan.steps) {
    WorkStep& own = work.emplace_back();
    own.after.assign(step.after.begin(), step.after.end());
    uint32_t& before = reached[step.queue()];
    if (before != 0) own.after.push_back(before - 1);
    before = static_cast<uint32_t>(work.size());
    own.launch = static_cast<double>(launches_of(profile, step)) * profile.launch +
                 static_cast<double>(step.transfers.size()) * profile.message;
    if (!step.compute.empty()) own.coding = coding_of(step).seconds(rates);
    if (!step.natives.empty()) own.meeting = seconds_of(profile, step.natives, shape);
    own.messages.reserve(step.transfers.size());
    for (const plan::Transfer& t : step.transfers)
      own.messages.push_back({static_cast<uint32_t>(t.peer), t.send, t.bytes});
  }
  return work;
}

}  // namespace terse::model
