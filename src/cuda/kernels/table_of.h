// Fills a table of kernels: Make::entry<Format, packed_target>() gives each entry.
#pragma once

#include "combine.h"
#include "table.h"

namespace terse::kernels {

template <class Make, int bits>
class TableOf {
 public:
  using Entry = decltype(Make::template entry<
                         Format<codec::Symmetric, bits, codec::Rounding::kNearest, float>, true>());

  static constexpr Table<Entry> make() {
    using codec::MinMax;
    using codec::Rounding;
    using codec::Symmetric;
    Table<Entry> t{};
    to_packed<Symmetric, Rounding::kNearest>(t);
    to_packed<Symmetric, Rounding::kStochastic>(t);
    to_packed<MinMax, Rounding::kNearest>(t);
    to_packed<MinMax, Rounding::kStochastic>(t);
    to_packed<MinMax, Rounding::kShift>(t);
    to_raw<Symmetric>(t);
    to_raw<MinMax>(t);
    return t;
  }

 private:
  template <class Family, codec::Rounding rounding>
  static constexpr void to_packed(Table<Entry>& t) {
    const int family = static_cast<int>(Family::kWire) - 1;
    fill<Family, rounding, true>(t.to_packed[family][static_cast<int>(rounding)]);
  }

  template <class Family>
  static constexpr void to_raw(Table<Entry>& t) {
    const int family = static_cast<int>(Family::kWire) - 1;
    fill<Family, codec::Rounding::kNearest, false>(t.to_raw[family]);
  }

  // In the order of codec::Dtype.
  template <class Family, codec::Rounding rounding, bool packed>
  static constexpr void fill(Entry* row) {
    row[0] = Make::template entry<Format<Family, bits, rounding, float>, packed>();
    row[1] = Make::template entry<Format<Family, bits, rounding, codec::half_t>, packed>();
    row[2] = Make::template entry<Format<Family, bits, rounding, codec::bfloat_t>, packed>();
  }
};

}  // namespace terse::kernels
