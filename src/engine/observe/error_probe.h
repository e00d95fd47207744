// Error of a scheme on samples of what a program sends, encoded and decoded on a copy by this rank
// alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "engine/observe/sample.h"

namespace terse {

// Elements that a rank sends.
struct SentElements {
  const void* data;
  size_t count;
  codec::Dtype dtype;
};

class ErrorProbe {
 public:
  explicit ErrorProbe(Backend& backend) : backend_(backend) {}
  ~ErrorProbe();
  ErrorProbe(const ErrorProbe&) = delete;
  ErrorProbe& operator=(const ErrorProbe&) = delete;

  // Enqueues the encoding, the decoding and the comparison of some elements in whole blocks, at a
  // place that goes by the call's number. Does nothing if the last probe is still under way.
  void enqueue(Stream stream, const codec::Spec& spec, const SentElements& sent, uint64_t number,
               Sample& sample);

 private:
  Backend& backend_;
  void* memory_ = nullptr;  // packed elements, and behind them decoded ones
  std::vector<codec::Source> sources_;
  std::vector<codec::Combine> encode_, decode_;
  std::atomic<bool> busy_{false};
};

}  // namespace terse
