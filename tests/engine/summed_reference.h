// What sums of a shared grid must give, which NCCL forms or the owners of shards, byte for byte: by
// the codec alone, and integers.
#pragma once

#include "reference.h"

namespace terse::test {

// Whether the call's scheme is of a shared grid.
bool is_summed(const Call& call);

std::vector<Bytes> expected_summed(const Call& call, const std::vector<Bytes>& sent);

}  // namespace terse::test
