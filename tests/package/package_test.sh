#!/usr/bin/env bash
# package_test.sh BUILD_DIR: installs it to a scratch prefix and uses it as a stranger would.
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
# What was installed from this build, by whom it may be to be uninstalled.
manifest=$build/install_manifest.txt
[ ! -e "$manifest" ] || cp -p "$manifest" "$scratch/manifest"
restore() {
  rm -f "$manifest"
  [ ! -e "$scratch/manifest" ] || cp -p "$scratch/manifest" "$manifest"
}
trap 'restore; rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() { echo "FAILED: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$prefix" >/dev/null
for file in lib/libterse.so lib/libterse_nccl.so lib/terse/hostnccl/libnccl.so.2 \
    lib/terse/nccl_facade.blank lib/pkgconfig/terse.pc \
    include/terse/terse.h lib/cmake/terse/terseConfig.cmake bin/terse \
    bin/{all_reduce,all_gather,reduce_scatter,broadcast,reduce,alltoall,alltoallv}_perf \
    bin/{gather,scatter,sendrecv,hypercube}_perf lib/terse/python/terse/models/__init__.py \
    share/man/man1/terse.1 share/bash-completion/completions/terse share/zsh/site-functions/_terse \
    share/fish/vendor_completions.d/terse.fish \
    share/terse/examples/policy.toml share/terse/examples/forecast/sdp4bit-6.7b-64-a100.toml; do
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

"$here/libraries_test.sh" "$prefix"

# A consumer.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
extra=
if [ "$(cached TERSE_SANITIZE)" != OFF ]; then  # by the same compiler, whose run-time it shares
  CC=$(cached CMAKE_C_COMPILER)
  export CC
  extra=-fsanitize=$(cached TERSE_SANITIZE)
  run_time=$("$CC" -print-file-name="libclang_rt.asan-$(uname -m).so")
  [[ $run_time != /* ]] || extra+=" -shared-libasan -Wl,-rpath,$(dirname "$run_time")"
fi
cmake -G Ninja -S "$here/consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE="$(cached CMAKE_BUILD_TYPE)" -DCMAKE_C_FLAGS="$extra" >/dev/null
cmake --build "$scratch/build" >/dev/null
"$scratch/build/consumer" || fail "the consumer's exit status is $?"
flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs terse)
"${CC:-cc}" -o "$scratch/consumer" "$here/consumer/consumer.c" $flags $extra -Wl,-rpath,"$prefix/lib"
"$scratch/consumer" >/dev/null || fail "the consumer of terse.pc: its exit status is $?"
readelf -d "$scratch/consumer" | grep -q 'NEEDED.*\[libterse.so.0.1\]' ||
  fail "a program does not name the version of libterse.so"
version=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion terse)

# The first line, which others read, and facts of the build.
"$prefix/bin/terse" --version >"$scratch/version"
[ "$(head -1 "$scratch/version")" = "terse $version" ] || fail "terse --version is not of $version"
grep -q "^hostnccl     $prefix/lib/terse/hostnccl/libnccl.so.2$" "$scratch/version" ||
  fail "terse --version does not name hostnccl"
for fact in 'commit       ([0-9a-f]{12}(-dirty)?|not known)' 'compiler     [A-Za-z]+ [0-9.]+' \
    'CUDA module  (nvcc [0-9.]+ for .*|none)'; do
  grep -qE "^$fact$" "$scratch/version" || fail "terse --version has no $fact"
done
rm "$prefix/lib/terse/hostnccl/libnccl.so.2"
"$prefix/bin/terse" --version | grep -q '^hostnccl     none$' || fail "there is no hostnccl, and terse --version has it"
"$prefix/bin/terse" run --dry-run -- true | grep -q "^export LD_PRELOAD=$prefix/lib/libterse_nccl.so" ||
  fail "terse run --dry-run"
# A sanitizer cannot be opened later than the program.
if ! nm -D "$prefix/lib/libterse.so" | grep -q __asan; then
  module=$(cd "$scratch" && PYTHONPATH=$prefix/lib/terse/python python3 -c \
    'import terse; assert not terse.active(); print(terse.version())')
  [ "$module" = "$version" ] || fail "the Python module's version is $module"
fi
[ -z "$(find "$prefix/lib/terse/python" -type f ! -name '*.py' ! -name '*.pyc')" ] ||
  fail "more than the Python module is in its folder"

# It can be removed again; what is not its own stays.
cmake --install "$build" --prefix "$scratch/gone" >/dev/null
mkdir "$scratch/gone/lib/terse/python/terse/__pycache__"
touch "$scratch/gone/lib/terse/of_somebody_else" "$scratch/gone/lib/terse/python/terse/__pycache__/module.pyc"
uninstall() { cmake -D MANIFEST="$manifest" -P "$here/../../cmake/uninstall.cmake"; }
uninstall
left=$(cd "$scratch/gone" && find . -path '*terse*')
[ "$(sort <<<"$left" | tr '\n' ' ')" = "./lib/terse ./lib/terse/of_somebody_else " ] ||
  fail "uninstalled, there is left: $left"
[ -z "$(find "$scratch/gone" -type f ! -name of_somebody_else)" ] || fail "uninstalled, files are left"

# What cannot be removed is an error: here a folder, where a file was.
# CMake breaks lines of what is said, in places that depend on the length of paths.
says() { tr -s ' \n' ' ' <"$scratch/said" | grep -q "$1" || fail "not said: $1"; }
if uninstall 2>"$scratch/said"; then fail "nothing was there to be uninstalled, and nobody said so"; fi
says "names nothing is there"
unremovable=$(head -1 "$manifest")
mkdir -p "$unremovable/something"
if uninstall 2>"$scratch/said"; then fail "$unremovable was not removed, and nobody said so"; fi
says "$unremovable cannot be removed"

# Each package has its own part, and no file is in two.
for component in terse programs python dev hostnccl; do
  cmake --install "$build" --prefix "$scratch/$component" --component $component >/dev/null
  (cd "$scratch/$component" && find . ! -type d | sed "s|^|$component |")
done | sort -k2 >"$scratch/parts"
twice=$(awk '{print $2}' "$scratch/parts" | uniq -d)
[ -z "$twice" ] || fail "in two packages: $twice"
grep -q '^dev ./lib/libterse.so$' "$scratch/parts" || fail "the link libterse.so is not in dev"
grep -q '^terse ./lib/libterse.so.0.1$' "$scratch/parts" || fail "libterse.so.0.1 is not in terse"
grep -E 'hostnccl|pytorch' "$scratch/parts" | grep -v '^hostnccl ' && fail "parts of hostnccl are elsewhere"
echo "package: all is where it belongs"
