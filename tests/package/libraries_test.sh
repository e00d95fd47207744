#!/usr/bin/env bash
# libraries_test.sh PREFIX: what the two installed libraries export, need and are called.
set -euo pipefail
lib=$1/lib
library=libterse.so.0.1

fail() { echo "FAILED: $*" >&2; exit 1; }

# Exports, and what the libraries ask for. A sanitizer build exports more, and asks for more.
exports() { nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//'; }
if ! nm -D "$lib/$library" | grep -q __asan; then
  strangers=$(exports "$lib/$library" | grep -v '^terse' || true)
  [ -z "$strangers" ] || fail "libterse.so exports $strangers"
  for each in $(grep -v '^#' "$1/include/terse/terse.h" | grep -oE '^TERSE_API[^(]*' | awk '{print $NF}' |
                grep -v '^tersePreload'); do
    exports "$lib/$library" | grep -qx "$each" || fail "libterse.so does not export $each"
  done
  strangers=$(exports "$lib/libterse_nccl.so" |
    grep -vE '^p?nccl|^dl(open|sym)$|^terse(InterposerMark|Preload(Exclude|GetLevels|Pause|Scheme|Policy|SetLevels|Stats|Version))$' || true)
  [ -z "$strangers" ] || fail "libterse_nccl.so exports $strangers"
fi
for each in $library libterse_nccl.so; do
  if readelf -d "$lib/$each" | grep NEEDED | grep -qiE 'cuda|nccl'; then
    fail "$each needs CUDA or NCCL"
  fi
done
readelf -d "$lib/libterse_nccl.so" | grep -q SONAME && fail "the preload library has a SONAME"
readelf -d "$lib/$library" | grep -q "SONAME.*\[$library\]" || fail "$library has another SONAME"
