// Pipelined rings and chains.
//
// Data travels in slices from rank to rank; while one slice is reduced, the next ones are on the
// link. The order of the slices keeps the working set small: a group of kWindow slices of every
// chunk goes all the way round before the next group starts, and since a rank's first message of a
// group needs nothing from anybody, the link never idles between groups.
//
// Memory: a rank receives at most kWindow slices ahead, and what it has reduced but not yet sent is
// at most two windows more. Among all pending messages of the ring the earliest in order can always
// be received, as the rank after it holds at most two windows of later ones: kSlots never run out
// for good.
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "host_collectives.h"

namespace hostnccl {
namespace {

constexpr size_t kMinSliceBytes = size_t{64} << 10;
constexpr size_t kMaxSliceBytes = size_t{256} << 10;
constexpr size_t kWindow = 8;
constexpr size_t kSlots = 3 * kWindow + 1;

// One step of one slice on this rank. Without `receives` it starts from `own`; with `combines` what
// arrived is reduced with `own`; the outcome stays in `keep`, if given, which may be `own`, and is
// sent on if `sends`.
struct Item {
  const char* own = nullptr;
  char* keep = nullptr;
  size_t count = 0;
  bool receives = false;
  bool combines = false;
  bool sends = false;
};

class Pipeline {
 public:
  enum Shape { kRing, kChain };
  Pipeline(Shape shape, Channel& channel, size_t element, const Reduction* reduction,
           size_t max_count)
      : channel_(channel),
        is_chain_(shape == kChain),
        from_((channel.rank() + channel.size() - 1) % channel.size()),
        to_((channel.rank() + 1) % channel.size()),
        element_(element),
        reduction_(reduction) {
    if (reduction == nullptr) return;
    const size_t bytes = max_count * element;
    spare_ = channel.scratch((kSlots + 1) * bytes);
    for (size_t i = 1; i <= kSlots; ++i) slots_.push_back(spare_ + i * bytes);
  }

  template <class ItemAt>
  void run(size_t items, ItemAt item_at) {
    channel_.wait_until([&] {
      bool moved = retire();
      while (posted_ < items && arrivals_.size() < kWindow && post(item_at(posted_))) {
        ++posted_;
        moved = true;
      }
      if (!arrivals_.empty() && may_send() && handle()) {  // one at a time: reducing takes long
        ++handled_;
        moved = true;
      }
      if (handled_ == items && departures_.empty()) return Step::kDone;
      return moved ? Step::kMoved : Step::kIdle;
    });
  }

 private:
  struct Arrival {
    Item item;
    Request request;
    char* data = nullptr;  // where it arrives; a slot unless it is item.keep
  };
  struct Departure {
    Request request;
    char* slot = nullptr;
  };

  char* take_slot() {
    if (slots_.empty()) return nullptr;
    char* slot = slots_.back();
    slots_.pop_back();
    return slot;
  }
  void give_slot(char* slot) {
    if (slot != nullptr) slots_.push_back(slot);
  }

  bool retire() {
    bool moved = false;
    for (; !departures_.empty() && departures_.front().request.test(); moved = true) {
      give_slot(departures_.front().slot);
      departures_.pop_front();
    }
    return moved;
  }

  // A ring holds itself back: nobody gets far ahead of who it waits for. The head of a chain waits
  // for nobody, so there a send counts until the next rank has taken it.
  bool may_send() const { return !is_chain_ || departures_.size() < 2 * kWindow; }

  // Makes room for an item and asks for its message. False: no room yet.
  bool post(const Item& item) {
    Arrival arrival{item, {}, item.keep};
    const bool prepares = reduction_ != nullptr && reduction_->prepares();
    if (item.combines || (!item.receives && prepares)) {
      arrival.data = take_slot();
      if (arrival.data == nullptr) return false;
    }
    if (item.receives) {
      const size_t bytes = item.count * element_;
      arrival.request = channel_.receive(from_, arrival.data, bytes, bytes);
    }
    arrivals_.push_back(std::move(arrival));
    return true;
  }

