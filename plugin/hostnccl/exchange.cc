// Direct algorithms: every message goes straight to where it is needed, all at once.
#include <algorithm>
#include <vector>

#include "collectives.h"

namespace hostnccl {
namespace {

// Sums up, in the order of the ranks, `count` elements of each: mine from `own`, rank r's from
// `parts + r * bytes`. The same order everywhere makes the same bytes everywhere.
void CombineInOrder(const Reduction& reduction, const Channel& channel, char* dst, const char* own,
                    char* parts, size_t count, size_t bytes) {
  const auto part = [&](int rank) -> char* { return parts + static_cast<size_t>(rank) * bytes; };
  // In place, dst is own: a copy in my place among the parts keeps it from being overwritten.
  Copy(part(channel.rank()), own, bytes);
  reduction.Combine(dst, part(0), part(1), count);
  for (int rank = 2; rank < channel.size(); ++rank) {
    reduction.Combine(dst, dst, part(rank), count);
  }
  reduction.Finish(dst, count);
}

// The input as it enters the sum: itself, or prepared in `room`.
const char* Prepared(const Reduction& reduction, const char* input, char* room, size_t count) {
  if (!reduction.prepares()) return input;
  reduction.Prepare(room, input, count);
  return room;
}

// All messages to one peer, or from one, in order. Large ones travel in pieces, of which a few are
// under way at a time; a send counts as under way until the peer has asked for it, so that a peer
// that is late is not flooded.
class Flow {
 public:
  enum Direction { kIn, kOut };
  Flow(int peer, Direction direction) : peer_(peer), direction_(direction) {}
  Flow(Flow&&) = default;
  int peer() const { return peer_; }
  Direction direction() const { return direction_; }

  void Add(char* data, size_t bytes) {
    messages_.push_back({data, bytes});
    total_ += bytes;
  }

  // Ends what has ended and starts what may start.
  Step Advance(Channel& channel) {
    Step step = Step::kIdle;
    while (oldest_ < pieces_.size() && pieces_[oldest_].request.Test()) {
      bytes_under_way_ -= pieces_[oldest_++].bytes;
      step = Step::kMoved;
    }
    while (next_ < messages_.size() && bytes_under_way_ < kWindowBytes) {
      Start(channel);
      step = Step::kMoved;
    }
    return oldest_ == pieces_.size() && next_ == messages_.size() ? Step::kDone : step;
  }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr size_t kWindowBytes = 4 * kPieceBytes;
  struct Message {
    char* data;
    size_t bytes;
  };
  struct Piece {
    Request request;
    size_t bytes;
  };

  void Start(Channel& channel) {
    const Message& message = messages_[next_];
    const size_t bytes = std::min(kPieceBytes, message.bytes - offset_);
    char* data = bytes > 0 ? message.data + offset_ : nullptr;
    // The whole size is part of what both sides must agree on.
    pieces_.push_back({direction_ == kIn
                           ? channel.Receive(peer_, data, bytes, message.bytes)
                           : channel.Send(peer_, data, bytes, message.bytes, total_ > kWindowBytes),
                       bytes});
    bytes_under_way_ += bytes;
    offset_ += bytes;
    if (offset_ == message.bytes) {
      ++next_;
      offset_ = 0;
    }
  }

  int peer_;
  Direction direction_;
  std::vector<Message> messages_;
  std::vector<Piece> pieces_;  // started so far
  size_t total_ = 0;
  size_t bytes_under_way_ = 0;
  size_t oldest_ = 0;  // the piece under way longest
  size_t next_ = 0;    // the message in work
  size_t offset_ = 0;  // how much of it has been started
};

}  // namespace

void Exchange(const std::vector<Transfer>& transfers, Channel& channel) {
  // Receives come first, so that what the others send finds its place.
  std::vector<Flow> flows;
  flows.reserve(2 * transfers.size());
  for (const Flow::Direction direction : {Flow::kIn, Flow::kOut}) {
    for (const Transfer& t : transfers) {
      const bool wanted = direction == Flow::kIn ? t.receives : t.sends;
      if (!wanted || t.peer == channel.rank()) continue;
      auto flow = std::find_if(flows.begin(), flows.end(), [&](const Flow& other) {
        return other.peer() == t.peer && other.direction() == direction;
      });
      if (flow == flows.end()) {
        flows.emplace_back(t.peer, direction);
        flow = flows.end() - 1;
      }
      flow->Add(direction == Flow::kIn ? t.recv : const_cast<char*>(t.send), t.bytes);
    }
  }
  const auto advance = [&] {
    bool finished = true, moved = false;
    for (Flow& flow : flows) {
      const Step step = flow.Advance(channel);
      finished &= step == Step::kDone;
      moved |= step == Step::kMoved;
    }
    return finished ? Step::kDone : moved ? Step::kMoved : Step::kIdle;
  };
  advance();
  for (const Transfer& t : transfers) {  // while the messages travel
    if (t.sends && t.peer == channel.rank()) Copy(t.recv, t.send, t.bytes);
  }
  channel.WaitUntil(advance);
}

void OneShotAllReduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes();
  char* parts = channel.Scratch(bytes * static_cast<size_t>(channel.size() + 1));
  const char* own =
      Prepared(reduction, op.send, parts + bytes * static_cast<size_t>(channel.size()), op.count);
  ExchangeWithAll(channel, [&](int peer) {
    char* part = parts + static_cast<size_t>(peer) * bytes;
    return peer == channel.rank() ? Transfer{.peer = peer} : Transfer::Both(peer, own, part, bytes);
  });
  CombineInOrder(reduction, channel, op.recv, own, parts, op.count, bytes);
}

