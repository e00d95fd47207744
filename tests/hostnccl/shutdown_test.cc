// Leaving: what a rank knows of the others then, and they of it, whatever comes first or not at
// all.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <functional>
#include <thread>

#include "comm.h"
#include "logged.h"
#include "meeting.h"

namespace hostnccl {
namespace {

using std::chrono::milliseconds;

// The other one of two ranks, by hand: it is there, beats, and takes what comes, and nothing else.
class ByHand {
 public:
  explicit ByHand(int rank) : rank_(rank), transport_(rank, "lo") {}

  void join(const ncclUniqueId& id, const Settings& settings) {
    const Limit limit{Clock::now() + settings.timeout, &stop_};
    const MeetingPoint point = from_unique_id(id);
    Listener listener = Listener::open(settings);
    Star star = Star::join(point, {point.magic, rank_, 2}, listener, settings, stop_);
    const std::string at(reinterpret_cast<const char*>(&listener.address), sizeof(Address));
    star.all_gather(at, limit);
    const std::string made = transport_.connect(star.all_gather(transport_.address(), limit));
    const std::vector<std::string> connections = star.all_gather(made, limit);
    while (transport_.admit(connections) >= 0) std::this_thread::yield();
    star.all_gather({}, limit);
    liveness_.emplace(rank_, 2, star.take_links(), settings.timeout);
  }

  void serve_until(const std::function<bool()>& enough) {
    while (!enough()) {
      transport_.progress();
      liveness_->service();
    }
  }

  Transport& transport() { return transport_; }
  Liveness& liveness() { return *liveness_; }

 private:
  const int rank_;
  const Flag stop_;
  Transport transport_;
  std::optional<Liveness> liveness_;
};

class ShutdownHandshakeTest : public Logged {
 protected:
  // Starts the two and has the communicator's rank send something, so that they are connected.
  CommPtr connect(ByHand& other, int rank, const char* timeout) {
    setenv("HOSTNCCL_TIMEOUT", timeout, 1);
    const Settings settings = read_settings();
    const ncclUniqueId id = make_unique_id(settings);
    std::thread joining([&] { other.join(id, settings); });
    const CommPtr comm = Comm::start({}, meet_by_id(id, rank, 2));
    EXPECT_TRUE(comm->wait_until_ready());
    joining.join();
    const auto launch = comm->enqueue({{.kind = Kind::kSend,
                                        .send = &word_,
                                        .recv = nullptr,
                                        .count = 1,
                                        .dtype = ncclInt8,
                                        .op = {},
                                        .peer = 1 - rank}},
                                      {});
    other.serve_until([&] { return launch->done->finished(); });
    EXPECT_FALSE(launch->done->wait().has_value());
    return comm;
  }

 private:
  const char word_ = 1;
};

// It beats, and so is not given up; but what was sent to it may never arrive.
TEST_F(ShutdownHandshakeTest, FailsWhereAPeerNeverConfirms) {
  ByHand other(1);
  const CommPtr comm = connect(other, 0, "2");
  std::atomic<bool> left{false};
  Outcome outcome;
  std::thread leaving([&] {
    try {
      comm->destroy();
    } catch (const Failure& failure) {
      outcome = failure;
    }
    left = true;
  });
  other.serve_until([&] { return left.load(); });
  leaving.join();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code(), ncclRemoteError);
  EXPECT_EQ(outcome->text(),
            "rank 0: rank 1 has not confirmed within 4.0 s that it has all that was sent to it");
  other.liveness().say_goodbye(0);
}

// The connection for data ends before the goodbye comes, which takes another way.
TEST_F(ShutdownHandshakeTest, AcceptsAConnectionThatEndsBeforeTheGoodbye) {
  for (const int rank : {0, 1}) {
    ByHand other(1 - rank);
    const CommPtr comm = connect(other, rank, "30");
    other.transport().close();
    const std::string lost = fmt::format("[{}] NCCL INFO ucx: rank {}: ", rank, 1 - rank);
    while (!log_says(lost)) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(50));
    other.liveness().say_goodbye(0);
    EXPECT_NO_THROW(comm->destroy());
    EXPECT_FALSE(log_says("was lost"));
  }
}

// ... or the goodbye does not come.
TEST_F(ShutdownHandshakeTest, FailsWhereAConnectionEndsWithoutAGoodbye) {
  ByHand other(1);
  const CommPtr comm = connect(other, 0, "30");
  other.transport().close();
  while (comm->async_error() == ncclSuccess) {
    other.liveness().service();
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(comm->async_error(), ncclRemoteError);
  comm->abort();
  EXPECT_TRUE(log_says("the connection to rank 1 was lost"));
}

}  // namespace
}  // namespace hostnccl
