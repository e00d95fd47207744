#include "codec/learning.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "codec/codebook.h"
#include "codec/float16.h"
#include "codec/float_mode.h"

namespace terse::codec {
namespace {

template <class T>
struct Elements {
  const char* data;
  size_t count;

  float operator[](size_t i) const {
    T element;
    std::memcpy(&element, data + i * sizeof(T), sizeof(T));
    return to_float(element);
  }
};

// f(a block's elements, their extent)
template <class T, class Function>
void for_each_block(const Learning& work, const Function& f) {
  const char* const data = static_cast<const char*>(work.data);
  for (size_t first = 0; first < work.count; first += work.block) {
    const Elements<T> block{data + first * sizeof(T),
                            std::min<size_t>(work.block, work.count - first)};
    Learned::Stats extent;
    for (size_t i = 0; i < block.count; ++i) observe(extent, block[i]);
    f(block, extent);
  }
}

template <class T>
void find_widest(const Learning& work) {
  *work.state = {};
  uint32_t& widest = work.state->widest;
  for_each_block<T>(work, [&](const auto&, const Learned::Stats& extent) {
    widest = std::max(widest, range_bits(extent));
  });
}

template <class T>
void add_to_histogram(const Learning& work) {
  LearningState& state = *work.state;
  for_each_block<T>(work, [&](const Elements<T>& block, const Learned::Stats& extent) {
    const uint32_t weight = element_weight(range_bits(extent), state.widest);
    if (weight == 0) return;
    const Bins bins(extent);
    for (size_t i = 0; i < block.count; ++i) state.bins[bins.of(block[i])] += weight;
  });
}

// Sums over bins.
class BinSums {
 public:
  // value(bin) -> uint64_t
  template <class Value>
  explicit BinSums(const Value& value) {
    for (uint32_t i = 0; i < kBins; ++i) below_[i + 1] = below_[i] + value(i);
  }
  uint64_t total() const { return below_[kBins]; }
  double at(uint32_t i) const { return static_cast<double>(below_[i]); }

 private:
  std::array<uint64_t, kBins + 1> below_{};
};

using LevelPlaces = std::array<double, codebook_levels(kMaxBits)>;

void write_table(const LevelPlaces& places, int bits, float* table) {
  const size_t n = codebook_levels(bits);
  for (size_t j = 0; j < n; ++j) table[j] = level_of(places[j]);
  for (size_t j = 0; j < n; ++j) complete_codebook(table, bits, j);
}

void fit(const Learning& work) {
  const uint64_t* const bins = work.state->bins;
  const int total = bits_of(BinSums([=](uint32_t i) { return bins[i]; }).total());
  if (total == 0) return;
  const auto weight = [=](uint32_t i) { return shifted_weight(bins[i], total); };
  const BinSums weights(weight), moments([&](uint32_t i) { return moment_of(weight(i), i); }),
      densities([&](uint32_t i) { return density_of(weight(i)); });
  const uint32_t n = static_cast<uint32_t>(codebook_levels(work.bits));
  LevelPlaces places{}, next{};
  for (uint32_t j = 0; j < n; ++j) places[j] = first_place(densities, j, n, work.rounding);
  for (uint32_t step = 0; step < kFitSteps; ++step) {
    for (uint32_t j = 0; j < n; ++j)
      next[j] = next_place(weights, moments, places, j, n, work.rounding, step);
    places = next;
  }
  write_table(places, work.bits, work.table);
}

}  // namespace

void learn(const Learning& work) {
  const DefaultFloatMode mode;
  using Stages = void (*)(const Learning&);
  static constexpr Stages kWidest[] = {&find_widest<float>, &find_widest<half_t>,
                                       &find_widest<bfloat_t>};
  static constexpr Stages kHistogram[] = {&add_to_histogram<float>, &add_to_histogram<half_t>,
                                          &add_to_histogram<bfloat_t>};
  static_assert(std::size(kWidest) == kDtypes && std::size(kHistogram) == kDtypes);
  const size_t dtype = static_cast<size_t>(work.dtype);
  switch (work.stage) {
    case Learning::Stage::kWidest:
      return kWidest[dtype](work);
    case Learning::Stage::kHistogram:
      return kHistogram[dtype](work);
    case Learning::Stage::kFit:
      return fit(work);
  }
}

}  // namespace terse::codec
