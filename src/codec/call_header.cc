#include "codec/call_header.h"

#include <atomic>

namespace terse::codec {
namespace {

CallHeader received(const HeaderWork& work, uint32_t index) {
  const uint32_t* const from = work.memory + begin_of(index);
  CallHeader header;
  for (uint32_t i = 0; i < CallHeader::kWords; ++i)
    header.word[i] =
        work.agreed ? other_word(work.own.word[i], from[i], from[CallHeader::kWords + i]) : from[i];
  return header;
}

}  // namespace

bool is_found(const Mismatch& mismatch) {
  const auto load = [](const uint32_t& word) {
    return std::atomic_ref(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
  };
  return load(mismatch.found) != 0 || load(mismatch.left) != 0;
}

void report(Mismatch& mismatch, const CallHeader& own, const CallHeader& other) {
  if (is_found(mismatch)) return;
  mismatch.own = own;
  mismatch.other = other;
  std::atomic_ref(mismatch.found).store(1, std::memory_order_release);
}

bool run(const HeaderWork& work) {
  if (work.stage == HeaderWork::Stage::kWrite) {
    for (uint32_t i = 0; i < words_of(work); ++i) work.memory[i] = first_word(work, i);
    return true;
  }
  bool alike = true;
  for (uint32_t i = work.first; i < work.first + work.count; ++i) {
    const CallHeader other = received(work, i);
    if (!differs(work.own, other)) continue;
    if (alike && is_header(other))
      work.memory[CallHeader::kWords + CallHeader::kFound] = found_word(work.own, other);
    alike = false;
    *work.memory = 1;
    if (is_header(other)) report(*work.report, work.own, other);
  }
  return alike;
}

}  // namespace terse::codec
