// All kernels of one number of bits, by what a KernelId says. What an entry is, its maker decides:
// on a GPU the address of a __global__ function, in tests a function that runs the same source on
// the CPU (fill_table.h).
#pragma once

#include "codec/codecs.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

// The widths of codes, each of which has a table of its own.
constexpr int kWidths[] = {2, 3, 4, 5, 6, 7, 8, 16};

constexpr size_t width_index(int bits) {
  size_t i = 0;
  while (kWidths[i] != bits) ++i;
  return i;
}

// Kernels of one width, without the transform and with it. Codecs are in the order of their list.
template <class Entry>
struct Table {
  Entry to_packed[2][codec::Codecs::kSize][codec::kRoundings][codec::kDtypes];
  Entry to_raw[2][codec::Codecs::kSize][codec::kDtypes];

  const Entry& find(const KernelId& id) const {
    const size_t codec = codec::index_of(id.spec.codec);
    const int raw = static_cast<int>(id.raw);
    return id.packed_target
               ? to_packed[id.transforms][codec][static_cast<int>(id.spec.rounding)][raw]
               : to_raw[id.transforms][codec][raw];
  }

  // Every kernel that there is: codecs lack some widths and roundings.
  template <class Visit>
  void for_each(Visit visit) const {
    const auto each = [&](const Entry(&row)[codec::kDtypes]) {
      for (const Entry entry : row)
        if (entry != nullptr) visit(entry);
    };
    for (const auto& codecs : to_packed)
      for (const auto& codec : codecs)
        for (const auto& row : codec) each(row);
    for (const auto& codecs : to_raw)
      for (const auto& row : codecs) each(row);
  }
};

}  // namespace terse::kernels
