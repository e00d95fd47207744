// What ranks tell each other, in words of fixed size.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "policy/settings.h"

namespace terse {

// A text: its beginning, which people read, and a fingerprint of all of it.
template <size_t bytes>
struct WireText {
  WireText() = default;
  explicit WireText(std::string_view all)
      : hash(fingerprint(all)), size(static_cast<uint32_t>(all.size())) {
    all.copy(text.data(), text.size());
  }
  bool operator==(const WireText& other) const { return hash == other.hash && size == other.size; }

  bool empty() const { return size == 0; }

  // With "..." where it goes on.
  std::string beginning() const {
    if (size <= text.size()) return {text.data(), size};
    return std::string(text.data(), text.size()) + "...";
  }
  std::string quoted() const { return '"' + beginning() + '"'; }

  uint64_t hash = fingerprint("");
  uint32_t size = 0;
  std::array<char, bytes - sizeof hash - sizeof size> text{};
};

// A rank's settings.
struct SettingsDigest {
  SettingsDigest() = default;
  explicit SettingsDigest(const Settings& settings);

  WireText<192> error;  // of one that cannot be read; empty: all can
  WireText<128> policy;
  WireText<80> profile;
  WireText<64> levels;
  std::array<uint64_t, kSharedNumbers> numbers{};
};

// What is not alike that must be, of another rank's and this rank's; "": all is.
std::string differences(const SettingsDigest& theirs, const SettingsDigest& mine, int rank);

}  // namespace terse
