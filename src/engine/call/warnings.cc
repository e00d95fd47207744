#include "engine/call/warnings.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <string>

#include "base/log.h"
#include "base/text.h"
#include "engine/comm/directory.h"

namespace terse {
namespace {

// Calls of a communicator after which a gather of a new size is none of the training's.
constexpr uint64_t kCallsOfTraining = 100;

// Returns true once, for a warning.
bool take(std::atomic<bool>& warned) {
  return !warned.load(std::memory_order_relaxed) && !warned.exchange(true);
}

void warn_of_exact_shards(const Job& job) {
  static std::atomic<bool> warned{false};
  if (!job.compressed().delta.own_exact || !take(warned)) return;
  job.communicator->log(
      LogLevel::kWarn,
      "results differ between ranks: by own=exact each rank of an AllGather keeps "
      "its own shard exact, and has the others' rounded");
}

void warn_of_late_gather(const Job& job) {
  static std::atomic<bool> warned{false};
  Communicator& c = *job.communicator;
  if (job.request.datatype != ncclFloat32) return;
  const uint64_t calls = c.metrics().counters().collectives();
  const bool is_new = c.metrics().is_new_gather(job.request.count);
  if (!is_new || calls < kCallsOfTraining || !take(warned)) return;
  c.log(
      LogLevel::kWarn,
      "an AllGather of {} in fp32 comes for the first time after {} and is rounded. If it is of a "
      "checkpoint or of metrics: pause for it (terse.paused, tersePreloadPause), or begin the "
      "rules with \"allgather dtype=fp32 -> off\"",
      counted(job.request.count, "element"), counted(calls, "call"));
}

// Returns true for names as frameworks give them: "tp", "mesh_tp", "TENSOR_MODEL_PARALLEL_GROUP".
bool is_tensor_parallel(std::string_view name) {
  std::string words;
  for (const char c : name)
    words += std::isalnum(static_cast<unsigned char>(c)) != 0
                 ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                 : ' ';
  words = " " + words + " ";
  return words.find(" tp ") != words.npos || words.find(" tensor ") != words.npos;
}

void warn_beside_tensor_parallelism(const Job& job) {
  static std::atomic<bool> warned{false};
  Communicator& c = *job.communicator;
  if (warned.load(std::memory_order_relaxed) || c.routing().plans().has_exclusions()) return;
  if (!c.metrics().is_first_reduction() || is_tensor_parallel(c.name())) return;
  const std::string other = find_name(is_tensor_parallel);
  if (other.empty() || !take(warned)) return;
  c.log(LogLevel::kWarn,
        "gradients are compressed beside tensor parallelism (communicator {}): what its ranks hold "
        "alike, norms and biases, may come apart. terse.models.exclude_norms(model) keeps it exact "
        "and alike",
        '"' + printable(shortened(other)) + '"');
}

}  // namespace

void warn_of_dangers(const Job& job) noexcept {
  if (job.is_native() || job.communicator->rank != 0) return;
  try {
    if (job.request.collective == plan::Collective::kAllGather) {
      warn_of_exact_shards(job);
      warn_of_late_gather(job);
    }
    if (plan::traits(job.request.collective).reduces) warn_beside_tensor_parallelism(job);
  } catch (const std::exception&) {
    // A warning less.
  }
}

}  // namespace terse
