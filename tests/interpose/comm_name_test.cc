// Rules that go by the names of communicators, under TERSE_SCHEME="name=grad* -> int4".
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "named.h"

namespace terse::test {
namespace {

TEST(CommName, ChoosesTheCommunicatorThatIsCompressed) {
  for (const bool blocking : {true, false})
    for (const char* name : {"gradients", "weights", static_cast<const char*>(nullptr)})
      on_threads(2, [&](int rank, const ncclUniqueId& id) {
        const ncclComm_t comm = made_with(named(name, blocking), rank, 2, id);
        const std::string text = name != nullptr ? name : "";
        expect_compressed(text == "gradients", comm, text);
        ncclCommDestroy(comm);
      });
}

ncclComm_t taken(Place place) { return *place; }

// Split off all ranks but the last, which is in no part.
Place split(ncclComm_t parent, int rank, int ranks, ncclConfig_t config) {
  Place place = std::make_unique<ncclComm_t>();
  const int color = rank == ranks - 1 ? NCCL_SPLIT_NOCOLOR : 0;
  EXPECT_EQ(ncclCommSplit(parent, color, rank, place.get(), &config), ncclSuccess);
  return place;
}

TEST(CommName, OfAChildIsItsOwn) {
  const int ranks = 3;
  for (const bool blocking : {true, false})
    for (const char* of_all : {"gradients", "weights"})
      for (const std::string name : {"grad-part", "part"})
        on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
          const ncclComm_t all = made_with(named(of_all, blocking), rank, ranks, id);
          Place place = split(all, rank, ranks, named(name.c_str(), blocking));
          ASSERT_EQ(settled(ncclInProgress, all), ncclSuccess);
          const ncclComm_t part = taken(std::move(place));
          EXPECT_EQ(part == nullptr, rank == ranks - 1);
          if (part != nullptr) {
            ASSERT_EQ(settled(ncclInProgress, part), ncclSuccess);
            expect_compressed(name == "grad-part", part, name);
            ncclCommDestroy(part);
          }
          expect_compressed(of_all == std::string("gradients"), all, of_all);
          ncclCommDestroy(all);
        });
}

// As in NCCL, it is there when the call returns.
TEST(CommName, OfANonBlockingChildOfABlockingParent) {
  const int ranks = 3;
  for (const char* name : {"grad-part", "part"})
    on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t all = made_with(named("all", true), rank, ranks, id);
      Place place = split(all, rank, ranks, named(name, false));
      if (const ncclComm_t part = taken(std::move(place))) {
        ncclResult_t state = ncclInProgress;
        ASSERT_EQ(ncclCommGetAsyncError(part, &state), ncclSuccess);
        EXPECT_EQ(state, ncclSuccess);
        expect_compressed(name == std::string("grad-part"), part, name);
        ncclCommDestroy(part);
      }
      ncclCommDestroy(all);
    });
}

// As PyTorch does, which believes NCCL's ncclSuccess.
TEST(CommName, OfAChildWhoseParentIsNotPolled) {
  const int ranks = 3;
  for (const std::string name : {"grad-part", "part"})
    on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t all = made_with(named("all", false), rank, ranks, id);
      Place place = split(all, rank, ranks, named(name.c_str(), false));
      if (rank < ranks - 1) {
        const ncclComm_t part = seen(*place);
        ASSERT_EQ(settled(ncclInProgress, part), ncclSuccess);
        expect_compressed(name == "grad-part", part, name);
        ncclCommDestroy(part);
        place.reset();
      }
      EXPECT_EQ(settled(ncclInProgress, all), ncclSuccess);
      ncclCommDestroy(all);
    });
}

TEST(CommName, OfChildrenMadeInAGroup) {
  const int ranks = 3;
  for (const bool blocking : {true, false})
    on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t all = made_with(named("all", blocking), rank, ranks, id);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      Place one = split(all, rank, ranks, named("grad-1", blocking));
      Place two = split(all, rank, ranks, named("other", blocking));
      ASSERT_EQ(settled(ncclGroupEnd(), all), ncclSuccess) << ncclGetLastError(all);
      const ncclComm_t first = taken(std::move(one)), second = taken(std::move(two));
      if (first != nullptr) {
        expect_compressed(true, first, "grad-1");
        expect_compressed(false, second, "other");
        ncclCommDestroy(first);
        ncclCommDestroy(second);
      }
      ncclCommDestroy(all);
    });
}

TEST(CommName, OfAShrunkChild) {
  const int ranks = 3;
  for (const bool blocking : {true, false})
    on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t all = made_with(named("all", blocking), rank, ranks, id);
      Place place = std::make_unique<ncclComm_t>();
      ncclConfig_t config = named("grad-rest", blocking);
      int excluded = 1;
      if (rank != excluded) {
        ASSERT_EQ(ncclCommShrink(all, &excluded, 1, place.get(), &config, NCCL_SHRINK_DEFAULT),
                  ncclSuccess);
        ASSERT_EQ(settled(ncclInProgress, all), ncclSuccess);
        const ncclComm_t rest = taken(std::move(place));
        expect_compressed(true, rest, "grad-rest");
        ncclCommDestroy(rest);
      }
      ncclCommDestroy(all);
    });
}

