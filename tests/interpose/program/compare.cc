#include "compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

namespace terse::program {
namespace {

double value(const char* p, ncclDataType_t datatype) {
  uint16_t half;
  float x;
  if (datatype == ncclFloat32) {
    std::memcpy(&x, p, 4);
    return x;
  }
  std::memcpy(&half, p, 2);
  if (datatype == ncclBfloat16) {
    const uint32_t bits = uint32_t{half} << 16;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  const int exponent = half >> 10 & 31;
  const double fraction = exponent == 0 ? half % 1024 / 1024.0 : 1 + half % 1024 / 1024.0;
  if (exponent == 31) return HUGE_VAL;
  return std::ldexp(fraction, exponent == 0 ? -14 : exponent - 15);  // all are positive
}

double relative_error(const std::vector<char>& a, const std::vector<char>& b,
                      ncclDataType_t datatype) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); i += element_size(datatype)) {
    const double x = value(&a[i], datatype), y = value(&b[i], datatype);
    if (x == y) continue;  // infinities too
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

bool is_compressed(const Call& c, int size, const Expectation& e) {
  const size_t bytes =
      std::max(send_count(c, size), recv_count(c, size)) * element_size(c.datatype);
  const bool to_itself = (c.kind == Kind::kShift && c.root % size == 0) ||
                         (c.kind == Kind::kMessage && c.root == c.to);
  const bool native = c.configured == Configured::kExact ||
                      c.configured == Configured::kNativeTag || c.configured == Configured::kForced;
  if (to_itself || c.fails || native) return false;
  const bool by_rules = e.collectives.contains(name(c.kind)) && bytes >= e.min_bytes;
  return (by_rules || chooses_scheme(c.configured)) && is_for_schemes(c) && size > 1 && c.count > 0;
}

// What is exact: calls of paused communicators, and excluded elements of messages.
class Exact {
 public:
  Exact(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  void hear(const Request& r, const Step& step) {
    if (r.kind == Request::kPause) paused_.insert(r.communicator);
    if (r.kind == Request::kResume) paused_.erase(r.communicator);
    if (r.kind != Request::kExclude) return;
    const size_t elements = message_count(step.calls[static_cast<size_t>(r.call)],
                                          size_of(r.communicator, rank_, ranks_));
    if (elements > 0) ranges_[{r.communicator, elements}] = exact_ranges(r, elements);
  }

  bool is_paused(const Call& c) const { return paused_.contains(c.communicator); }

  // Of the result, in its elements.
  bool contains(const Call& c, size_t element) const {
    if (c.kind != Kind::kAllReduce && c.kind != Kind::kAllGather && c.kind != Kind::kReduceScatter)
      return false;
    const auto found =
        ranges_.find({c.communicator, message_count(c, size_of(c.communicator, rank_, ranks_))});
    if (found == ranges_.end()) return false;
    if (c.kind == Kind::kReduceScatter)
      element += c.count * static_cast<size_t>(rank_in(c.communicator, rank_, ranks_));
    return std::ranges::any_of(found->second, [&](const Range& r) { return r.contains(element); });
  }

 private:
  const int rank_, ranks_;
  std::set<int> paused_;
  std::map<std::pair<int, size_t>, std::vector<Range>> ranges_;
};

// What a sum in another order may differ by.
double rounding(const Call& c, int size) {
  if (!reduces(c.kind)) return 0;
  return 2 * size *
         std::ldexp(1.0, c.datatype == ncclFloat32   ? -24
                         : c.datatype == ncclFloat16 ? -11
                                                     : -8);
}

// Which excluded element has another value, if any.
std::optional<size_t> changed(const Call& c, const std::vector<char>& found,
                              const std::vector<char>& native, const Exact& exact, double allowed) {
  const size_t size = element_size(c.datatype);
  for (size_t i = 0; i < native.size() / size; ++i) {
    if (!exact.contains(c, i)) continue;
    const double x = value(&found[i * size], c.datatype), y = value(&native[i * size], c.datatype);
    if (x != y && !(std::abs(x - y) <= allowed * std::abs(y))) return i;
  }
  return {};
}

bool is_alike_on_all(const Call& c) {
  return c.kind == Kind::kAllReduce || c.kind == Kind::kAllGather || c.kind == Kind::kBroadcast;
}

}  // namespace

Verdict compare(const Program& program, const Results& native, const Results& found, int rank,
                int ranks, const Expectation& e) {
  Verdict verdict;
  // Compressions on the way to a result: to this rank's, and to that of any.
  std::vector<int> lossy, lossy_anywhere;
  Exact exact(rank, ranks);
  const auto compare_call = [&](const Call& c) {
    const size_t i = lossy.size();
    const int before = c.input == kFresh ? 0 : lossy_anywhere[static_cast<size_t>(c.input)];
    const auto after = [&](int r) {
      return before +
             (!exact.is_paused(c) && is_compressed(c, size_of(c.communicator, r, ranks), e));
    };
    lossy.push_back(after(rank));
    lossy_anywhere.push_back(before);
    for (int r = 0; r < ranks; ++r) lossy_anywhere[i] = std::max(lossy_anywhere[i], after(r));
    const int size = size_of(c.communicator, rank, ranks);
    if (native[i].size() != found[i].size()) return fmt::format("another size");
    if (lossy[i] == 0) {
      ++verdict.exact;
      return std::string(native[i] == found[i] ? "" : "differs, but was to be native");
    }
    verdict.compressed += native[i] != found[i];
    const double error = relative_error(found[i], native[i], c.datatype);
    const bool any_own = before > 0 || chooses_scheme(c.configured);
    const double allowed = any_own ? std::max(e.error, kOwnError) : e.error;
    if (!(error <= allowed * lossy[i]))
      return fmt::format("error {} after {} compressions", error, lossy[i]);
    if (before > 0) return std::string();
    if (const auto at = changed(c, found[i], native[i], exact, rounding(c, size)))
      return fmt::format("element {} differs, but was excluded", *at);
    if (e.own_exact && c.kind == Kind::kAllGather && !chooses_scheme(c.configured)) {
      const size_t bytes = c.count * element_size(c.datatype);
      const auto own = static_cast<std::ptrdiff_t>(
          bytes * static_cast<size_t>(rank_in(c.communicator, rank, ranks)));
      if (!std::equal(native[i].begin() + own,
                      native[i].begin() + own + static_cast<std::ptrdiff_t>(bytes),
                      found[i].begin() + own))
        return std::string("the rank's own shard differs");
    }
    return std::string();
  };
  for (const Step& step : program.steps) {
    if (step.request) exact.hear(*step.request, step);
    for (const Call& c : step.calls)
      if (const std::string wrong = compare_call(c); !wrong.empty()) {
        verdict.wrong = fmt::format("call {}: {}: {}", lossy.size() - 1, describe(c), wrong);
        return verdict;
      }
  }
  return verdict;
}

std::string differ(const Program& program, const std::vector<Results>& results,
                   const Expectation& e) {
  const int ranks = static_cast<int>(results.size());
  const std::vector<Call> calls = program.calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& c = calls[i];
    if (!is_alike_on_all(c) || c.fails) continue;
    // The communicator's first rank is the world's, or of the odd ones'.
    for (int rank = 1; rank < ranks; ++rank) {
      const int first = c.communicator == 1 ? rank % 2 : 0;
      std::vector<char> a = results[static_cast<size_t>(first)][i],
                        b = results[static_cast<size_t>(rank)][i];
      const bool own_exact = e.own_exact && !chooses_scheme(c.configured);
      if (own_exact && c.kind == Kind::kAllGather && a.size() == b.size()) {
        const size_t bytes = c.count * element_size(c.datatype);
        for (const int own : {first, rank}) {
          const size_t at = bytes * static_cast<size_t>(rank_in(c.communicator, own, ranks));
          for (auto* x : {&a, &b})
            std::fill_n(x->begin() + static_cast<std::ptrdiff_t>(at), bytes, '\0');
        }
      }
      if (a != b)
        return fmt::format("call {}: {}: rank {} has other bytes than rank {}", i, describe(c),
                           rank, first);
    }
  }
  return "";
}

}  // namespace terse::program
