#!/usr/bin/env bash
# `make check`: the quick tests.
#   tools/check.sh            format, layers, and the tests that are labelled `check`
#   tools/check.sh SUBJECT    the tests of one subject, with only the programs that they need
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

only=${1-}
if [[ $only ]]; then
  # A tree that `make` configured has no tests and hence no subjects.
  grep -qs '^CELLA_BUILD_TESTS:BOOL=ON$' build/release/CMakeCache.txt ||
    tools/build.sh release programs -DCELLA_BUILD_TESTS=ON
  mapfile -t subjects < <(ctest --test-dir build/release --print-labels | sed -n 's/^ *subject://p' | sort)
  if [[ " ${subjects[*]} " != *" $only "* ]]; then
    echo "make check: there is no subject '$only'. ONLY is one of: ${subjects[*]}" >&2
    exit 2
  fi
  tools/build.sh release "check_$only" -DCELLA_BUILD_TESTS=ON
else
  echo "== checking format, layers, spawns and shell completions" >&2
  tools/check_format.sh
  tools/check_layers.py
  tools/check_spawns.py
  tools/build.sh release all -DCELLA_BUILD_TESTS=ON
  tools/check_completions.sh build/release/bin/cella
fi
tools/run_tests.sh check "$only"
