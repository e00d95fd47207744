#include "engine/comm/mismatch.h"

#include <fmt/format.h>

#include <new>
#include <utility>

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
  if (mismatch.found == 0)
    return fmt::format("rank {} has left, for which a call waited", mismatch.left - 1);
  const CallHeader& own = mismatch.own;
  CallHeader other = mismatch.other;
  const uint32_t found = std::exchange(other.word[CallHeader::kFound], 0);
  if (found != 0 && !codec::differs(own, other))
    return fmt::format(
        "the ranks are at different calls: this one at {}, rank {} at another one, "
        "as rank {} has found",
        describe(own), found - 1, other.word[CallHeader::kSender]);
  const uint32_t sender = other.word[CallHeader::kSender];
  const bool same_scheme = own.word[CallHeader::kScheme] == other.word[CallHeader::kScheme];
  return fmt::format("the ranks are at different calls: this one at {}, {} at {}{}", describe(own),
                     sender == kNoSender ? "another one" : fmt::format("rank {}", sender),
                     describe(other), same_scheme ? "" : " by another scheme");
}

MismatchReport::~MismatchReport() {
  if (Visible* const own = visible_) backend_.release_visible(own);
}

codec::Mismatch* MismatchReport::reserve() {
  if (Visible* const known = visible_.load(std::memory_order_relaxed)) return &known->mismatch;
  auto* const made = new (backend_.allocate_visible(sizeof(Visible))) Visible{};
  visible_ = made;
  return &made->mismatch;
}

// A call that is about to look at the word sees that they have ended, or this sees its memory.
bool MismatchReport::end_waits() const noexcept {
  ended_ = true;
  set_end(1);
  return waits_;
}

void MismatchReport::take_back_end() const noexcept {
  ended_ = false;
  set_end(0);
}

void MismatchReport::set_end(uint32_t value) const noexcept {
  if (Visible* const own = visible_)
    std::atomic_ref(own->end_of_waits).store(value, std::memory_order_release);
}

}  // namespace terse
