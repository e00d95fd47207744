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

// `all` of them, or only the first `sanitized` in a sanitizer's build, where each takes several
// times as long. Those must be of every kind that there is.
constexpr int trials(int all, int sanitized) { return kSanitized ? sanitized : all; }

}  // namespace terse::test
