// How many random cases a test tries.
#pragma once

namespace terse::test {

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

#ifdef TERSE_FEW_TRIALS  // where others try all of them
constexpr bool kFew = true;
#else
constexpr bool kFew = kSanitized;
#endif

// `all` of them, or only the first `few` in a sanitizer's build, where each takes several times as
// long, and on the SIMT executor. Those must be of every kind that there is.
constexpr int trials(int all, int few) { return kFew ? few : all; }

}  // namespace terse::test
