#!/usr/bin/env bash
# All tests of the release build, and of the sanitizers' build.
#
#     tools/run_tests.sh
#
# Two groups at a time: most of their time they wait. What they leave of the processors goes to clang-tidy and to the build
# with the sanitizers, at a priority that takes nothing from them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

labels='^(unit|runners|contract|integration|security|python)$'
log=build/run_tests.log

check_and_build() {
  tools/check_tidy.py build/release && tools/build.sh asan unit_tests
}

set -m  # the job below is a process group of its own
{ chrt --idle --pid 0 "$BASHPID" && check_and_build; } >"$log" 2>&1 </dev/null &
behind=$!
set +m
trap 'kill -- "-$behind" 2>/dev/null || true' EXIT

failed=0
echo "== unit, runner, contract, integration, security and Python tests of the release build;" \
  "clang-tidy and the sanitizers' build behind them: $log" >&2
ctest --test-dir build/release -j 2 --output-on-failure --no-tests=error -L "$labels" \
  --output-junit test-results.xml || failed=1

# Nobody is left to be considerate of.
for pid in $(pgrep -g "$behind"); do chrt --other --pid 0 "$pid" 2>/dev/null || true; done
wait "$behind" || failed=1
cat "$log" >&2
trap - EXIT
[[ $failed == 0 ]] || exit 1

echo "== unit tests under the address and undefined-behaviour sanitizers" >&2
ctest --test-dir build/asan --output-on-failure --no-tests=error -L '^unit$'
