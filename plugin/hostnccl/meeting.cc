#include "meeting.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace hostnccl {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 29;
}

std::shared_ptr<Listener> open_listener(const Settings& settings) {
  return std::make_shared<Listener>(Listener::open(settings));
}

// Wish of a rank when a communicator is split.
struct Wish {
  int color;
  int key;
  int parent_rank;
  Address listener;
};

// Meeting of the ranks whose wishes have this rank's color. `split`: identifies this split among
// all.
Comm::Meeting meeting_of(const std::vector<Wish>& wishes, const Wish& mine, uint64_t split,
                         const std::shared_ptr<Listener>& listener) {
  if (mine.color == NCCL_SPLIT_NOCOLOR) return {false, {}, nullptr, nullptr};
  std::vector<Wish> members;
  for (const Wish& wish : wishes) {
    if (wish.color == mine.color) members.push_back(wish);
  }
  std::sort(members.begin(), members.end(), [](const Wish& a, const Wish& b) {
    return std::tie(a.key, a.parent_rank) < std::tie(b.key, b.parent_rank);
  });
  const auto me = std::find_if(members.begin(), members.end(), [&](const Wish& wish) {
    return wish.parent_rank == mine.parent_rank;
  });
  const Membership self{mix(split, static_cast<uint64_t>(mine.color)),
                        static_cast<int>(me - members.begin()), static_cast<int>(members.size())};
  return {true, self, listener,
          [=, hub = members[0].listener](const Settings& now, const Flag& stop) {
            return Star::join_hub(hub, self, *listener, now, stop);
          }};
}

std::vector<Wish> wishes_in(const std::vector<std::string>& texts) {
  std::vector<Wish> wishes(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    require(texts[rank].size() == sizeof(Wish), ncclInternalError, "malformed wish of a rank");
    std::memcpy(&wishes[rank], texts[rank].data(), sizeof(Wish));
  }
  return wishes;
}

}  // namespace

Comm::Meet meet_by_id(const ncclUniqueId& id, int rank, int size) {
  const MeetingPoint point = from_unique_id(id);
  return [=](const Settings& settings, const Flag&) {
    const Membership self{point.magic, rank, size};
    std::shared_ptr<Listener> listener = open_listener(settings);
    return Comm::Meeting{true, self, listener, [=](const Settings& now, const Flag& stop) {
                           return Star::join(point, self, *listener, now, stop);
                         }};
  };
}

Comm::Meet meet_by_split(const CommPtr& parent, int color, int key) {
  // Queues one all-gather on the parent now, so that it keeps its place among the parent's calls.
  const std::shared_ptr<Listener> listener = open_listener(read_settings());
  const auto exchanged = std::make_shared<Flag>();
  auto wishes = std::make_shared<std::vector<Wish>>(static_cast<size_t>(parent->size()));
  const Wish mine{color, key, parent->rank(), listener->address};
  const auto own_place = static_cast<size_t>(parent->rank());
  (*wishes)[own_place] = mine;
  auto* all = reinterpret_cast<char*>(wishes->data());
  const Op gather{.kind = Kind::kAllGather,
                  .send = all + own_place * sizeof(Wish),
                  .recv = all,
                  .count = sizeof(Wish),
                  .dtype = ncclUint8,
                  .op = {},
                  .peer = 0};
  const auto exchange = parent->enqueue({gather}, {});
  const uint64_t number = parent->next_split();  // as these calls pair: what was refused has none
  // The wishes stay until then, whatever becomes of the new communicator.
  exchange->done->then([exchanged, wishes](const Outcome&) { exchanged->raise(); });
  const uint64_t split = mix(parent->magic(), number);

  return [=](const Settings&, const Flag& stop) {
    await(exchanged->fd(), POLLIN, {Clock::time_point::max(), &stop});
    if (const Outcome& failure = exchange->done->wait()) throw *failure;
    return meeting_of(*wishes, mine, split, listener);
  };
}

Comm::Meet meet_by_late_split(const CommPtr& parent, int color, int key) {
  const std::shared_ptr<Listener> listener = open_listener(read_settings());
  const Wish mine{color, key, parent->rank(), listener->address};
  const uint64_t split = mix(parent->magic(), ~parent->next_late_split());
  const Membership caller{split, parent->rank(), parent->size()};
  return [=, hub = parent->listener_address(0), parent_listener = parent->listener()](
             const Settings& settings, const Flag& stop) {
    Star star = Star::join_hub(hub, caller, *parent_listener, settings, stop);
    const std::string words(reinterpret_cast<const char*>(&mine), sizeof(mine));
    const Limit limit{Clock::now() + patience_of(caller, settings), &stop};
    return meeting_of(wishes_in(star.all_gather(words, limit)), mine, split, listener);
  };
}

Comm::Meet meet_by_shrink(const CommPtr& parent, uint64_t number,
                          const std::vector<int>& excluded) {
  uint64_t magic = mix(~parent->magic(), number);
  std::vector<int> survivors;
  for (int rank = 0; rank < parent->size(); ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) != excluded.end()) continue;
    survivors.push_back(rank);
    magic = mix(magic, static_cast<uint64_t>(rank));
  }
  const auto me = std::find(survivors.begin(), survivors.end(), parent->rank());
  require(me != survivors.end(), ncclInvalidArgument, "this rank is among the excluded ones");
  const Membership self{magic, static_cast<int>(me - survivors.begin()),
                        static_cast<int>(survivors.size())};
  const Address hub = parent->listener_address(survivors[0]);
  return [=, parent_listener = parent->listener()](const Settings& settings, const Flag&) {
    return Comm::Meeting{true, self, open_listener(settings),
                         [=](const Settings& now, const Flag& stop) {
                           return Star::join_hub(hub, self, *parent_listener, now, stop);
                         }};
  };
}

}  // namespace hostnccl
