#!/usr/bin/env bash
# Configures a preset where needed and builds a target of it.
#   tools/build.sh PRESET TARGET [-DNAME=VALUE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1 target=$2
shift 2
folder=build/$preset

# Ninja itself configures again when a CMake file has changed; here only what it cannot know.
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
