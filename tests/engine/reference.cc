#include "reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "codec/codec.h"
#include "codec/float16.h"
#include "memory_check.h"
#include "normal.h"
#include "summed_reference.h"

namespace terse::test {
namespace {

using codec::Dtype;
using plan::Collective;

Dtype dtype_of(ncclDataType_t datatype) {
  Dtype dtype{};
  if (!compressible(datatype, &dtype)) throw std::invalid_argument("not a type to compress");
  return dtype;
}

class Reference {
 public:
  Reference(const Call& call, const std::vector<Bytes>& sent)
      : call_(call),
        sent_(sent),
        ranks_(sent.size()),
        dtype_(dtype_of(call.datatype)),
        size_(codec::dtype_size(dtype_)) {}

  // A rank's elements first .. first + count, packed; among the contributors to a sum, if there is
  // one.
  Bytes encode(size_t rank, size_t first, size_t count, uint32_t shard,
               const Contributors& contributors = {}) const {
    return encode(rank, first, count, shard, call_.scheme.spec, contributors);
  }
  Bytes encode(size_t rank, size_t first, size_t count, uint32_t shard, const codec::Spec& spec,
               const Contributors& contributors, size_t origin = 0) const {
    return pack({raw(rank, first)}, count, 1.0f, rank, shard, 0, spec, contributors, origin);
  }

  codec::Source raw(size_t rank, size_t first) const {
    return {sent_[rank].data() + first * size_, dtype_};
  }

  Bytes pack(const std::vector<codec::Source>& sources, size_t count, float factor, size_t rank,
             uint32_t shard, uint32_t stage) const {
    return pack(sources, count, factor, rank, shard, stage, call_.scheme.spec);
  }
  Bytes pack(const std::vector<codec::Source>& sources, size_t count, float factor, size_t rank,
             uint32_t shard, uint32_t stage, const codec::Spec& spec,
             const Contributors& contributors = {}, size_t origin = 0) const {
    Bytes body(codec::body_size(spec, count));
    const bool shares = spec.rounding == codec::Rounding::kStochastic && contributors.size() > 1;
    const codec::Draw draw = shares ? shared_draw(call_, contributors, rank, shard, stage)
                                    : draw_by(sent_[rank], call_, rank, shard, stage);
    run(sources, {body.data(), spec, draw, origin}, factor, count);
    return body;
  }

  Bytes unpack(const std::vector<codec::Source>& sources, size_t count, float factor) const {
    Bytes out(count * size_);
    run(sources, {out.data(), dtype_}, factor, count);
    return out;
  }

  float factor() const { return call_.op == ncclAvg ? 1.0f / static_cast<float>(ranks_) : 1.0f; }

  // The contributions to `owner`'s shard, whose elements begin at `first` in what everyone sends.
  std::vector<codec::Source> contributions(size_t owner, size_t first, size_t count,
                                           std::vector<Bytes>& storage) const {
    std::vector<codec::Source> sources;
    for (size_t p = 0; p < ranks_; ++p) {
      storage.push_back(p == owner ? Bytes() : encode(p, first, count, owner, all_but(owner)));
      sources.push_back(p == owner ? codec::Source{sent_[p].data() + first * size_, dtype_}
                                   : codec::Source{storage.back().data(), call_.scheme.spec});
    }
    return sources;
  }

  // Whether several contributors share their draws.
  bool shares() const {
    const bool alone = call_.collective == Collective::kReduce && ranks_ == 2;
    return call_.scheme.spec.rounding == codec::Rounding::kStochastic && !alone;
  }

  Contributors all_but(size_t owner) const {
    Contributors ranks;
    for (size_t r = 0; r < ranks_; ++r)
      if (r != owner) ranks.push_back(r);
    return ranks;
  }

  Bytes one_shot() const {
    std::vector<Bytes> bodies;
    std::vector<codec::Source> sources;
    for (size_t p = 0; p < ranks_; ++p)
      bodies.push_back(encode(p, 0, call_.count, shares() ? 0 : p, all_but(ranks_)));
    for (const Bytes& b : bodies) sources.push_back({b.data(), call_.scheme.spec});
    return unpack(sources, call_.count, factor());
  }