  // Does the work of the earliest item, if its message is here.
  bool handle() {
    Arrival& arrival = arrivals_.front();
    if (!arrival.request.test()) return false;
    const Item& item = arrival.item;
    char* slot = arrival.data != item.keep ? arrival.data : nullptr;
    const char* result = arrival.data;
    if (item.combines) {
      result = combine(item, arrival.data);
    } else if (!item.receives) {
      result = slot != nullptr ? prepare(item, slot) : item.own;
    }
    if (result == item.keep) give_slot(std::exchange(slot, nullptr));
    if (item.sends) {
      const size_t bytes = item.count * element_;
      departures_.push_back({channel_.send(to_, result, bytes, bytes, is_chain_), slot});
    } else {
      give_slot(slot);
    }
    if (!item.receives && item.keep != nullptr) copy(item.keep, item.own, item.count * element_);
    arrivals_.pop_front();
    return true;
  }

  const char* prepare(const Item& item, char* slot) {
    reduction_->prepare(slot, item.own, item.count);
    return slot;
  }

  const char* combine(const Item& item, char* arrived) {
    const char* own = reduction_->prepares() ? prepare(item, spare_) : item.own;
    char* result = item.keep != nullptr ? item.keep : arrived;
    reduction_->combine(result, arrived, own, item.count);
    if (item.keep != nullptr) reduction_->finish(result, item.count);
    return result;
  }

