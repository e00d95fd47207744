#!/usr/bin/env bash
# Installs what building and testing terse needs on Debian or Ubuntu, and nothing when all is there.
# Asks for sudo only when something is missing and the user is not root.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git python3 python3-dev python3-venv
  libucx-dev libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libgtest-dev
  libbenchmark-dev libboost-context-dev libopenmpi-dev openmpi-bin iproute2 spin
)
for package in "$@"; do packages+=("$package"); done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

exec {lock}<"$0"  # one at a time, of this checkout
flock $lock
echo "installing: ${missing[*]}" >&2
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive
for package in "${missing[@]}"; do  # also libfmt-dev:arm64, of another architecture
  [ "${package%:*}" = "$package" ] || "${sudo[@]}" dpkg --add-architecture "${package##*:}"
done
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
