// Validation of a fused call: its pieces on all ranks, stage by stage.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "plan/fuse.h"

namespace terse::plan {
namespace {

bool is_within(size_t begin, size_t bytes, size_t end) {
  return begin <= end && bytes <= end - begin;
}

// Bytes that were written once.
class Written {
 public:
  explicit Written(size_t bytes) : bytes_(bytes) {}

  // Returns false if some of them are beyond the end, or were written before.
  bool write(size_t begin, size_t bytes) {
    if (!is_within(begin, bytes, bytes_)) return false;
    const auto next = spans_.lower_bound(begin);
    const bool is_free = (next == spans_.end() || begin + bytes <= next->first) &&
                         (next == spans_.begin() || std::prev(next)->second <= begin);
    if (!is_free) return false;
    spans_.emplace(begin, begin + bytes);
    sum_ += bytes;
    return true;
  }
  // Returns true if one piece has written all of them.
  bool has(size_t begin, size_t bytes) const {
    const auto next = spans_.upper_bound(begin);
    return next != spans_.begin() && is_within(begin, bytes, std::prev(next)->second);
  }
  bool is_whole() const { return sum_ == bytes_; }

 private:
  size_t bytes_, sum_ = 0;
  std::map<size_t, size_t> spans_;  // ends by begins
};

class FusedChecker {
 public:
  FusedChecker(std::span<const Fused> ranks, const Shape& shape) : ranks_(ranks), shape_(shape) {
    for (const Fused& f : ranks) {
      pushed_.emplace_back(f.pushed_bytes);
      shared_.emplace_back(f.shared_bytes);
      received_.emplace_back(f.buffers.recv_bytes);
    }
  }

  std::string check() {
    each([&](size_t rank, const Fused& f) { compare(rank, f); });
    each([&](size_t rank, const Fused& f) {
      for (const Fused::Push& p : f.pushes) push(rank, p);
    });
    each([&](size_t rank, const Fused& f) {
      for (const Compute& c : f.makes) make(rank, c);
    });
    each([&](size_t rank, const Fused& f) {
      for (const Compute& c : f.takes) take(rank, c);
      for (const Copy& c : f.copies) copy(rank, c);
      if (!received_[rank].is_whole()) fail(rank, "leaves a part of the receive buffer");
    });
    return error_;
  }

 private:
  template <class Visit>
  void each(const Visit& visit) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) visit(rank, ranks_[rank]);
  }

  void fail(size_t rank, const char* what) {
    if (error_.empty()) error_ = fmt::format("rank {} {}", rank, what);
  }

  void compare(size_t rank, const Fused& f) {
    const Fused& first = ranks_.front();
    if (f.form != first.form || f.pushed_bytes != first.pushed_bytes ||
        f.shared_bytes != first.shared_bytes)
      fail(rank, "has another form, or other areas");
    for (const Fingerprint& each : f.fingerprints)
      if (!is_sent(rank, each.source, each.bytes) ||
          !is_within(each.target.offset, kFingerprintBytes, f.scratch_bytes))
        fail(rank, "makes a fingerprint from or to where none may be");
  }

  bool is_sent(size_t rank, const Place& place, size_t bytes) const {
    return place.region == Region::kSend &&
           is_within(place.offset, bytes, ranks_[rank].buffers.send_bytes);
  }

  // Inputs are raw ones, or what lies in an area.
  void read(size_t rank, const Compute& c, const Written& area) {
    for (const Input& in : c.inputs) {
      const size_t bytes = shape_.bytes(in.format, c.count);
      const bool is_there = in.format == Format::kRaw ? is_sent(rank, in.place, bytes)
                                                      : in.place.region == Region::kScratch &&
                                                            area.has(in.place.offset, bytes);
      if (!is_there) fail(rank, "reads what is not there");
    }
    if (!c.rng_key || !c.rng_key->fingerprint) return;
    const std::vector<Fingerprint>& made = ranks_[rank].fingerprints;
    if (std::ranges::find(made, *c.rng_key->fingerprint, &Fingerprint::target) == made.end())
      fail(rank, "draws by a fingerprint that nobody makes");
  }

  void receive(size_t rank, const Compute& c) {
    const size_t bytes = shape_.bytes(Format::kRaw, c.count);
    if (c.target_format != Format::kRaw || c.target.region != Region::kRecv ||
        !received_[rank].write(c.target.offset, bytes))
      fail(rank, "writes the receive buffer twice, or beyond it");
  }

  void push(size_t rank, const Fused::Push& p) {
    if (p.peer < 0 || static_cast<size_t>(p.peer) >= ranks_.size() || !ranks_[rank].pushing())
      return fail(rank, "pushes to a rank that is not there");
    read(rank, p.compute, Written(0));
    if (p.compute.target.region != Region::kScratch) return fail(rank, "pushes past the area");
    if (!pushed_[static_cast<size_t>(p.peer)].write(
            p.compute.target.offset, shape_.bytes(p.compute.target_format, p.compute.count)))
      fail(rank, "pushes twice to a place, or beyond the area");
  }

  void make(size_t rank, const Compute& c) {
    read(rank, c, pushed_[rank]);
    if (c.target.region != Region::kScratch) return receive(rank, c);
    if (!ranks_[rank].sharing()) return fail(rank, "shares without a flag");
    const size_t bytes = shape_.bytes(c.target_format, c.count);
    for (Written& area : shared_)
      if (!area.write(c.target.offset, bytes))
        return fail(rank, "shares at a place twice, or beyond the area");
  }

  void take(size_t rank, const Compute& c) {
    if (!ranks_[rank].sharing()) return fail(rank, "takes without a flag");
    read(rank, c, shared_[rank]);
    receive(rank, c);
  }

  void copy(size_t rank, const Copy& c) {
    if (!is_sent(rank, c.source, c.bytes) || c.target.region != Region::kRecv ||
        !received_[rank].write(c.target.offset, c.bytes))
      fail(rank, "copies from or to where none may be");
  }

  std::span<const Fused> ranks_;
  const Shape& shape_;
  std::vector<Written> pushed_, shared_, received_;  // by rank
  std::string error_;
};

}  // namespace

std::string validate(std::span<const Fused> by_rank, const Shape& shape) {
  return FusedChecker(by_rank, shape).check();
}

}  // namespace terse::plan
