#include "meeting.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace hostnccl {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 29;
}

std::shared_ptr<Doorway> OpenDoor(const Settings& settings) {
  return std::make_shared<Doorway>(Doorway::Open(settings));
}

// What a rank says about itself when a communicator is split.
struct Wish {
  int color;
  int key;
  int parent_rank;
  Address door;
};

}  // namespace

Comm::Meet MeetById(const ncclUniqueId& id, int rank, int size) {
  const MeetingPoint point = FromUniqueId(id);
  return [=](const Settings& settings) {
    const Membership self{point.magic, rank, size};
    std::shared_ptr<Doorway> door = OpenDoor(settings);
    return Comm::Meeting{true, self, door, [=](const Settings& now, const Flag& stop) {
                           return Star::Join(point, self, *door, now, stop);
                         }};
  };
}

Comm::Meet MeetBySplit(const CommPtr& parent, int color, int key) {
  // One all-gather on the parent, queued now, so that it keeps its place among the parent's calls.
  const std::shared_ptr<Doorway> door = OpenDoor(ReadSettings());
  auto wishes = std::make_shared<std::vector<Wish>>(static_cast<size_t>(parent->size()));
  const auto mine = static_cast<size_t>(parent->rank());
  (*wishes)[mine] = {color, key, parent->rank(), door->address};
  auto* all = reinterpret_cast<char*>(wishes->data());
  const Op gather{.kind = Kind::kAllGather,
                  .send = all + mine * sizeof(Wish),
                  .recv = all,
                  .count = sizeof(Wish),
                  .dtype = ncclUint8,
                  .op = {},
                  .peer = 0};
  const auto exchange = parent->Enqueue({gather}, {});
  const uint64_t magic =
      Mix(Mix(parent->magic(), parent->NextChild()), static_cast<uint64_t>(color));

  return [=](const Settings&) {
    if (const Outcome& failure = exchange->done->Wait()) throw *failure;
    if (color == NCCL_SPLIT_NOCOLOR) return Comm::Meeting{false, {}, nullptr, nullptr};
    std::vector<Wish> members;
    for (const Wish& wish : *wishes) {
      if (wish.color == color) members.push_back(wish);
    }
    std::sort(members.begin(), members.end(), [](const Wish& a, const Wish& b) {
      return std::tie(a.key, a.parent_rank) < std::tie(b.key, b.parent_rank);
    });
    const auto me = std::find_if(members.begin(), members.end(), [&](const Wish& wish) {
      return wish.parent_rank == static_cast<int>(mine);
    });
    const Membership self{magic, static_cast<int>(me - members.begin()),
                          static_cast<int>(members.size())};
    return Comm::Meeting{true, self, door,
                         [=, hub = members[0].door](const Settings& now, const Flag& stop) {
                           return Star::JoinHub(hub, self, *door, now, stop);
                         }};
  };
}

Comm::Meet MeetByShrink(const CommPtr& parent, const std::vector<int>& excluded) {
  uint64_t magic = Mix(parent->magic(), parent->NextChild());
  std::vector<int> survivors;
  for (int rank = 0; rank < parent->size(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) != excluded.end()) continue;
    survivors.push_back(rank);
    magic = Mix(magic, static_cast<uint64_t>(rank));
  }
  const auto me = std::find(survivors.begin(), survivors.end(), parent->rank());
  Require(me != survivors.end(), ncclInvalidArgument, "this rank is among the excluded ones");
  const Membership self{magic, static_cast<int>(me - survivors.begin()),
                        static_cast<int>(survivors.size())};
  const Address hub = parent->DoorOf(survivors[0]);
  return [=, reception = parent->door()](const Settings& settings) {
    return Comm::Meeting{true, self, OpenDoor(settings),
                         [=](const Settings& now, const Flag& stop) {
                           return Star::JoinHub(hub, self, *reception, now, stop);
                         }};
  };
}

}  // namespace hostnccl
