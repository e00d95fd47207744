// Presets: schemes by collective under one name, usable wherever a rule names a scheme.
//
// A preset compresses what reduces, and of AllGather the 16-bit types: all ranks end with the same
// bytes. AllGather in fp32 is native, for programs compute from what it gathers what all ranks must
// agree on: metrics, losses, the states of a checkpoint. Presets for weights have a variant that
// compresses it, too (`safe-fsdp32`): for FSDP with fp32 weights, where a rank's own shard stays
// exact (own=exact), and so results differ between ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/names.h"

namespace terse {

struct PresetPart {
  Set collectives = 0;  // none: all that the parts before lack
  Set dtypes = 0;       // none: any
  std::string scheme;
};

struct Preset {
  std::string name;
  std::vector<PresetPart> parts;
  std::string meaning;    // purpose and source
  std::string fp32_name;  // variant that compresses AllGather in fp32; empty: none
};

// Lists each preset, and behind it its variant for fp32 weights where it has one.
std::span<const Preset> presets();

// Returns null if there is none of this name.
const Preset* find_preset(std::string_view name);

}  // namespace terse
