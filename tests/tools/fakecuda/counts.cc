#include "counts.h"

namespace terse::fake {
namespace {

thread_local std::map<std::string, size_t, std::less<>> t_calls;
thread_local std::set<cudaStream_t> t_streams;
thread_local const std::shared_ptr<TrafficCount> t_traffic = std::make_shared<TrafficCount>();

}  // namespace

void count_call(const char* function) {
  if (const auto known = t_calls.find(function); known != t_calls.end())
    ++known->second;
  else
    t_calls.emplace(function, 1);
}

std::map<std::string, size_t> calls() { return {t_calls.begin(), t_calls.end()}; }

void count_stream(cudaStream_t stream) { t_streams.insert(stream); }

std::set<cudaStream_t> streams() { return t_streams; }

void forget_streams() { t_streams.clear(); }

const std::shared_ptr<TrafficCount>& traffic_count() { return t_traffic; }

Traffic traffic() { return t_traffic->get(); }

}  // namespace terse::fake
