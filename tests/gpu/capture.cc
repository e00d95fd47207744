// terseAllReduce captured in a CUDA graph, one process for each rank:
//
//   tests/tools/gpu/ranks.py --ranks 2 gpu_capture
//
// The graph is run again and again with new inputs, also among calls outside of it: the values must
// be right each time, and the same on all ranks; what is drawn at random must differ from run to
// run and be right in the mean. The last line of rank 0 is a JSON object; there is one before the
// last test, too, which may end the process.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device_buffer.h"
#include "graph.h"
#include "json.h"
#include "ranks.h"
#include "reference.h"
#include "verify.h"

namespace terse::gpu {
namespace {

using test::Bytes;

constexpr size_t kCount = 300'007;
constexpr int kReplays = 64;

// One buffer in, one out, and what their contents mean.
class Exchange {
 public:
  explicit Exchange(const Rank& rank) : rank_(rank), in_(kCount * 4), out_(kCount * 4) {}

  // Every rank's numbers, of which this one's go to the GPU.
  void put(unsigned seed) {
    sum_.assign(kCount, 0.0);
    for (int r = 0; r < rank_.ranks(); ++r) {
      const Bytes numbers = test::gaussian(kCount, ncclFloat32, 100 * seed + r);
      const auto values = test::values(numbers, ncclFloat32);
      for (size_t i = 0; i < kCount; ++i) sum_[i] += values[i];
      if (r == rank_.rank()) in_.put(numbers.data(), numbers.size());
    }
    out_.fill(0x5A);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void call(const SchemeHandle& scheme) const {
    Rank::check_terse(terseAllReduce(in_.data(), out_.data(), kCount, ncclFloat32, ncclSum,
                                     scheme.get(), rank_.comm(), rank_.stream()),
                      "terseAllReduce");
  }

  std::vector<double> get() {
    check(cudaStreamSynchronize(rank_.stream()), "cudaStreamSynchronize");
    bytes_.resize(out_.size());
    out_.get(bytes_.data(), bytes_.size());
    return test::values(bytes_, ncclFloat32);
  }
  std::string checksum() const {
    return std::to_string(perf::checksum(bytes_.data(), bytes_.size()));
  }

  double error(const std::vector<double>& result) const {
    return test::relative_error(result, sum_);
  }

 private:
  const Rank& rank_;
  DeviceBuffer in_, out_;
  Bytes bytes_;
  std::vector<double> sum_;
};

class Suite {
 public:
  explicit Suite(const Rank& rank) : rank_(rank), exchange_(rank) {}

  // New inputs for each run, the ordinary call among them.
  void values(const char* text, double bound, cudaStreamCaptureMode mode, const char* mode_name) {
    const std::string what = fmt::format("{} captured in {} mode", text, mode_name);
    const SchemeHandle scheme(text);
    exchange_.put(1);
    exchange_.call(scheme);  // the scheme's first use compares it across the ranks
    expect(exchange_.error(exchange_.get()) < bound, what + ": the call before");
    const auto graph = record(mode, what, [&] { exchange_.call(scheme); });
    for (unsigned run = 2; graph != nullptr && run < 10; ++run) {
      exchange_.put(run);
      if (run % 4 == 0)
        exchange_.call(scheme);
      else
        graph->launch();
      const double error = exchange_.error(exchange_.get());
      expect(error < bound, fmt::format("{}: run {}: relative error {}", what, run, error));
      expect(rank_.agree(exchange_.checksum()), fmt::format("{}: run {}: ranks differ", what, run));
    }
  }

  // The same inputs for all runs.
  void draws(const char* text) {
    const SchemeHandle scheme(text);
    exchange_.put(50);
    exchange_.call(scheme);
    exchange_.get();
    const auto graph =
        record(cudaStreamCaptureModeThreadLocal, text, [&] { exchange_.call(scheme); });
    if (graph == nullptr) return;
    std::vector<double> mean(kCount, 0.0);
    std::vector<std::string> seen;
    double single = 0;
    for (int run = 0; run < kReplays; ++run) {
      graph->launch();
      const std::vector<double> result = exchange_.get();
      for (size_t i = 0; i < kCount; ++i) mean[i] += result[i] / kReplays;
      single += exchange_.error(result) / kReplays;
      for (const std::string& other : seen)
        if (other == exchange_.checksum()) {
          expect(false, fmt::format("{}: run {} gave an earlier one's bytes", text, run));
          break;
        }
      seen.push_back(exchange_.checksum());
      expect(rank_.agree(seen.back()), fmt::format("{}: run {}: ranks differ", text, run));
    }
    // Independent errors of mean zero: that of the mean is smaller by the root of their number.
    const double ratio = exchange_.error(mean) / single * std::sqrt(static_cast<double>(kReplays));
    expect(ratio > 0.9 && ratio < 1.1,
           fmt::format("{}: the mean's error is {} of what independent draws give", text, ratio));
    ratio_ = std::isfinite(ratio) ? ratio : 0;
  }

