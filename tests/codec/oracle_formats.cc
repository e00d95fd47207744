// Which formats there are. What they do is in the files of their families.
#include "oracle_formats.h"

#include "oracle_block.h"
#include "oracle_families.h"

namespace oracle {
namespace {

const Format kFormats[] = {
    {1, 2, 8, 32, 4096, 1, true, false, 4, encode_symmetric, decode_symmetric},
    {2, 2, 8, 32, 4096, 2, false, false, 0, encode_min_max, decode_min_max},
    {3, 2, 8, 32, 4096, 1, true, false, 4, encode_fitted, decode_fitted},
    {4, 16, 16, 32, 32, 0, false, false, 0, encode_bf16, decode_bf16},
    {5, 16, 16, 32, 32, 0, false, false, 0, encode_fp16, decode_fp16},
    {6, 8, 8, 32, 4096, 1, false, false, 0, encode_fp8e4m3, decode_e4m3},
    {7, 8, 8, 32, 4096, 1, false, false, 0, encode_fp8e5m2, decode_e5m2},
    {8, 8, 8, 32, 32, 1, false, true, 0, encode_mxfp8, decode_e4m3},
    {9, 6, 6, 32, 32, 1, false, true, 0, encode_mxfp6, decode_e2m3},
    {10, 4, 4, 32, 32, 1, false, true, 4, encode_mxfp4, decode_e2m1},
    {11, 4, 4, 4096, 4096, 1, false, false, 0, encode_nvfp4, decode_nvfp4, 16},
    {12, 8, 8, 32, 4096, 1, true, false, 0, encode_linear, decode_linear},
    {13, 16, 16, 32, 4096, 1, true, false, 0, encode_linear, decode_linear},
    {14, 8, 8, 32, 4096, 1, true, false, 0, encode_exponential, decode_exponential},
    {15, 2, 8, 32, 4096, 2, false, false, 0, encode_learned, decode_learned},
};

}  // namespace

float uniform(const Stream& stream, uint64_t element) {
  return static_cast<float>((random16(stream, element) + 0.5) / 65536);
}

float spread_uniform(const Stream& stream, uint64_t first, uint64_t i) {
  const uint64_t r = (random16(stream, first) + 40503 * i) % 65536;
  return static_cast<float>((static_cast<double>(r) + 0.5) / 65536);
}

const Format* format(int number) {
  for (const Format& f : kFormats)
    if (f.number == number) return &f;
  return nullptr;
}

}  // namespace oracle
