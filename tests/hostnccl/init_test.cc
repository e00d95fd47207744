// Communicators that cannot be made, or not before their parent goes: what is left of them, and
// what their ranks are told.
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "handle_table.h"
#include "meeting.h"
#include "nccl_group.h"
#include "threads_of_process.h"

namespace hostnccl {
namespace {

using terse::test::threads_of_this_process;

std::vector<CommPtr> two_ranks(Config config = {}) {
  const ncclUniqueId id = make_unique_id(read_settings());
  std::vector<CommPtr> comms;
  for (int rank = 0; rank < 2; ++rank)
    comms.push_back(Comm::start(config, meet_by_id(id, rank, 2)));
  for (const CommPtr& comm : comms) EXPECT_TRUE(comm->wait_until_ready());
  return comms;
}

CommPtr cannot_begin() { fail(ncclSystemError, "no more descriptors"); }

void wait_until_gone(const std::weak_ptr<Comm>& comm) {
  const auto limit = Clock::now() + std::chrono::seconds(10);
  while (!comm.expired() && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(comm.expired());
}

// Each id has a thread that waits for whoever calls.
TEST(Init, WaitsAtNoIdThatIsNotCalled) {
  std::array<ncclUniqueId, 1> first;
  const auto make = [](std::span<ncclUniqueId> ids) {
    for (ncclUniqueId& id : ids) ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    std::array<ncclComm_t, 3> comms{};
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(ncclCommInitRankScalable(&comms[r], 3, r, static_cast<int>(ids.size()), ids.data(),
                                         nullptr),
                ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  };
  make(first);
  const size_t threads = threads_of_this_process();
  std::array<ncclUniqueId, 3> ids;
  for (int times = 0; times < 5; ++times) make(ids);
  const auto limit = Clock::now() + std::chrono::seconds(20);
  while (threads_of_this_process() > threads && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(threads_of_this_process(), threads);
}

// The other rank's wish comes when ours is no longer of use.
TEST(Init, ASplitThatIsAbandonedWritesNothing) {
  const std::vector<CommPtr> parents = two_ranks();
  { const Comm::Meet given_up = meet_by_split(parents[0], 0, 0); }
  std::vector<std::vector<char>> memory;
  for (size_t bytes = 16; bytes <= 512; bytes += 8) {
    for (int i = 0; i < 4; ++i) memory.emplace_back(bytes, 'x');
  }
  const auto join = [](const CommPtr& parent) {
    return meet_by_split(parent, NCCL_SPLIT_NOCOLOR, 0);
  };
  const Comm::Meet first = join(parents[1]);
  // When rank 0 is through with the next one, it is with that one, too.
  const std::vector<Comm::Meet> next = {join(parents[0]), join(parents[1])};
  const Flag stop;
  for (const Comm::Meet& meet : next) EXPECT_FALSE(meet(read_settings(), stop).member);
  for (const std::vector<char>& bytes : memory)
    EXPECT_EQ(bytes, std::vector<char>(bytes.size(), 'x'));
  for (const CommPtr& parent : parents) parent->destroy();
}

constexpr int kNamed = 10, kOther = 11, kNotPossible = 12;  // exit statuses

// In mounts of its own.
int make_one_without_shared_memory() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
      mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=32k") != 0)
    return kNotPossible;
  try {
    Comm::start({}, meet_by_id(make_unique_id(read_settings()), 0, 1))->wait_until_ready();
  } catch (const Failure& failure) {
    const bool named = failure.text().find("no space in /dev/shm (") != std::string::npos;
    return named ? kNamed : kOther;
  }
  return kOther;
}

TEST(Init, NamesSharedMemoryThatIsFull) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(make_one_without_shared_memory());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotPossible) GTEST_SKIP() << "no mounts of its own";
  EXPECT_EQ(WEXITSTATUS(status), kNamed);
}

class GroupOfInits : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Blocking, GroupOfInits, ::testing::Bool());

TEST_P(GroupOfInits, LeavesNothingWhenOneCannotBegin) {
  const ncclUniqueId id = make_unique_id(read_settings());
  std::weak_ptr<Comm> begun;
  ncclComm_t out[2] = {};
  const auto begin = [&] {
    CommPtr comm = Comm::start({.blocking = GetParam()}, meet_by_id(id, 0, 2));
    begun = comm;
    return comm;
  };
  Group& group = Group::current();
  group.start();
  group.add({.start = begin, .out = &out[0], .blocking = GetParam(), .parent = nullptr});
  group.add({.start = cannot_begin, .out = &out[1], .blocking = GetParam(), .parent = nullptr});
  EXPECT_THROW(group.end(), Failure);
  EXPECT_EQ(out[0], nullptr);
  wait_until_gone(begun);
}

// The parts that have begun wait for the others, which never will.
TEST_P(GroupOfInits, LeavesTheirParentsAsTheyWere) {
  const std::vector<CommPtr> parents = two_ranks({.blocking = GetParam()});
  std::weak_ptr<Comm> begun;
  ncclComm_t out[2] = {};
  const auto begin = [&] {
    CommPtr comm = Comm::start({}, meet_by_split(parents[0], 0, 0));
    begun = comm;
    return comm;
  };
  Group& group = Group::current();
  group.start();
  group.add({.start = begin, .out = &out[0], .blocking = GetParam(), .parent = parents[0]});
  group.add({.start = cannot_begin, .out = &out[1], .blocking = GetParam(), .parent = parents[1]});
  EXPECT_THROW(group.end(), Failure);
  EXPECT_EQ(out[0], nullptr);
  wait_until_gone(begun);
  for (const CommPtr& parent : parents) EXPECT_EQ(parent->async_error(), ncclSuccess);
  for (const CommPtr& parent : parents) parent->abort();
}

// A part of all ranks, which meet as they please.
CommPtr whole_of(const CommPtr& parent) { return Comm::start({}, meet_by_shrink(parent, 1, {})); }

// Begins a part in the background, whose handle will be in `out`.
template <class Begin>
std::weak_ptr<Comm> in_background(const CommPtr& parent, ncclComm_t* out, const Begin& begin) {
  std::weak_ptr<Comm> begun;
  const auto start = [&] {
    CommPtr part = begin(parent);
    begun = part;
    return part;
  };
  Group::current().add({.start = start, .out = out, .blocking = false, .parent = parent});
  return begun;
}

// The other rank does not come.
TEST(ChildComms, EndWithAnAbortOfTheirParent) {
  const std::vector<CommPtr> parents = two_ranks({.blocking = false});
  ncclComm_t out = nullptr;
  const std::weak_ptr<Comm> begun = in_background(parents[0], &out, whole_of);
  EXPECT_EQ(parents[0]->async_error(), ncclInProgress);
  parents[0]->abort();
  wait_until_gone(begun);
  wait_until_gone(in_background(parents[0], &out, whole_of));  // nor are there others
  EXPECT_EQ(out, nullptr);
  parents[1]->abort();
}

// Whatever else the call waits for that has asked for them.
TEST(ChildComms, EndWithAnAbortOfTheirParentAlone) {
  const std::vector<CommPtr> first = two_ranks(), second = two_ranks();
  ncclComm_t out[2] = {};
  const auto add = [](const CommPtr& parent, ncclComm_t* place) {
    const auto start = [parent] { return whole_of(parent); };
    Group::current().add({.start = start, .out = place, .blocking = true, .parent = parent});
  };
  std::thread waiting([&] {
    Group::current().start();
    add(first[0], &out[0]);
    add(second[0], &out[1]);
    EXPECT_THROW(Group::current().end(), Failure);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (const CommPtr& parent : {second[0], first[0]}) {
    const auto start = Clock::now();
    parent->abort();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  }
  waiting.join();
  for (const ncclComm_t made : out) EXPECT_EQ(made, nullptr);
  for (const CommPtr& parent : {first[1], second[1]}) parent->abort();
}

TEST(ChildComms, AreMadeBeforeTheirParentIsDestroyed) {
  const std::vector<CommPtr> parents = two_ranks({.blocking = false});
  ncclComm_t out = nullptr;
  in_background(parents[0], &out, whole_of);
  std::atomic<bool> destroyed{false};
  std::thread destroying([&] {
    EXPECT_NO_THROW(parents[0]->destroy());
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(destroyed);
  const CommPtr other = whole_of(parents[1]);
  destroying.join();
  ASSERT_NE(out, nullptr);
  EXPECT_TRUE(other->wait_until_ready());
  Handles<Comm, ncclComm_t>::take(out, "comm")->destroy();
  other->destroy();
  parents[1]->destroy();
}

// A split waits for the other ranks' without end, as every call does.
TEST(ChildComms, AreAbandonedInTheEndWhenTheirParentIsDestroyed) {
  setenv("HOSTNCCL_TIMEOUT", "1", 1);
  const std::vector<CommPtr> parents = two_ranks({.blocking = false});
  unsetenv("HOSTNCCL_TIMEOUT");
  ncclComm_t out = nullptr;
  const std::weak_ptr<Comm> begun = in_background(parents[0], &out, [](const CommPtr& parent) {
    return Comm::start({}, meet_by_split(parent, 0, 0));
  });
  try {
    parents[0]->destroy();
    ADD_FAILURE() << "no failure";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ncclRemoteError);
    EXPECT_EQ(failure.text(), "rank 0: a part of the communicator was not made within 2.0 s");
  }
  wait_until_gone(begun);
  EXPECT_EQ(out, nullptr);
  parents[1]->abort();
}

// What each of two callers of one meeting is told.
void expect_told(const std::vector<CommPtr>& callers, const std::string& text,
                 const std::string& or_text) {
  for (const CommPtr& caller : callers) {
    try {
      caller->wait_until_ready();
      ADD_FAILURE() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), ncclInvalidUsage);
      EXPECT_TRUE(failure.text() == text || failure.text() == or_text) << failure.text();
    }
    caller->abort();
  }
}

TEST(Rendezvous, NamesBothProcessesOfOneRank) {
  const ncclUniqueId id = make_unique_id(read_settings());
  const char* text = "initialisation: rank 1 was given to two callers";
  expect_told({Comm::start({}, meet_by_id(id, 1, 3)), Comm::start({}, meet_by_id(id, 1, 3))}, text,
              text);
}

TEST(Rendezvous, NamesBothNumbersOfRanks) {  // in the order in which they come
  const ncclUniqueId id = make_unique_id(read_settings());
  expect_told({Comm::start({}, meet_by_id(id, 0, 2)), Comm::start({}, meet_by_id(id, 1, 3))},
              "initialisation: rank 1 says nranks is 3, others say 2",
              "initialisation: rank 0 says nranks is 2, others say 3");
}

}  // namespace
}  // namespace hostnccl
