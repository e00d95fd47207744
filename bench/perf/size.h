// Sizes as people write them: 8, 1K, 64M, 1G.
#ifndef TERSE_BENCH_PERF_SIZE_H_
#define TERSE_BENCH_PERF_SIZE_H_

#include <cstddef>
#include <string>

namespace terse::perf {

// Reads a non-negative number with an optional suffix K, M, G or T (either case, powers of 1024),
// fractions allowed (1.5M). Throws std::invalid_argument, naming the text, on anything else.
std::size_t ParseSize(const std::string& text);

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_SIZE_H_
