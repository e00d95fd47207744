// Fills a table of kernels: Make::entry<Format, packed_target>() gives each entry.
#pragma once

#include "kernels/device/combine.h"
#include "kernels/device/kernel_table.h"

namespace terse::kernels {

template <class Make, int bits>
class TableOf {
 public:
  using Entry =
      decltype(Make::template entry<
               Format<codec::Symmetric, 8, codec::Rounding::kNearest, float, false>, true>());

  static constexpr Table<Entry> make() {
    Table<Entry> t{};
    size_t i = 0;
    codec::Codecs::for_each([&]<class Codec>() {
      constexpr codec::Descriptor kCodec = Codec::kDescriptor;
      if constexpr (bits >= kCodec.min_bits && bits <= kCodec.max_bits) add<Codec, false>(t, i);
      if constexpr (bits >= kCodec.min_bits && bits <= kCodec.max_hadamard_bits)
        add<Codec, true>(t, i);
      ++i;
    });
    return t;
  }

 private:
  template <class Codec, bool transforms>
  static constexpr void add(Table<Entry>& t, size_t codec) {
    using enum codec::Rounding;
    auto& packed = t.to_packed[transforms][codec];
    fill<Codec, kNearest, transforms, false>(t.to_raw[transforms][codec]);
    to_packed<Codec, kNearest, transforms>(packed);
    to_packed<Codec, kStochastic, transforms>(packed);
    to_packed<Codec, kShift, transforms>(packed);
  }

  template <class Codec, codec::Rounding rounding, bool transforms>
  static constexpr void to_packed(Entry (&rows)[codec::kRoundings][codec::kDtypes]) {
    if constexpr (codec::has(Codec::kDescriptor.roundings, rounding))
      fill<Codec, rounding, transforms, true>(rows[static_cast<int>(rounding)]);
  }

  // Fills entries in the order of codec::Dtype.
  template <class Codec, codec::Rounding rounding, bool transforms, bool packed>
  static constexpr void fill(Entry (&row)[codec::kDtypes]) {
    static_assert(codec::kDtypes == 3);
    row[0] = Make::template entry<Format<Codec, bits, rounding, float, transforms>, packed>();
    row[1] =
        Make::template entry<Format<Codec, bits, rounding, codec::half_t, transforms>, packed>();
    row[2] =
        Make::template entry<Format<Codec, bits, rounding, codec::bfloat_t, transforms>, packed>();
  }
};

}  // namespace terse::kernels
