// What the formats do with one block, each written from its paragraph of FORMAT.md's section 4.
#pragma once

#include "oracle_formats.h"

namespace oracle {

// oracle_integers.cc
Encode encode_symmetric, encode_min_max, encode_fitted;
Decode decode_symmetric, decode_min_max, decode_fitted;

// oracle_small_floats.cc
Encode encode_fp8e4m3, encode_fp8e5m2, encode_mxfp8, encode_mxfp6, encode_mxfp4, encode_nvfp4;
Decode decode_e4m3, decode_e5m2, decode_e2m3, decode_e2m1, decode_nvfp4;
Encode encode_bf16, encode_fp16;
Decode decode_bf16, decode_fp16;

// oracle_grids.cc
Encode encode_linear, encode_exponential;
Decode decode_linear, decode_exponential;

// oracle_learned.cc
Encode encode_learned;
Decode decode_learned;

}  // namespace oracle