  // Format of sums on their way to all ranks.
  codec::Spec second() const { return call_.scheme.second.value_or(call_.scheme.spec); }

  // Whether it has other bodies, and not just other roundings.
  bool repacks() const {
    codec::Spec other = second();
    other.rounding = call_.scheme.spec.rounding;
    return other != call_.scheme.spec;
  }

  // All contributions to a shard, packed, the owner's included.
  Bytes sum_of_packed(size_t owner, size_t first, size_t count) const {
    std::vector<Bytes> storage;
    for (size_t p = 0; p < ranks_; ++p)
      storage.push_back(encode(p, first, count, owner, all_but(ranks_)));
    return pack(bodies(storage), count, factor(), owner, owner, 1, second());
  }

  Bytes two_shot() const {
    const size_t block = std::max(call_.scheme.spec.block, second().block);
    const size_t shard = ((call_.count + ranks_ - 1) / ranks_ + block - 1) / block * block;
    Bytes result;
    for (size_t p = 0; p < ranks_; ++p) {
      const size_t first = std::min(p * shard, call_.count);
      const size_t count = std::min(shard, call_.count - first);
      std::vector<Bytes> storage;
      const Bytes body = repacks() ? sum_of_packed(p, first, count)
                                   : pack(contributions(p, first, count, storage), count, factor(),
                                          p, p, 1, second());
      const Bytes out = unpack({{body.data(), second()}}, count, 1.0f);
      result.insert(result.end(), out.begin(), out.end());
    }
    return result;
  }

  // What one quantization makes of a rank's elements.
  Bytes pass(size_t rank, size_t first, size_t count, uint32_t shard) const {
    const Bytes body = encode(rank, first, count, shard);
    return unpack({{body.data(), call_.scheme.spec}}, count, 1.0f);
  }

  Bytes exact(size_t rank, size_t first) const {
    const char* begin = sent_[rank].data() + first * size_;
    return {begin, begin + call_.count * size_};
  }

  // The root uses its own elements as they are.
  Bytes direct_reduce() const {
    std::vector<Bytes> storage;
    std::vector<codec::Source> sources;
    for (size_t p = 0; p < ranks_; ++p) {
      storage.push_back(
          is_root(p) ? Bytes()
                     : encode(p, 0, call_.count, shares() ? call_.root : p, all_but(call_.root)));
      sources.push_back(is_root(p) ? codec::Source{sent_[p].data(), dtype_}
                                   : codec::Source{storage.back().data(), call_.scheme.spec});
    }
    return unpack(sources, call_.count, factor());
  }

