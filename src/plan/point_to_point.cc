// Messages between two ranks: encode, send, decode. What is not packed is sent from the caller's
// buffer to the caller's buffer.
//
// Why this cannot deadlock where NCCL's own Send and Recv would not. The messages of an NCCL group
// are all under way at once, and none waits for another; programs rely on it: one rank may group
// its sends and receives while another one calls them one by one. So a batch has one communicate
// step that holds all of them. Were a batch cut into several, in which chunk i of every message is
// in step i, then a rank's message to one peer would wait for its message to another peer, and
// three ranks could wait for each other in a circle: A sends to B and C in a group of several
// steps, B waits for all that A sends before it sends to C, and C for that before it receives from
// A.
//
// Messages of one direction between this rank and one peer follow each other anyway. Alone they are
// a pipeline of chunks, each in a step of its own, in a few chunks' scratch: a step waits for that
// peer and no one else, as the message would. The peer may have the same messages in a batch with
// others: the cut of a message depends on nothing but itself, and between two ranks NCCL matches
// what is sent and received in order, over all groups.
//
// So it is on hosts. On GPUs a message stays whole. NCCL's kernels begin a second message between
// two ranks when all that they began with the first one have arrived (enqueue.cc,
// addWorkBatchToPlan): a peer that has a message's chunks in a batch with what it sends would wait,
// before the second chunk, for a receive that comes after the last.
#include <algorithm>

#include "plan/builder.h"

namespace terse::plan {
namespace {

// Part of a message sent or received at a time.
struct Item {
  uint32_t message;
  Range range;
  size_t bytes;
};

class Messages : Assembly {
 public:
  explicit Messages(const Batch& batch) : Assembly("Send/Recv"), batch_(batch) {
    for (uint32_t m = 0; m < batch.messages.size(); ++m) cut(m);
    const Message& first = batch.messages.front();
    one_way_ = std::ranges::all_of(batch.messages, [&](const Message& m) {
      return m.peer == first.peer && m.send == first.send;
    });
  }

  Plan build() {
    const size_t at_once = one_way_ ? 1 : items_.size();
    const size_t steps = items_.size() / at_once;
    const size_t slots = std::min(steps, Chunks::kMaxSlots);
    const size_t slot_bytes = slot();
    std::vector<size_t> done(steps, kNone);
    for (size_t i = 0; i < steps; ++i) {
      const size_t free = i < slots ? kNone : done[i - slots];
      Step encode{.name = "encode", .lane = Lane::kEncode, .after = {free}};
      Step exchange{.name = "exchange", .lane = Lane::kCommunicate, .after = {free}};
      Step decode{.name = "decode", .lane = Lane::kDecode};
      Place place{Region::kScratch, i % slots * slot_bytes};
      for (size_t k = i * at_once; k < (i + 1) * at_once; ++k) {
        pass(items_[k], place, encode, exchange, decode);
        place.offset += scratch_of(items_[k]);
      }
      exchange.after.push_back(add(std::move(encode)));
      const size_t exchanged = add(std::move(exchange));
      decode.after = {exchanged};
      const size_t decoded = add(std::move(decode));
      done[i] = decoded == kNone ? exchanged : decoded;
    }
    plan_.scratch_bytes = slots * slot_bytes;
    describe();
    return finish();
  }

 private:
  void cut(uint32_t index) {
    const Message& m = batch_.messages[index];
    const size_t raw = m.count * m.element_bytes;
    if (!m.packed) return items_.push_back({index, {0, m.count}, raw});
    const ChunkPolicy& chunk_policy = batch_.chunk_policy;
    const size_t least = raw / chunk_policy.max_chunks + (raw % chunk_policy.max_chunks != 0);
    const Shape shape{.count = m.count,
                      .element_bytes = m.element_bytes,
                      .chunk_policy = exact_chunks(std::max(chunk_policy.chunk_bytes, least)),
                      .packing = m.packing};
    const Chunks chunks(shape, m.count, 1, m.count, 1);
    for (size_t c = 0; c < chunks.count(); ++c) {
      const Range r = chunks.range(0, c);
      items_.push_back({index, r, m.packing.bytes(r.count)});
    }
  }

  size_t scratch_of(const Item& item) const {
    const bool packed = batch_.messages[item.message].packed;
    return packed ? Chunks::round_up(item.bytes, Chunks::kAlignment) : 0;
  }

  // Bytes of a step's slot.
  size_t slot() const {
    size_t largest = 0, all = 0;
    for (const Item& item : items_) {
      largest = std::max(largest, scratch_of(item));
      all += scratch_of(item);
    }
    return one_way_ ? largest : all;
  }

  void pass(const Item& item, const Place& place, Step& encode, Step& exchange,
            Step& decode) const {
    const Message& m = batch_.messages[item.message];
    const Place raw{m.send ? Region::kSend : Region::kRecv, item.range.first * m.element_bytes};
    exchange.transfers.push_back(
        {m.peer, m.send, m.packed ? place : raw, item.bytes, item.message, !m.packed});
    if (!m.packed) return;
    if (m.send)
      encode.compute.push_back({.inputs = {{raw, Format::kRaw}},
                                .target = place,
                                .count = item.range.count,
                                .origin = item.range.first,
                                .shard = item.message,
                                .message = item.message});
    else
      decode.compute.push_back({.inputs = {{place}},
                                .target = raw,
                                .target_format = Format::kRaw,
                                .count = item.range.count,
                                .message = item.message});
  }

  void describe() {
    for (const Message& m : batch_.messages) {
      const size_t raw = m.count * m.element_bytes;
      plan_.buffers.push_back({m.send ? raw : 0, m.send ? 0 : raw});
      if (m.packed)
        plan_.raw_bytes += raw_bytes(m.send ? Collective::kSend : Collective::kRecv, raw,
                                     {batch_.ranks, batch_.rank, m.peer});
    }
  }

  const Batch& batch_;
  bool one_way_ = false;     // all messages go one way, with one peer
  std::vector<Item> items_;  // in the order of matching
};

Plan alone(const Shape& s, bool send) {
  return point_to_point({.ranks = s.ranks,
                         .rank = s.rank,
                         .chunk_policy = s.chunk_policy,
                         .messages = {{.send = send,
                                       .peer = s.root,
                                       .count = s.count,
                                       .element_bytes = s.element_bytes,
                                       .packing = s.packing}}});
}

}  // namespace

Plan point_to_point(const Batch& batch) { return Messages(batch).build(); }

Plan send(const Shape& shape) { return alone(shape, true); }

Plan receive(const Shape& shape) { return alone(shape, false); }

}  // namespace terse::plan
