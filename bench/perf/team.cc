#include "team.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>

namespace terse::perf {
namespace {

// Several blobs as one: each with its length before it.
std::string pack(const std::vector<std::string>& blobs) {
  std::string packed;
  for (const std::string& blob : blobs) {
    const std::uint64_t bytes = blob.size();
    packed.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    packed.append(blob);
  }
  return packed;
}

void unpack(const std::string& packed, std::vector<std::string>* blobs) {
  for (std::size_t at = 0; at < packed.size();) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, packed.data() + at, sizeof(bytes));
    blobs->push_back(packed.substr(at + sizeof(bytes), bytes));
    at += sizeof(bytes) + bytes;
  }
}

}  // namespace

Team::Team(Rendezvous& rendezvous, int threads, double timeout)
    : rendezvous_(rendezvous),
      threads_(threads),
      timeout_(timeout),
      barrier_(threads),
      given_(static_cast<std::size_t>(threads)) {}

void Team::exchange() {
  all_.clear();
  try {
    for (const std::string& packed : rendezvous_.all_gather(pack(given_), timeout_)) {
      unpack(packed, &all_);
    }
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
}

std::vector<std::string> Team::gather(int thread, const std::string& blob) {
  given_[static_cast<std::size_t>(thread)] = blob;
  barrier_.arrive_and_wait();
  if (thread == 0) exchange();
  barrier_.arrive_and_wait();
  if (!failure_.empty()) throw std::runtime_error(failure_);
  std::vector<std::string> result = all_;
  barrier_.arrive_and_wait();  // before the next call overwrites all_
  return result;
}

double Team::combine(int thread, double value, Average average) {
  const std::vector<double> values = gather_values(thread, value);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  switch (average) {
    case Average::kRank0:
      return values.front();
    case Average::kMean:
      return sum / static_cast<double>(values.size());
    case Average::kMin:
      return *std::min_element(values.begin(), values.end());
    case Average::kMax:
      return *std::max_element(values.begin(), values.end());
    case Average::kSum:
      return sum;
  }
  return sum;
}

}  // namespace terse::perf
