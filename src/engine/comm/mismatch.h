// What a communicator's calls and the host tell each other while the calls run: of calls that
// differ between ranks (codec/call_header.h), and of the end of all waits.
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
    const Visible* const own = visible_.load(std::memory_order_acquire);
    return own != nullptr && codec::is_found(own->mismatch) ? &own->mismatch : nullptr;
  }

  // Word that calls look at while they wait for peers; not 0: none of them goes on, for good. For
  // the thread that makes the calls, after reserve().
  const uint32_t* end_of_waits() {
    Visible& own = *visible_.load(std::memory_order_relaxed);
    waits_ = true;
    if (ended_) end_waits();
    return &own.end_of_waits;
  }
  // Ends the waits of all calls. Returns true if there may be any. May be called from any thread.
  bool end_waits() const noexcept;
  // Lets later calls wait again, if there were none.
  void take_back_end() const noexcept;

 private:
  // Memory that queues write and read.
  struct Visible {
    codec::Mismatch mismatch;
    uint32_t end_of_waits;
  };

  void set_end(uint32_t value) const noexcept;

  Backend& backend_;
  std::atomic<Visible*> visible_{nullptr};
  std::atomic<bool> waits_{false};  // a call looks at the word
  mutable std::atomic<bool> ended_{false};
};

}  // namespace terse