  // The shards that come to `rank` from all: from p what it has at first(p).
  template <class First>
  Bytes collect(size_t rank, uint32_t (*shard)(size_t from, size_t to), First first) const {
    Bytes result;
    for (size_t p = 0; p < ranks_; ++p) {
      const Bytes part =
          p == rank ? exact(p, first(p)) : pass(p, first(p), call_.count, shard(p, rank));
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  Bytes all_to_all(size_t rank) const {
    return collect(
        rank, [](size_t, size_t to) { return static_cast<uint32_t>(to); },
        [&](size_t) { return rank * call_.count; });
  }

  Bytes gather_to_root() const {
    return collect(
        call_.root, [](size_t from, size_t) { return static_cast<uint32_t>(from); },
        [](size_t) { return size_t{0}; });
  }

  Bytes scatter_from_root(size_t rank) const {
    const size_t first = rank * call_.count;
    return is_root(rank) ? exact(rank, first) : pass(call_.root, first, call_.count, rank);
  }

  bool is_root(size_t rank) const { return static_cast<size_t>(call_.root) == rank; }

  Bytes gather() const {
    Bytes result;
    for (size_t p = 0; p < ranks_; ++p) {
      const Bytes body = encode(p, 0, call_.count, p);
      const Bytes out = unpack({{body.data(), call_.scheme.spec}}, call_.count, 1.0f);
      result.insert(result.end(), out.begin(), out.end());
    }
    return result;
  }

  // Elements of a shard, and their numbers for the random ones.
  struct Range {
    size_t first, count;
    uint32_t shard;
    size_t origin = 0;
  };

  // In levels. What the ranks of one node give to an owner's shard, as the one at the owner's place
  // sums it.
  Bytes sum_of_node(int node, size_t owner, const Range& r) const {
    std::vector<size_t> ranks;
    for (size_t k = 0; k < ranks_; ++k)
      if (call_.node[k] == node) ranks.push_back(k);
    const size_t sums = ranks[place(owner)];
    const Intra& intra = call_.scheme.intra;
    const codec::Spec within = intra.spec.value_or(call_.scheme.spec);
    std::vector<Bytes> storage;
    std::vector<codec::Source> sources;
    Contributors contributors = ranks;
    if (!intra.spec) std::erase(contributors, sums);
    for (const size_t k : ranks) {
      storage.push_back(encode(k, r.first, r.count, r.shard, within, contributors, r.origin));
      const bool as_it_is = intra.off || ranks.size() == 1 || (k == sums && !intra.spec);
      sources.push_back(as_it_is ? raw(k, r.first) : codec::Source{storage.back().data(), within});
    }
    return pack(sources, r.count, factor(), sums, r.shard, 1, call_.scheme.spec,
                at_place(nodes_with(node, 1), place(owner)), r.origin);
  }

  int nodes() const { return 1 + *std::max_element(call_.node.begin(), call_.node.end()); }

  // Nodes that a level counts in one: of its own group, or one of each group.
  std::pair<int, int> step_and_number(size_t level) const {
    if (call_.groups.empty()) return {1, nodes()};
    int step = 1;
    for (size_t below = 1; below < level; ++below) step *= call_.groups[below - 1];
    return {step, call_.groups[level - 1]};
  }

  // Nodes that exchange with one on a level above the node, in their order.
  std::vector<int> nodes_with(int node, size_t level) const {
    const auto [step, number] = step_and_number(level);
    const int lowest = node - node / step % number * step;
    std::vector<int> all;
    for (int digit = 0; digit < number; ++digit) all.push_back(lowest + digit * step);
    return all;
  }

  size_t last_level() const { return std::max<size_t>(1, call_.groups.size()); }

  // The ranks at a place of these nodes.
  Contributors at_place(const std::vector<int>& nodes, size_t wanted) const {
    Contributors ranks;
    for (const int m : nodes)
      for (size_t r = 0; r < ranks_; ++r)
        if (call_.node[r] == m && place(r) == wanted) ranks.push_back(r);
    return ranks;
  }

  // Among the ranks of its node.
  size_t place(size_t rank) const {
    return std::count(call_.node.begin(), call_.node.begin() + rank, call_.node[rank]);
  }

  // Format of sums on their way to a level.
  codec::Spec format_to(size_t level) const {
    return level == 1 ? call_.scheme.spec : outer_of(call_.scheme.forms());
  }

  // What comes to the owner's place on a node on a level: the sums of the level before.
  std::vector<Bytes> sums_for(int node, size_t owner, size_t level, const Range& r) const {
    std::vector<Bytes> sums;
    for (const int m : nodes_with(node, level))
      sums.push_back(level == 1 ? sum_of_node(m, owner, r) : sum_of_group(m, owner, level - 1, r));
    return sums;
  }

  // Sum of a level, packed for the next one by the rank at the owner's place on the node.
  Bytes sum_of_group(int node, size_t owner, size_t level, const Range& r) const {
    const std::vector<Bytes> sums = sums_for(node, owner, level, r);
    return pack(bodies(sums, format_to(level)), r.count, 1.0f,
                at_place({node}, place(owner)).front(), r.shard, static_cast<uint32_t>(level) + 1,
                format_to(level + 1), at_place(nodes_with(node, level + 1), place(owner)),
                r.origin);
  }

  std::vector<codec::Source> bodies(const std::vector<Bytes>& packed) const {
    return bodies(packed, call_.scheme.spec);
  }
  std::vector<codec::Source> bodies(const std::vector<Bytes>& packed,
                                    const codec::Spec& spec) const {
    std::vector<codec::Source> sources;
    for (const Bytes& b : packed) sources.push_back({b.data(), spec});
    return sources;
  }

  Bytes hierarchical_scatter(size_t rank) const {
    const Range r{rank * call_.count, call_.count, static_cast<uint32_t>(rank)};
    const std::vector<Bytes> sums = sums_for(call_.node[rank], rank, last_level(), r);
    return unpack(bodies(sums, format_to(last_level())), call_.count, 1.0f);
  }

  // Owners of a message's shards: the ranks in their order; of nodes in groups those at a place
  // after another, there by groups of the lowest level first.
  Contributors owners() const {
    Contributors all = all_but(ranks_);
    if (!in_groups()) return all;
    const auto digits = [&](size_t rank) {
      std::vector<int> of{static_cast<int>(place(rank))};
      for (size_t level = 1; level <= last_level(); ++level) {
        const auto [step, number] = step_and_number(level);
        of.push_back(call_.node[rank] / step % number);
      }
      return of;
    };
    std::ranges::sort(all, {}, digits);
    return all;
  }

  bool in_groups() const { return call_.groups.size() > 1; }

  // Elements of whole blocks of all formats, whose parameters are whole words.
  size_t of_whole_words(size_t block) const {
    const codec::Spec& spec = call_.scheme.spec;
    const codec::Spec all[] = {spec, call_.scheme.intra.spec.value_or(spec), second(),
                               outer_of(call_.scheme.forms())};
    size_t elements = block;
    for (const codec::Spec& each : all) elements = std::max<size_t>(elements, each.block);
    const auto has_parts = [&](const codec::Spec& each) {
      return elements / each.block * codec::params_bytes(each) % 4 != 0;
    };
    while (std::ranges::any_of(all, has_parts)) elements *= 2;
    return elements;
  }

  Bytes hierarchical_reduce() const {
    const Intra& intra = call_.scheme.intra;
    const size_t block = std::max(
        {call_.scheme.spec.block, intra.spec.value_or(call_.scheme.spec).block, second().block});
    const size_t quantum = in_groups() ? of_whole_words(block) : block;
    const size_t part = in_groups() ? part_of(quantum) : call_.count;
    Bytes result;
    for (size_t begin = 0; begin < call_.count; begin += part) {
      const size_t shard = ((part + ranks_ - 1) / ranks_ + quantum - 1) / quantum * quantum;
      const Bytes sums = hierarchical_sums(begin, std::min(begin + part, call_.count), shard);
      result.insert(result.end(), sums.begin(), sums.end());
    }
    return result;
  }

  // Elements of a part of the message, of whole shards for all ranks.
  size_t part_of(size_t quantum) const {
    const size_t wanted = call_.part_bytes / datatype_size(call_.datatype);
    const size_t parts = wanted == 0 ? 1 : std::max<size_t>(1, call_.count / wanted);
    if (parts == 1) return call_.count;
    const size_t whole = quantum * ranks_;
    return ((call_.count + parts - 1) / parts + whole - 1) / whole * whole;
  }

  // Sums of the elements from `begin` to `end`, of which each rank owns a shard.
  Bytes hierarchical_sums(size_t begin, size_t end, size_t shard) const {
    const Contributors owner = owners();
    Bytes result;
    for (size_t p = 0; p < ranks_; ++p) {
      const size_t first = std::min(begin + p * shard, end);
      const size_t count = std::min(shard, end - first);
      // In groups the numbers are those of the message.
      const Range r = in_groups() ? Range{first, count, 0, first}
                                  : Range{first, count, static_cast<uint32_t>(p)};
      const size_t last = last_level();
      const std::vector<Bytes> sums = sums_for(call_.node[owner[p]], owner[p], last, r);
      const Bytes body = pack(bodies(sums, format_to(last)), r.count, 1.0f, owner[p], r.shard,
                              static_cast<uint32_t>(last) + 1, second(), {}, r.origin);
      const Bytes out = unpack({{body.data(), second()}}, r.count, 1.0f);
      result.insert(result.end(), out.begin(), out.end());
    }
    return result;
  }

  Bytes scatter(size_t rank) const {
    std::vector<Bytes> storage;
    return unpack(contributions(rank, rank * call_.count, call_.count, storage), call_.count,
                  factor());
  }

 private:
  void run(const std::vector<codec::Source>& sources, codec::Target target, float factor,
           size_t count) const {
    codec::combine({.sources = sources,
                    .target = target,
                    .factor = factor,
                    .total = count,
                    .count = count,
                    .codebook = call_.codebook});
  }

  const Call& call_;
  const std::vector<Bytes>& sent_;
  const size_t ranks_;
  const Dtype dtype_;
  const size_t size_;
};

bool one_shot(const Call& call, size_t ranks) {
  const std::string_view algo = plan::name(call.scheme.algorithm);
  const bool reduce = call.collective == Collective::kReduce;
  if (algo == "oneshot" || (algo == "direct" && reduce)) return true;
  if (algo == "twoshot") return false;
  return ranks == 2 || call.count * datatype_size(call.datatype) * ranks <= 64 * 1024;
}

}  // namespace

// By what the rank sends, and by the call, but for an AllGather; of a message by the communicator
// and the call.
codec::Draw draw_by(const Bytes& sent, const Call& call, size_t rank, uint32_t shard,
                    uint32_t stage) {
  const bool gathers = call.collective == plan::Collective::kAllGather;
  const bool message = plan::is_point_to_point(call.collective);
  codec::Draw draw =
      codec::make_draw({.seed = call.scheme.seed.value_or(0),
                        .communicator = (message ? call.ordinal : 0) +
                                        (call.preloaded && !gathers ? uint64_t{1} << 63 : 0),
                        .sequence = gathers ? 0 : call.sequence,
                        .rank = static_cast<uint32_t>(rank),
                        .shard = shard,
                        .stage = stage});
  if (!gathers) draw = codec::redraw(draw, call.replays);
  if (message) return draw;
  return codec::redraw(draw, gathers ? memory_check(sent.data(), sent.size())
                                     : sample_check(sent.data(), sent.size()));
}

// Pairs from the first contributor on; the last three are together where their number is odd.
codec::Draw shared_draw(const Call& call, const Contributors& contributors, size_t rank,
                        uint32_t shard, uint32_t stage) {
  const size_t place = std::ranges::find(contributors, rank) - contributors.begin();
  size_t first = 0, together = 2;
  for (;; first += together) {
    together = contributors.size() - first == 3 ? 3 : 2;
    if (place < first + together) break;
  }
  using enum codec::Variate;
  constexpr codec::Variate kOfTwo[] = {kOwn, kMirrored}, kOfThree[] = {kOwn, kDoubled, kShifted};
  const codec::Draw draw =
      codec::make_draw({.seed = call.scheme.seed.value_or(0),
                        .communicator = call.preloaded ? uint64_t{1} << 63 : 0,
                        .sequence = call.sequence,
                        .rank = static_cast<uint32_t>(contributors[first]),
                        .shard = shard,
                        .stage = stage,
                        .variate = (together == 2 ? kOfTwo : kOfThree)[place - first]});
  return codec::redraw(draw, call.replays);
}

size_t send_count(const Call& call, int ranks) {
  return call.count * plan::extent(plan::traits(call.collective).send, {ranks, 0, 0});
}

size_t recv_count(const Call& call, int ranks) {
  return call.count * plan::extent(plan::traits(call.collective).recv, {ranks, 0, 0});
}

std::vector<Bytes> expected(const Call& call, const std::vector<Bytes>& sent) {
  if (is_summed(call)) return expected_summed(call, sent);
  const size_t ranks = sent.size();
  const Reference reference(call, sent);
  const bool levels = !call.node.empty();
  std::vector<Bytes> result;
  const auto of_rank = [&](size_t r) {
    switch (call.collective) {
      case Collective::kReduceScatter:
        return levels ? reference.hierarchical_scatter(r) : reference.scatter(r);
      case Collective::kAllToAll:
        return reference.all_to_all(r);
      case Collective::kScatter:
        return reference.scatter_from_root(r);
      case Collective::kBroadcast:
        return reference.pass(call.root, 0, call.count, call.root);
      case Collective::kAllGather:
        return reference.gather();
      case Collective::kGather:
        return reference.is_root(r) ? reference.gather_to_root() : Bytes();
      case Collective::kReduce:
        if (!reference.is_root(r)) return Bytes();
        if (levels) return reference.hierarchical_reduce();
        return one_shot(call, ranks) ? reference.direct_reduce() : reference.two_shot();
      default:
        if (levels) return reference.hierarchical_reduce();
        return one_shot(call, ranks) ? reference.one_shot() : reference.two_shot();
    }
  };
  for (size_t r = 0; r < ranks; ++r) result.push_back(ranks == 1 ? sent[0] : of_rank(r));
  if (call.collective == Collective::kAllGather && call.scheme.delta.own_exact)
    for (size_t r = 0; r < ranks; ++r)
      std::ranges::copy(sent[r], result[r].begin() + static_cast<ptrdiff_t>(r * sent[r].size()));
  return result;
}

Bytes expected_message(const Call& call, const Bytes& sent, int sender, uint32_t index) {
  std::vector<Bytes> all(sender + 1);
  all[sender] = sent;
  Call message = call;
  message.collective = Collective::kSend;
  return Reference(message, all).pass(sender, 0, call.count, index);
}

std::vector<double> values(const Bytes& bytes, ncclDataType_t datatype) {
  const size_t size = datatype_size(datatype);
  std::vector<double> result(bytes.size() / size);
  for (size_t i = 0; i < result.size(); ++i) {
    const char* p = bytes.data() + i * size;
    float x = 0;
    codec::half_t half;
    codec::bfloat_t bfloat;
    if (datatype == ncclFloat32) {
      std::memcpy(&x, p, 4);
    } else if (datatype == ncclFloat16) {
      std::memcpy(&half, p, 2);
      x = codec::to_float(half);
    } else {
      std::memcpy(&bfloat, p, 2);
      x = codec::to_float(bfloat);
    }
    result[i] = x;
  }
  return result;
}

std::vector<std::vector<double>> exact(const Call& call, const std::vector<Bytes>& sent) {
  const size_t ranks = sent.size(), n = call.count;
  std::vector<std::vector<double>> in;
  for (const Bytes& b : sent) in.push_back(values(b, call.datatype));
  std::vector<std::vector<double>> out(ranks);
  const auto sum = [&](size_t i) {
    double result = 0;
    for (const auto& v : in) result += v[i];
    return call.op == ncclAvg ? result / static_cast<double>(ranks) : result;
  };
  const auto element = [&](size_t r, size_t i) {
    switch (call.collective) {
      case Collective::kAllGather:
      case Collective::kGather:
        return in[i / n][i % n];
      case Collective::kReduceScatter:
        return sum(r * n + i);
      case Collective::kAllToAll:
        return in[i / n][r * n + i % n];
      case Collective::kBroadcast:
        return in[call.root][i];
      case Collective::kScatter:
        return in[call.root][r * n + i];
      default:
        return sum(i);
    }
  };
  for (size_t r = 0; r < ranks; ++r) {
    out[r].resize(recv_count(call, ranks));
    for (size_t i = 0; i < out[r].size(); ++i) out[r][i] = element(r, i);
  }
  return out;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

uint64_t next_ordinal() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

std::vector<float> floats_of(const Bytes& bytes, ncclDataType_t datatype) {
  const std::vector<double> all = values(bytes, datatype);
  return {all.begin(), all.end()};
}

Bytes bytes_of(const std::vector<float>& values, ncclDataType_t datatype) {
  Bytes bytes(values.size() * datatype_size(datatype));
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    char* p = bytes.data() + i * datatype_size(datatype);
    if (datatype == ncclFloat32) {
      std::memcpy(p, &x, 4);
    } else if (datatype == ncclFloat16) {
      const auto half = codec::from_float<codec::half_t>(x);
      std::memcpy(p, &half, 2);
    } else {
      const auto bfloat = codec::from_float<codec::bfloat_t>(x);
      std::memcpy(p, &bfloat, 2);
    }
  }
  return bytes;
}

Request request_of(const Call& call, const void* in, void* out, cudaStream_t stream) {
  return {call.collective, in, out, call.count, call.datatype, call.op, stream, call.root};
}

Bytes gaussian(size_t count, ncclDataType_t datatype, unsigned seed) {
  std::mt19937 random(seed);
  Normal normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return bytes_of(values, datatype);
}

}  // namespace terse::test
