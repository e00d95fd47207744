#include "reference.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "codec/codec.h"
#include "codec/float16.h"

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

  // A rank's elements first .. first + count, packed.
  Bytes encode(size_t rank, size_t first, size_t count, uint32_t piece) const {
    const codec::Source source{sent_[rank].data() + first * size_, dtype_};
    return pack({source}, count, 1.0f, rank, piece, 0);
  }

  Bytes pack(const std::vector<codec::Source>& sources, size_t count, float factor, size_t rank,
             uint32_t piece, uint32_t stage) const {
    Bytes body(codec::body_size(call_.scheme.spec, count));
    const codec::Draw draw = codec::make_draw({.seed = call_.scheme.seed.value_or(0),
                                               .communicator = call_.ordinal,
                                               .sequence = call_.sequence,
                                               .rank = static_cast<uint32_t>(rank),
                                               .piece = piece,
                                               .stage = stage});
    run(sources, {body.data(), {}, codec::redraw(draw, call_.replays)}, factor, count);
    return body;
  }

  Bytes unpack(const std::vector<codec::Source>& sources, size_t count, float factor) const {
    Bytes out(count * size_);
    run(sources, {out.data(), dtype_}, factor, count);
    return out;
  }

  float factor() const { return call_.op == ncclAvg ? 1.0f / static_cast<float>(ranks_) : 1.0f; }

  // The contributions to `owner`'s piece, whose elements begin at `first` in what everyone sends.
  std::vector<codec::Source> contributions(size_t owner, size_t first, size_t count,
                                           std::vector<Bytes>& storage) const {
    std::vector<codec::Source> sources;
    for (size_t p = 0; p < ranks_; ++p) {
      storage.push_back(p == owner ? Bytes() : encode(p, first, count, owner));
      sources.push_back(p == owner ? codec::Source{sent_[p].data() + first * size_, dtype_}
                                   : codec::Source{storage.back().data(), {}});
    }
    return sources;
  }

  Bytes one_shot() const {
    std::vector<Bytes> bodies;
    std::vector<codec::Source> sources;
    for (size_t p = 0; p < ranks_; ++p) bodies.push_back(encode(p, 0, call_.count, p));
    for (const Bytes& b : bodies) sources.push_back({b.data(), {}});
    return unpack(sources, call_.count, factor());
  }

  Bytes two_shot() const {
    const size_t block = call_.scheme.spec.block;
    const size_t shard = ((call_.count + ranks_ - 1) / ranks_ + block - 1) / block * block;
    Bytes result;
    for (size_t p = 0; p < ranks_; ++p) {
      const size_t first = std::min(p * shard, call_.count);
      const size_t count = std::min(shard, call_.count - first);
      std::vector<Bytes> storage;
      const Bytes body = pack(contributions(p, first, count, storage), count, factor(), p, p, 1);
      const Bytes out = unpack({{body.data(), {}}}, count, 1.0f);
      result.insert(result.end(), out.begin(), out.end());
    }
    return result;
  }

  Bytes gather() const {
    Bytes result;
    for (size_t p = 0; p < ranks_; ++p) {
      const Bytes body = encode(p, 0, call_.count, p);
      const Bytes out = unpack({{body.data(), {}}}, call_.count, 1.0f);
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
    codec::combine({.spec = call_.scheme.spec,
                    .sources = sources,
                    .target = target,
                    .factor = factor,
                    .total = count,
                    .count = count});
  }

  const Call& call_;
  const std::vector<Bytes>& sent_;
  const size_t ranks_;
  const Dtype dtype_;
  const size_t size_;
};

bool one_shot(const Call& call, size_t ranks) {
  if (call.scheme.algorithm != AlgorithmChoice::kAuto)
    return call.scheme.algorithm == AlgorithmChoice::kOneShot;
  return ranks == 2 || call.count * datatype_size(call.datatype) * ranks <= 64 * 1024;
}

}  // namespace

size_t send_count(const Call& call, int ranks) {
  return call.collective == Collective::kReduceScatter ? call.count * ranks : call.count;
}

size_t recv_count(const Call& call, int ranks) {
  return call.collective == Collective::kAllGather ? call.count * ranks : call.count;
}

std::vector<Bytes> expected(const Call& call, const std::vector<Bytes>& sent) {
  const size_t ranks = sent.size();
  const Reference reference(call, sent);
  std::vector<Bytes> result;
  for (size_t r = 0; r < ranks; ++r) {
    if (ranks == 1)
      result.push_back(sent[0]);
    else if (call.collective == Collective::kReduceScatter)
      result.push_back(reference.scatter(r));
    else if (r > 0)
      result.push_back(result[0]);
    else if (call.collective == Collective::kAllGather)
      result.push_back(reference.gather());
    else
      result.push_back(one_shot(call, ranks) ? reference.one_shot() : reference.two_shot());
  }
  return result;
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
  const size_t ranks = sent.size();
  std::vector<std::vector<double>> in;
  for (const Bytes& b : sent) in.push_back(values(b, call.datatype));
  std::vector<std::vector<double>> out(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    out[r].resize(recv_count(call, ranks));
    for (size_t i = 0; i < out[r].size(); ++i) {
      if (call.collective == Collective::kAllGather) {
        out[r][i] = in[i / call.count][i % call.count];
        continue;
      }
      const size_t from = call.collective == Collective::kReduceScatter ? r * call.count + i : i;
      for (const auto& v : in) out[r][i] += v[from];
      if (call.op == ncclAvg) out[r][i] /= static_cast<double>(ranks);
    }
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

Bytes gaussian(size_t count, ncclDataType_t datatype, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Bytes bytes(count * datatype_size(datatype));
  for (size_t i = 0; i < count; ++i) {
    const float x = normal(random);
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

}  // namespace terse::test
