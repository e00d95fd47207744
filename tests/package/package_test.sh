#!/usr/bin/env bash
# package_test.sh BUILD_DIR: installs it to a scratch prefix and uses it as a stranger would.
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() { echo "FAILED: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$prefix" >/dev/null
for file in lib/libterse.so lib/libterse_nccl.so lib/terse/hostnccl/libnccl.so.2 \
    lib/terse/nccl_facade.blank \
    include/terse/terse.h lib/cmake/terse/terseConfig.cmake bin/terse \
    bin/{all_reduce,all_gather,reduce_scatter,broadcast,reduce,alltoall,alltoallv}_perf \
    bin/{gather,scatter,sendrecv,hypercube}_perf lib/terse/python/terse/models/__init__.py \
    share/man/man1/terse.1 share/bash-completion/completions/terse share/zsh/site-functions/_terse \
    share/fish/vendor_completions.d/terse.fish; do
  [ -e "$prefix/$file" ] || fail "$file is not installed"
done

# The header is C89, on its own.
for standard in c89 c99 c11; do
  echo '#include <terse/terse.h>' | cc -std=$standard -pedantic -Wall -Wextra -Werror \
    -I"$prefix/include" -fsyntax-only -x c - || fail "terse.h is not clean $standard"
done
for order in 'nccl.h terse/terse.h' 'terse/terse.h nccl.h'; do
  for language in c c++; do
    printf '#include <%s>\n' $order | cc -Wall -Wextra -Werror -I"$prefix/include" \
      -I"$prefix/lib/terse/hostnccl/include" -fsyntax-only -x "$language" - ||
      fail "terse.h with nccl.h ($order) in $language"
  done
done

# Exports, and what the libraries ask for. A sanitizer build exports more, and asks for more.
exports() { nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//'; }
if ! nm -D "$prefix/lib/libterse.so" | grep -q __asan; then
  strangers=$(exports "$prefix/lib/libterse.so" | grep -v '^terse' || true)
  [ -z "$strangers" ] || fail "libterse.so exports $strangers"
  strangers=$(exports "$prefix/lib/libterse_nccl.so" |
    grep -vE '^p?nccl|^dl(open|sym)$|^terse(InterposerMark|Preload(Exclude|GetLevels|Policy|SetLevels|Stats|Version))$' || true)
  [ -z "$strangers" ] || fail "libterse_nccl.so exports $strangers"
fi
for library in libterse.so libterse_nccl.so; do
  if readelf -d "$prefix/lib/$library" | grep NEEDED | grep -qiE 'cuda|nccl'; then
    fail "$library needs CUDA or NCCL"
  fi
done
readelf -d "$prefix/lib/libterse_nccl.so" | grep -q SONAME && fail "the preload library has a SONAME"

# A consumer.
flags=$(grep '^CMAKE_BUILD_TYPE' "$build/CMakeCache.txt" | cut -d= -f2)
sanitize=$(sed -n 's/^TERSE_SANITIZE:BOOL=//p' "$build/CMakeCache.txt")
[ "$sanitize" = ON ] && extra=-fsanitize=address,undefined || extra=
cmake -G Ninja -S "$here/consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE="$flags" -DCMAKE_C_FLAGS="$extra" >/dev/null
cmake --build "$scratch/build" >/dev/null
"$scratch/build/consumer" || fail "the consumer's exit status is $?"
"$prefix/bin/terse" --version | grep -q '^terse ' || fail "terse --version"
"$prefix/bin/terse" run --dry-run -- true | grep -q "^LD_PRELOAD=$prefix/lib/libterse_nccl.so" ||
  fail "terse run --dry-run"
# A sanitizer cannot be opened later than the program.
if ! nm -D "$prefix/lib/libterse.so" | grep -q __asan; then
  version=$(cd "$scratch" && PYTHONPATH=$prefix/lib/terse/python python3 -c \
    'import terse; assert not terse.active(); print(terse.version())')
  [ "terse $version" = "$("$prefix/bin/terse" --version)" ] || fail "the Python module's version is $version"
fi
[ -z "$(find "$prefix/lib/terse/python" -type f ! -name '*.py' ! -name '*.pyc')" ] ||
  fail "more than the Python module is in its folder"
echo "package: all is where it belongs"