void DirectReduceScatter(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes(), all = bytes * static_cast<size_t>(channel.size());
  char* parts = channel.Scratch(2 * all);
  const char* input =
      Prepared(reduction, op.send, parts + all, op.count * static_cast<size_t>(channel.size()));
  ExchangeWithAll(channel, [&](int peer) {
    const size_t at = static_cast<size_t>(peer) * bytes;
    if (peer == channel.rank()) return Transfer{.peer = peer};
    return Transfer::Both(peer, input + at, parts + at, bytes);
  });
  CombineInOrder(reduction, channel, op.recv, input + static_cast<size_t>(channel.rank()) * bytes,
                 parts, op.count, bytes);
}

void DirectAllGather(const Op& op, Channel& channel) {
  ExchangeWithAll(channel, [&](int peer) {
    return Transfer::Both(peer, op.send, op.recv + static_cast<size_t>(peer) * op.bytes(),
                          op.bytes());
  });
}

// Everybody reduces its share, then collects the others'. Shares differ by at most one element.
void TwoShotAllReduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const auto ranks = static_cast<size_t>(channel.size());
  const auto begin = [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    return op.count / ranks * r + std::min(r, op.count % ranks);
  };
  const auto at = [&](int rank) { return begin(rank) * op.element(); };
  const auto bytes = [&](int rank) { return at(rank + 1) - at(rank); };
  const int me = channel.rank();

  char* parts = channel.Scratch(op.bytes() + (ranks + 1) * (op.element() + bytes(0)));
  char* prepared = parts + ranks * bytes(0);
  const char* input = Prepared(reduction, op.send, prepared, op.count);
  std::vector<Transfer> transfers;
  for (int i = 1; i < channel.size(); ++i) {
    const int peer = (me + i) % channel.size();
    transfers.push_back(Transfer::To(peer, input + at(peer), bytes(peer)));
    transfers.push_back(
        Transfer::From(peer, parts + static_cast<size_t>(peer) * bytes(me), bytes(me)));
  }
  Exchange(transfers, channel);
  CombineInOrder(reduction, channel, op.recv + at(me), input + at(me), parts,
                 begin(me + 1) - begin(me), bytes(me));

  transfers.clear();
  for (int i = 1; i < channel.size(); ++i) {
    const int peer = (me + i) % channel.size();
    transfers.push_back(Transfer::To(peer, op.recv + at(me), bytes(me)));
    transfers.push_back(Transfer::From(peer, op.recv + at(peer), bytes(peer)));
  }
  Exchange(transfers, channel);
}

void DirectBroadcast(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return Exchange({Transfer::From(op.peer, op.recv, op.bytes())}, channel);
  }
  ExchangeWithAll(channel, [&](int peer) {
    return peer == op.peer ? Transfer::Both(peer, op.send, op.recv, op.bytes())
                           : Transfer::To(peer, op.send, op.bytes());
  });
}

void DirectReduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes();
  char* parts = channel.Scratch(bytes * static_cast<size_t>(channel.size() + 1));
  const char* own =
      Prepared(reduction, op.send, parts + bytes * static_cast<size_t>(channel.size()), op.count);
  if (channel.rank() != op.peer) return Exchange({Transfer::To(op.peer, own, bytes)}, channel);
  ExchangeWithAll(channel, [&](int peer) {
    if (peer == op.peer) return Transfer{.peer = peer};
    return Transfer::From(peer, parts + static_cast<size_t>(peer) * bytes, bytes);
  });
  CombineInOrder(reduction, channel, op.recv, own, parts, op.count, bytes);
}

}  // namespace hostnccl