  // Two calls in one graph, which goes in the end,
  // and with it what it held.
  void two_calls() {
    const SchemeHandle scheme("int8");
    exchange_.put(70);
    exchange_.call(scheme);
    exchange_.get();
    for (int round = 0; round < 3; ++round) {
      const auto graph = record(cudaStreamCaptureModeThreadLocal, "two calls", [&] {
        exchange_.call(scheme);
        exchange_.call(scheme);
      });
      for (unsigned run = 0; graph != nullptr && run < 3; ++run) {
        exchange_.put(71 + run);
        graph->launch();
        const double error = exchange_.error(exchange_.get());
        expect(error < 0.02, fmt::format("two calls: relative error {}", error));
      }
    }
    terseStats_t stats = {};
    stats.size = sizeof stats;
    Rank::check_terse(terseCommGetStats(rank_.comm(), &stats), "terseCommGetStats");
    scratch_ = stats.scratch_bytes;
  }

  // In the strictest mode threads of NCCL's own may break a capture: whether it works is reported
  // and not judged.
  void try_global_mode() {
    global_mode_ = kDidNotEnd;
    report();
    const int before = std::exchange(failures_, 0);
    values("int4:algo=twoshot", 0.4, cudaStreamCaptureModeGlobal, "global");
    global_mode_ = "works";
    for (const std::string& complaint : rank_.gather(failures_ == 0 ? "" : complaint_))
      if (!complaint.empty()) global_mode_ = "fails: " + complaint;
    failures_ = before;
  }

  // Whether all is well, on all ranks.
  bool report() const {
    const int failures = rank_.total(failures_);
    if (rank_.rank() == 0)
      fmt::print(
          "{{\"ranks\": {}, \"checks\": {}, \"failures\": {}, \"mean_error_ratio\": {:.4f}, "
          "\"scratch_bytes\": {}, \"global_mode\": {}}}\n",
          rank_.ranks(), checks_, failures, ratio_, scratch_, perf::quote_json(global_mode_));
    return failures == 0;
  }

 private:
  static constexpr const char* kDidNotEnd = "did not end";

  void expect(bool condition, const std::string& what) {
    ++checks_;
    if (condition) return;
    complaint_ = what;
    if (++failures_ <= 10) fmt::print(stderr, "rank {}: {}\n", rank_.rank(), what);
  }

  // What `enqueue` enqueues, as a graph; on all ranks none where one rank cannot have it.
  std::unique_ptr<Graph> record(cudaStreamCaptureMode mode, const std::string& what,
                                const std::function<void()>& enqueue) {
    std::unique_ptr<Graph> graph;
    try {
      graph = std::make_unique<Graph>(rank_.stream(), mode, enqueue);
    } catch (const std::exception& error) {
      expect(false, what + ": " + error.what());
    }
    if (rank_.total(graph == nullptr ? 1 : 0) > 0) graph.reset();
    return graph;
  }

  const Rank& rank_;
  Exchange exchange_;
  int checks_ = 0, failures_ = 0;
  std::string complaint_, global_mode_ = "not tried";
  double ratio_ = 0;
  size_t scratch_ = 0;
};

int body(int argc, char** argv) {
  if (devices() == 0) {
    fmt::print("not run: there is no GPU here\n");
    return 77;
  }
  const Rank rank(argc, argv);
  if (!rank.on_gpu()) throw std::runtime_error("no NCCL for GPUs was found");
  Suite suite(rank);
  suite.values("int8", 0.02, cudaStreamCaptureModeThreadLocal, "thread-local");
  suite.values("minmax8:block=1024,round=shift", 0.05, cudaStreamCaptureModeRelaxed, "relaxed");
  suite.draws("int4:round=stochastic");
  suite.draws("int4:round=stochastic,algo=twoshot");
  suite.two_calls();
  suite.try_global_mode();
  return suite.report() ? 0 : 1;
}

}  // namespace
}  // namespace terse::gpu

int main(int argc, char** argv) {
  return terse::gpu::run_rank("gpu_capture", &terse::gpu::body, argc, argv);
}
