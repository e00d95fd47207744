// Report of calls that differ between ranks (codec/call_header.h).
#pragma once

#include <atomic>
#include <string>

#include "backend/backend.h"
#include "codec/codec.h"
#include "plan/collective.h"

namespace terse {

// Sender of a header that NCCL has reduced from those of all ranks.
constexpr uint32_t kNoSender = ~uint32_t{0};

// Kind of a call in a header, in one word.
struct CallClass {
  enum class Reduces : uint8_t { kNot, kSum, kAverage, kPreMulSum };

  plan::Collective collective;
  codec::Dtype dtype;
  Reduces reduces;
};
uint32_t pack(const CallClass& of);
CallClass unpack_class(uint32_t word);

// Example: "this rank is at AllReduce of 100 float32, sum, rank 1 at AllReduce of 99 float32, sum".
std::string describe(const codec::Mismatch& mismatch);

class MismatchReport {
 public:
  explicit MismatchReport(Backend& backend) : backend_(backend) {}
  ~MismatchReport();
  MismatchReport(const MismatchReport&) = delete;
  MismatchReport& operator=(const MismatchReport&) = delete;

  // Memory that calls report to, made at the first call. For the thread that makes the calls.
  codec::Mismatch* reserve();

  // Returns null if no call has reported a mismatch. May be called from any thread.
  const codec::Mismatch* found() const noexcept {
    const codec::Mismatch* const report = report_.load(std::memory_order_acquire);
    return report != nullptr && codec::is_found(*report) ? report : nullptr;
  }

 private:
  Backend& backend_;
  std::atomic<codec::Mismatch*> report_{nullptr};
};

}  // namespace terse
