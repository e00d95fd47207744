// Native collectives beside an algorithm, as steps of its plan: elements of a message that stay
// exact; the whole call once more, to know the plan's error; and before all that the learning of
// levels, where the ranks reduce what each knows of its own elements.
//
// Elements that stay exact are carried natively, too, to a place in scratch, before the plan, which
// may change what they are sent from; in the end they overwrite what the plan made of them. So the
// algorithms and the wire format know nothing of them. QSDP keeps norms and biases out of its
// quantization like this (section 5; their share of the bytes is small). They lie side by side in
// one native call of the same kind; or, if they are in a few shards, so that the others' rows would
// be padding, each range of a shard has a call with a root.
#pragma once

#include <span>

#include "plan/chunks.h"

namespace terse::plan {

struct NativeExtras {
  // Elements of the whole message that stay exact, in order and apart; where every rank has a
  // shard, a range may reach over several.
  std::span<const Range> exact = {};
  bool verified = false;  // the native result comes to Region::kExact
  bool learns = false;    // the levels, of what is sent
};

// Returns true if calls of this kind may have elements that stay exact.
bool may_keep_exact(Collective collective);

// The plan of a call, and what is to be done beside it.
Plan with(Plan plan, Collective collective, const Shape& shape, const NativeExtras& extras);

}  // namespace terse::plan
