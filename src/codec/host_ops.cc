// The host's block operations. This file and the headers in host/ are compiled once for each
// instruction set, with TERSE_ISA naming it: plain loops that the compiler vectorises. They call no
// inline function of the standard library: the linker could keep this copy for the whole program.
#include "codec/host_ops.h"

#include "codec/host/checks.h"
#include "codec/host/dequantize.h"
#include "codec/host/hadamard.h"
#include "codec/host/merge_codes.h"
#include "codec/host/quantize.h"
#include "codec/pack.h"

namespace terse::codec::TERSE_ISA {
namespace {

template <bool back>
void hadamard(size_t n, const void* in, void* out) {
  constexpr float kOfRest = back ? 1 / kLeftOver : kLeftOver;
  const size_t whole = n / kHadamard * kHadamard;
  const char* from = static_cast<const char*>(in);
  char* to = static_cast<char*>(out);
  for (size_t i = 0; i < whole; i += kHadamard)
    hadamard_group<back>(from + i * sizeof(float), to + i * sizeof(float));
  for (size_t i = whole; i < n; ++i)
    write(to, i, from_float<float>(mul(read<float>(from, i), kOfRest)));
}

void scale(float factor, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = mul(out[i], factor);
}

#define TERSE_STRING(x) #x
#define TERSE_NAME(x) TERSE_STRING(x)

// The roundings that the codec has.
template <class T, class Codec, Part part>
constexpr void fill_quantizers(decltype(CodecOps::quantize[0][0])& by_rounding) {
  using enum Rounding;
  constexpr Choices kHas = Codec::kDescriptor.roundings;
  if constexpr (has(kHas, kNearest)) by_rounding[0] = &quantize<T, Codec, kNearest, part>;
  if constexpr (has(kHas, kStochastic)) by_rounding[1] = &quantize<T, Codec, kStochastic, part>;
  if constexpr (has(kHas, kShift)) by_rounding[2] = &quantize<T, Codec, kShift, part>;
}

template <class Codec>
constexpr CodecOps ops_of() {
  CodecOps ops{};
  const auto of_type = [&]<class T>(T, Dtype dtype) {
    const int i = static_cast<int>(dtype);
    fill_quantizers<T, Codec, Part::kAll>(ops.quantize[0][i]);
    if constexpr (SharesGrid<Codec>) {
      fill_quantizers<T, Codec, Part::kParams>(ops.quantize[1][i]);
      fill_quantizers<T, Codec, Part::kCodes>(ops.quantize[2][i]);
    }
    ops.dequantize[i] = &dequantize<T, Codec, false>;
  };
  of_type(float{}, Dtype::kFloat32);
  of_type(half_t{}, Dtype::kFloat16);
  of_type(bfloat_t{}, Dtype::kBfloat16);
  ops.dequantize_add = &dequantize<float, Codec, true>;
  if constexpr (Merges<Codec>) {
    ops.merge[0] = &merge<Codec, Rounding::kNearest>;
    ops.merge[1] = &merge<Codec, Rounding::kStochastic>;
  }
  return ops;
}

constexpr HostOps make_ops() {
  HostOps ops = {
      TERSE_NAME(TERSE_ISA),
      {&load<float>, &load<half_t>, &load<bfloat_t>},
      {&load_add<float>, &load_add<half_t>, &load_add<bfloat_t>},
      {&store<float>, &store<half_t>, &store<bfloat_t>},
      {},
      {nullptr, nullptr, &pack<2>, &pack<3>, &pack<4>, &pack<5>, &pack<6>, &pack<7>, &pack<8>},
      {nullptr, nullptr, &unpack<2>, &unpack<3>, &unpack<4>, &unpack<5>, &unpack<6>, &unpack<7>,
       &unpack<8>},
      &scale,
      {&hadamard<false>, &hadamard<true>},
      &see,
      &check_packed,
  };
  size_t i = 0;
  Codecs::for_each([&]<class Codec>() { ops.codecs[i++] = ops_of<Codec>(); });
  return ops;
}

}  // namespace

extern const HostOps kOps;
constinit const HostOps kOps = make_ops();

}  // namespace terse::codec::TERSE_ISA
