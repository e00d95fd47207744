// All kernels of one number of bits, by what a KernelId says. What an entry is, its maker decides:
// on a GPU the address of a __global__ function, in tests a function that runs the same source on
// the CPU (table_of.h).
#pragma once

#include "batch.h"

namespace terse::kernels {

template <class Entry>
struct Table {
  Entry to_packed[codec::kFamilies][codec::kRoundings][codec::kDtypes];
  Entry to_raw[codec::kFamilies][codec::kDtypes];

  const Entry& find(const KernelId& id) const {
    const int family = static_cast<int>(id.spec.family) - 1, raw = static_cast<int>(id.raw);
    return id.packed_target ? to_packed[family][static_cast<int>(id.spec.rounding)][raw]
                            : to_raw[family][raw];
  }

  // Every kernel that there is: families lack some roundings.
  template <class Visit>
  void for_each(Visit visit) const {
    const auto each = [&](const Entry(&row)[codec::kDtypes]) {
      for (const Entry entry : row)
        if (entry != nullptr) visit(entry);
    };
    for (const auto& family : to_packed)
      for (const auto& row : family) each(row);
    for (const auto& row : to_raw) each(row);
  }
};

}  // namespace terse::kernels
