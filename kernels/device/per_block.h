// Values that a codec has once per block, and how the machine may help with them.
#pragma once

#include "codec/codecs.h"
#include "kernels/arch/arch.h"

namespace terse::kernels {

// Values derived once per block. With finer scales, quantizer and dequantizer belong to the
// elements that share a scale.
template <class Codec>
struct PerBlock {
  using Quantizer = typename Codec::Quantizer;
  using Dequantizer = typename Codec::Dequantizer;

  static TERSE_DEVICE Quantizer quantizer(const codec::Params& p, const codec::Form& form) {
    return Codec::quantizer(p, form);
  }
  static TERSE_DEVICE Dequantizer dequantizer(const codec::Params& p, const codec::Form& form) {
    return Codec::dequantizer(p, form);
  }
};

template <codec::HasFinerScales Codec>
struct PerBlock<Codec> {
  using Quantizer = typename Codec::Finer;
  using Dequantizer = codec::Params;

  static TERSE_DEVICE Quantizer quantizer(const codec::Params& p, const codec::Form& form) {
    return Codec::finer(p, form);
  }
  static TERSE_DEVICE Dequantizer dequantizer(const codec::Params& p, const codec::Form&) {
    return p;
  }
};

// True if a format's codes are numbers that the machine converts.
template <class F>
constexpr bool kByMachine = false;
template <class F>
requires requires { typename F::Codec::Numbers; }
constexpr bool kByMachine<F> = simt::kConverts<typename F::Codec::Numbers, typename F::Raw>;

}  // namespace terse::kernels