TEST(CommName, IsInheritedWithoutAConfiguration) {
  const int ranks = 2;
  for (const bool blocking : {true, false})
    for (const char* name : {"gradients", "weights"})
      on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
        const ncclComm_t all = made_with(named(name, blocking), rank, ranks, id);
        Place place = std::make_unique<ncclComm_t>();
        ASSERT_EQ(ncclCommSplit(all, 0, rank, place.get(), nullptr), ncclSuccess);
        ASSERT_EQ(settled(ncclInProgress, all), ncclSuccess);
        const ncclComm_t part = taken(std::move(place));
        ASSERT_EQ(settled(ncclInProgress, part), ncclSuccess);
        expect_compressed(name == std::string("gradients"), part, name);
        for (const ncclComm_t comm : {part, all}) ncclCommDestroy(comm);
      });
}

// Without a configuration of its own a part does as the whole, and so do its parts.
TEST(CommName, OfGrandchildren) {
  const int ranks = 4;
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t all = made_with(named("all", false), rank, ranks, id);
    Place place = std::make_unique<ncclComm_t>();
    ASSERT_EQ(ncclCommSplit(all, rank / 2, rank, place.get(), nullptr), ncclSuccess);
    ASSERT_EQ(settled(ncclInProgress, all), ncclSuccess);
    const ncclComm_t half = taken(std::move(place));
    ASSERT_EQ(settled(ncclInProgress, half), ncclSuccess);
    Place again = std::make_unique<ncclComm_t>();
    ncclConfig_t config = named("grad", false);
    ASSERT_EQ(ncclCommSplit(half, 0, rank, again.get(), &config), ncclSuccess);
    ASSERT_EQ(settled(ncclInProgress, half), ncclSuccess);
    const ncclComm_t part = taken(std::move(again));
    expect_compressed(true, part, "grad");
    for (const ncclComm_t comm : {part, half, all}) ncclCommDestroy(comm);
  });
}

// As an NCCL has it where a group has the mode of what is split (fake/grouping_nccl.cc).
TEST(GroupedParts, OneThatDoesNotBlockHasPartsThatDoNot) {
  const int ranks = 2;
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t all = made_with(named("all", true), rank, ranks, id);
    ncclComm_t part = nullptr, its_part = nullptr;
    ncclConfig_t config = named("grad", false);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclCommSplit(all, 0, rank, &part, &config), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(all);
    ASSERT_NE(part, nullptr);
    ASSERT_EQ(ncclCommSplit(part, 0, rank, &its_part, nullptr), ncclSuccess);
    ASSERT_EQ(settled(ncclInProgress, part), ncclSuccess);
    ASSERT_NE(its_part, nullptr);
    ASSERT_EQ(settled(ncclInProgress, its_part), ncclSuccess);
    expect_compressed(true, its_part, "grad");
    for (const ncclComm_t comm : {its_part, part, all}) ncclCommDestroy(comm);
  });
}

// NCCL's default, also where the whole does not block. So the ranks compare its own parts before
// the program has them.
TEST(CommName, OfAChildThatDoesNotSayWhetherItBlocks) {
  const int ranks = 2;
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t all = made_with(named("all", false), rank, ranks, id);
    ncclConfig_t open = NCCL_CONFIG_INITIALIZER;
    open.commName = "grad";
    Place place = std::make_unique<ncclComm_t>();
    ASSERT_EQ(ncclCommSplit(all, 0, rank, place.get(), &open), ncclSuccess);
    ASSERT_EQ(settled(ncclInProgress, all), ncclSuccess);
    const ncclComm_t part = taken(std::move(place));
    expect_compressed(true, part, "grad");
    open.commName = rank == 0 ? "grad-one" : "grad-other";
    ncclComm_t its_part = part;
    EXPECT_EQ(ncclCommSplit(part, 0, rank, &its_part, &open), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("\"grad-other\""), std::string::npos)
        << ncclGetLastError(nullptr);
    EXPECT_EQ(its_part, nullptr);
    for (const ncclComm_t comm : {part, all}) ncclCommDestroy(comm);
  });
}

// As a watchdog does. Whoever is told first, nobody is told before the name is known.
TEST(CommName, IsKnownWhereAnotherThreadPolls) {
  for (int attempt = 0; attempt < 5; ++attempt)
    on_threads(2, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t all = made_with(named("all", false), rank, 2, id);
      std::atomic<bool> over{false};
      std::thread watchdog([&] {
        ncclResult_t state;
        while (!over) ncclCommGetAsyncError(all, &state);
      });
      Place place = std::make_unique<ncclComm_t>();
      ncclConfig_t config = named("grad", false);
      ASSERT_EQ(ncclCommSplit(all, 0, rank, place.get(), &config), ncclSuccess);
      ASSERT_EQ(settled(ncclInProgress, all), ncclSuccess);
      const ncclComm_t part = taken(std::move(place));
      expect_compressed(true, part, "grad");
      over = true;
      watchdog.join();
      ncclCommDestroy(part);
      ncclCommDestroy(all);
    });
}

}  // namespace
}  // namespace terse::test
