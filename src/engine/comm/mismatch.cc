#include "engine/comm/mismatch.h"

#include <fmt/format.h>

#include <new>

#include "policy/names.h"

namespace terse {
namespace {

using codec::CallHeader;

std::string describe(const CallHeader& header) {
  constexpr const char* kOperations[] = {"", ", sum", ", avg", ", premulsum"};
  const CallClass of = unpack_class(header.word[CallHeader::kKind]);
  const uint64_t count =
      header.word[CallHeader::kCount] | uint64_t{header.word[CallHeader::kCount + 1]} << 32;
  std::string text = fmt::format("{} of {} {}{}", plan::name(of.collective), count,
                                 print_dtype(of.dtype), kOperations[static_cast<int>(of.reduces)]);
  if (plan::traits(of.collective).rooted)
    text += fmt::format(", root {}", header.word[CallHeader::kRoot]);
  return text;
}

}  // namespace

uint32_t pack(const CallClass& of) {
  return static_cast<uint32_t>(of.collective) | static_cast<uint32_t>(of.dtype) << 8 |
         static_cast<uint32_t>(of.reduces) << 16;
}

CallClass unpack_class(uint32_t word) {
  return {static_cast<plan::Collective>(word & 0xff), static_cast<codec::Dtype>(word >> 8 & 0xff),
          static_cast<CallClass::Reduces>(word >> 16 & 0xff)};
}

std::string describe(const codec::Mismatch& mismatch) {
  const CallHeader &own = mismatch.own, &other = mismatch.other;
  const uint32_t sender = other.word[CallHeader::kSender];
  const bool same_scheme = own.word[CallHeader::kScheme] == other.word[CallHeader::kScheme];
  return fmt::format("the ranks are at different calls: this one at {}, {} at {}{}", describe(own),
                     sender == kNoSender ? "another one" : fmt::format("rank {}", sender),
                     describe(other), same_scheme ? "" : " by another scheme");
}

MismatchReport::~MismatchReport() {
  if (codec::Mismatch* const report = report_) backend_.release_visible(report);
}

codec::Mismatch* MismatchReport::reserve() {
  if (codec::Mismatch* const known = report_.load(std::memory_order_relaxed)) return known;
  auto* const made = new (backend_.allocate_visible(sizeof(codec::Mismatch))) codec::Mismatch{};
  report_.store(made, std::memory_order_release);
  return made;
}

}  // namespace terse
