// Presets: schemes by collective under one name, usable wherever a rule names a scheme.
#pragma once

#include <span>
#include <string_view>

#include "policy/names.h"

namespace terse {

struct PresetPart {
  Set collectives;  // none: all that the parts before do not have
  std::string_view scheme;
};

struct Preset {
  std::string_view name;
  std::span<const PresetPart> parts;
  std::string_view meaning;  // what it is for, and where it comes from
};

std::span<const Preset> presets();

// Null when there is none of this name.
const Preset* find_preset(std::string_view name);

}  // namespace terse