  Channel& channel_;
  const bool is_chain_;
  const int from_;
  const int to_;
  const size_t element_;
  const Reduction* reduction_;
  std::vector<char*> slots_;  // free ones
  char* spare_ = nullptr;     // for the input as prepared
  std::deque<Arrival> arrivals_;
  std::deque<Departure> departures_;
  size_t posted_ = 0;
  size_t handled_ = 0;
};

// A range of elements cut into equal parts; the first ones take what is left over.
struct Cut {
  size_t count;
  size_t parts;
  size_t begin(size_t i) const { return count / parts * i + std::min(i, count % parts); }
  size_t size(size_t i) const { return begin(i + 1) - begin(i); }
};

// How many slices make a chunk of that many elements.
size_t slices_of(size_t count, size_t element) {
  const size_t bytes = count * element;
  const size_t slice = std::clamp(bytes / kWindow, kMinSliceBytes, kMaxSliceBytes);
  return std::max<size_t>(1, (bytes + slice - 1) / slice);
}

// The order of the items: groups of kWindow slices, in each all steps, in each all its slices.
struct Schedule {
  size_t slices;
  size_t steps;
  struct Place {
    size_t slice;
    int step;
  };
  size_t size() const { return slices * steps; }
  Place at(size_t i) const {
    const size_t group = i / (kWindow * steps), first = group * kWindow;
    const size_t width = std::min(kWindow, slices - first), rest = i % (kWindow * steps);
    return {first + rest % width, static_cast<int>(rest / width)};
  }
};

// A ring around all ranks.
struct Ring {
  explicit Ring(const Channel& channel) : rank(channel.rank()), size(channel.size()) {}
  int previous() const { return (rank + size - 1) % size; }
  int next() const { return (rank + 1) % size; }
  size_t chunk_before(int distance) const {  // the chunk of the rank that far behind us
    return static_cast<size_t>(((rank - distance) % size + size) % size);
  }
  int rank;
  int size;
};

}  // namespace

// Step 0 sends our part of the previous rank's chunk; each of the next size - 1 steps adds our part
// to what comes, the last of them to our own chunk, which then goes round in size - 1 steps more.
void ring_all_reduce(const Op& op, Channel& channel) {
  const Ring ring(channel);
  const Reduction reduction(op.op, op.dtype, ring.size);
  const size_t element = op.element();
  const Cut chunks{op.count, static_cast<size_t>(ring.size)};
  const size_t slices = slices_of(chunks.size(0), element);
  const Schedule schedule{slices, static_cast<size_t>(2 * ring.size - 1)};
  const int owned = ring.size - 1, last = 2 * ring.size - 2;

  Pipeline pipeline(Pipeline::kRing, channel, element, &reduction,
                    Cut{chunks.size(0), slices}.size(0));
  pipeline.run(schedule.size(), [&](size_t i) {
    const auto [slice, step] = schedule.at(i);
    const size_t chunk = ring.chunk_before(step + 1);
    const Cut cut{chunks.size(chunk), slices};
    const size_t at = (chunks.begin(chunk) + cut.begin(slice)) * element;
    return Item{.own = op.send + at,
                .keep = step >= owned ? op.recv + at : nullptr,
                .count = cut.size(slice),
                .receives = step > 0,
                .combines = step > 0 && step <= owned,
                .sends = step < last};
  });
}

void ring_reduce_scatter(const Op& op, Channel& channel) {
  const Ring ring(channel);
  const Reduction reduction(op.op, op.dtype, ring.size);
  const size_t element = op.element();
  const Cut cut{op.count, slices_of(op.count, element)};
  const Schedule schedule{cut.parts, static_cast<size_t>(ring.size)};
  const int last = ring.size - 1;

  Pipeline pipeline(Pipeline::kRing, channel, element, &reduction, cut.size(0));
  pipeline.run(schedule.size(), [&](size_t i) {
    const auto [slice, step] = schedule.at(i);
    const size_t at = cut.begin(slice) * element;
    return Item{.own = op.send + ring.chunk_before(step + 1) * op.bytes() + at,
                .keep = step == last ? op.recv + at : nullptr,
                .count = cut.size(slice),
                .receives = step > 0,
                .combines = step > 0,
                .sends = step < last};
  });
}

void ring_all_gather(const Op& op, Channel& channel) {
  const Ring ring(channel);
  const size_t element = op.element();
  const Cut cut{op.count, slices_of(op.count, element)};
  const Schedule schedule{cut.parts, static_cast<size_t>(ring.size)};
  const int last = ring.size - 1;

  Pipeline pipeline(Pipeline::kRing, channel, element, nullptr, cut.size(0));
  pipeline.run(schedule.size(), [&](size_t i) {
    const auto [slice, step] = schedule.at(i);
    const size_t at = cut.begin(slice) * element;
    return Item{.own = op.send + at,
                .keep = op.recv + ring.chunk_before(step) * op.bytes() + at,
                .count = cut.size(slice),
                .receives = step > 0,
                .combines = false,
                .sends = step < last};
  });
}

// root -> root + 1 -> ... -> root - 1
void chain_broadcast(const Op& op, Channel& channel) {
  const Ring ring(channel);
  const size_t element = op.element();
  const Cut cut{op.count, slices_of(op.count, element)};
  const bool is_root = ring.rank == op.peer;

  Pipeline pipeline(Pipeline::kChain, channel, element, nullptr, cut.size(0));
  pipeline.run(cut.parts, [&](size_t i) {
    const size_t at = cut.begin(i) * element;
    return Item{.own = is_root ? op.send + at : nullptr,
                .keep = op.recv + at,
                .count = cut.size(i),
                .receives = !is_root,
                .combines = false,
                .sends = ring.next() != op.peer};
  });
}

// root + 1 -> root + 2 -> ... -> root
void chain_reduce(const Op& op, Channel& channel) {
  const Ring ring(channel);
  const Reduction reduction(op.op, op.dtype, ring.size);
  const size_t element = op.element();
  const Cut cut{op.count, slices_of(op.count, element)};
  const bool is_root = ring.rank == op.peer, is_first = ring.previous() == op.peer;

  Pipeline pipeline(Pipeline::kChain, channel, element, &reduction, cut.size(0));
  pipeline.run(cut.parts, [&](size_t i) {
    const size_t at = cut.begin(i) * element;
    return Item{.own = op.send + at,
                .keep = is_root ? op.recv + at : nullptr,
                .count = cut.size(i),
                .receives = !is_first,
                .combines = !is_first,
                .sends = !is_root};
  });
}

}  // namespace hostnccl
