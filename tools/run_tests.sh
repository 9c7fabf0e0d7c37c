#!/usr/bin/env bash
# All tests of the release build, and of the sanitizers' build.
#
#     tools/run_tests.sh
#
# Much of their time the tests wait. Those that neither count processes nor compare times run two at a time (the others are
# RUN_SERIAL); what all of them leave of the processors goes to clang-tidy and to the build with the sanitizers, which run
# only while nobody else wants to.
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
ctest --test-dir build/release --output-on-failure --no-tests=error --parallel 2 -L "$labels" \
  --output-junit test-results.xml || failed=1

wait "$behind" || failed=1
cat "$log" >&2
trap - EXIT
[[ $failed == 0 ]] || exit 1

echo "== unit tests under the address and undefined-behaviour sanitizers" >&2
ctest --test-dir build/asan --output-on-failure --no-tests=error -L '^unit$'
