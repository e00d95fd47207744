// Communicators that cannot be made, for a reason of this rank alone: what is left of them.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "group.h"
#include "meeting.h"

namespace hostnccl {
namespace {

std::vector<CommPtr> two_ranks() {
  const ncclUniqueId id = make_unique_id(read_settings());
  std::vector<CommPtr> comms;
  for (int rank = 0; rank < 2; ++rank) comms.push_back(Comm::start({}, meet_by_id(id, rank, 2)));
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

// The other rank's wish comes when ours is no longer of use.
TEST(Making, ASplitThatIsGivenUpWritesToNobodysMemory) {
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

class GroupOfInits : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Blocking, GroupOfInits, ::testing::Bool());

TEST_P(GroupOfInits, LeavesNothingWhenOneCannotBegin) {
  const ncclUniqueId id = make_unique_id(read_settings());
  std::weak_ptr<Comm> begun;
  ncclComm_t out[2] = {};
  const auto begin = [&] {
    CommPtr comm = Comm::start({.blocking = GetParam(), .name = {}}, meet_by_id(id, 0, 2));
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
  const std::vector<CommPtr> parents = two_ranks();
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

}  // namespace
}  // namespace hostnccl
