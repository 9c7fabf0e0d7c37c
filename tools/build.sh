#!/usr/bin/env bash
# Configures a preset where needed and builds a target of it.
#   tools/build.sh PRESET TARGET [-DNAME=VALUE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1 target=$2
shift 2

if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null; then
  printf 'build: cmake (3.25 or later) and ninja are needed. On Debian and Ubuntu: tools/setup.sh build\n' >&2
  exit 1
fi
version=$(cmake --version)
if [[ $version =~ version\ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] < 325)); then
  printf 'build: cmake %s is too old: 3.25 or later is needed. Debian 12 and Ubuntu 24.04 have it; elsewhere: pip install cmake\n' \
    "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}" >&2
  exit 1
fi
# The compiler of the environment wins over that of the preset.
if [[ ${CXX-} ]]; then set -- "$@" "-DCMAKE_CXX_COMPILER=$CXX"; fi
compiler=${CXX-clang++-19}
if ! command -v "$compiler" >/dev/null; then
  printf "build: there is no compiler '%s'. Install it (tools/setup.sh build), or name another: CXX=clang++ make\n" \
    "$compiler" >&2
  exit 1
fi
folder=build/$preset

# Ninja itself configures again when a CMake file has changed. This detects only a missing or differently configured tree.
configured=1
[[ -f $folder/build.ninja ]] || configured=''
for setting; do
  name=${setting#-D}
  grep -qs "^${name%%=*}:[A-Z]*=${name#*=}\$" "$folder/CMakeCache.txt" || configured=''
done
mkdir -p "$folder"
if [[ ! $configured ]]; then
  echo "== configuring $folder" >&2
  if ! cmake --preset "$preset" "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    exit 1
  fi
fi
echo "== building $folder" >&2
NINJA_STATUS='[%f/%t] ' cmake --build "$folder" --target "$target" --parallel "${JOBS:-$(nproc)}" >&2
