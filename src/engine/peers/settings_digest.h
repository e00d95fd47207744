// Texts and settings that ranks exchange, in words of fixed size.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "policy/settings.h"

namespace terse {

// Text on the wire: its beginning, for people, and a fingerprint of all of it.
template <size_t bytes>
struct WireText {
  WireText() = default;
  explicit WireText(std::string_view all)
      : hash(fingerprint(all)), size(static_cast<uint32_t>(all.size())) {
    all.copy(text.data(), text.size());
  }
  bool operator==(const WireText& other) const { return hash == other.hash && size == other.size; }

  bool empty() const { return size == 0; }

  // Beginning, with "..." if it goes on.
  std::string beginning() const {
    if (size <= text.size()) return {text.data(), size};
    return std::string(text.data(), text.size()) + "...";
  }
  std::string quoted() const { return '"' + beginning() + '"'; }

  uint64_t hash = fingerprint("");
  uint32_t size = 0;
  std::array<char, bytes - sizeof hash - sizeof size> text{};
};

// Settings of a rank.
struct SettingsDigest {
  SettingsDigest() = default;
  explicit SettingsDigest(const Settings& settings);

  uint64_t variables = 0;  // hash of the names of what `numbers` are
  WireText<192> error;     // of settings that cannot be read; empty: they can
  WireText<128> policy;
  WireText<80> profile;
  WireText<64> levels;
  std::array<uint64_t, kSharedNumbers> numbers{};
};

// Settings that must be alike and differ, between another rank and this one; "": none.
std::string differences(const SettingsDigest& theirs, const SettingsDigest& mine, int rank);

}  // namespace terse
