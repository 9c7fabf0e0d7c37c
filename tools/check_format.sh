#!/usr/bin/env bash
# Checks that all C++ is formatted by clang-format; --fix formats it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(--dry-run --Werror -ferror-limit=1)
if [[ ${1-} == --fix ]]; then mode=(-i); fi
folders=()
for folder in include src tests bench examples; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
mapfile -d '' -t files < <(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cc' \) -print0 | sort -z)
# One exact version, because others break lines differently.
if ! printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 16 clang-format-19 "${mode[@]}"; then
  echo "format: run 'make format'" >&2
  exit 1
fi
echo "format: ${#files[@]} files"
