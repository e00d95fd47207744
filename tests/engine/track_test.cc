// The queues on which a call's steps run, over a backend that only counts them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/comm/stream_set.h"
#include "idle.h"

namespace terse::test {
namespace {

class CountingBackend : public IdleBackend {
 public:
  explicit CountingBackend(size_t queues) : queues_(queues) {}

  size_t communicate_queues() const override { return queues_; }
  Stream create_stream(Stream like) override {
    const Stream made = IdleBackend::create_stream(like);
    ++left[made];
    return made;
  }
  void destroy_stream(Stream stream) noexcept override { --left[stream]; }

  std::map<Stream, int> left;  // 1 as long as there is the stream

 private:
  const size_t queues_;
};

TEST(StreamSet, HasAsManyQueuesForWhatIsSentAsTheBackendGainsBy) {
  constexpr auto kFirst = static_cast<size_t>(plan::Lane::kCommunicate);
  for (size_t queues : {1, 2, 3}) {
    CountingBackend backend(queues);
    {
      const StreamSet track(backend, nullptr);
      const auto& lanes = track.lanes();
      const std::set<Stream> sending(lanes.begin() + kFirst, lanes.end());
      EXPECT_EQ(sending.size(), std::min(queues, plan::kCommunicateLanes));
      EXPECT_EQ(backend.left.size(), kFirst + sending.size());
      EXPECT_EQ(std::set<Stream>(lanes.begin(), lanes.end()).size(), backend.left.size());
    }
    for (const auto& [stream, count] : backend.left) EXPECT_EQ(count, 0) << stream;
  }
}

}  // namespace
}  // namespace terse::test
