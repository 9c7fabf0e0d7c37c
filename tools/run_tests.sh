#!/usr/bin/env bash
# Runs tests that are built, by what is in a hurry.
#
#     tools/run_tests.sh check [SUBJECT]     a quick answer, about everything or about one subject
#     tools/run_tests.sh test                what CI runs, with the sanitizers and clang-tidy behind it
#     tools/run_tests.sh long                what takes too long for every change
#
# Tests wait most of their time, so more of them run at once than there are processors; those marked `alone` have nothing
# beside them. Cases and durations: tools/slow_tests.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=$1
at_once=$(($(nproc) * 2))
run=(ctest --test-dir build/release --output-on-failure --no-tests=error --parallel "$at_once"
     --output-junit "test-results-of-$mode.xml")
case $mode in
  check)
    if [[ ${2-} ]]; then
      "${run[@]}" -L "^subject:$2\$"
    else
      rm -f build/release/test-results/*.xml
      "${run[@]}" -L '^check$'
    fi
    ;;
  test)
    rm -f build/*/test-results/*.xml
    # Behind the tests, with what they leave of the processors.
    log=build/behind_tests.log
    behind() {
      tools/check_tidy.py build/release && tools/build.sh asan unit_tests &&
        ctest --test-dir build/asan --output-on-failure --no-tests=error -L '^unit$'
    }
    set -m  # the job below is a process group of its own
    { renice -n 10 "$BASHPID" >/dev/null && behind; } >"$log" 2>&1 </dev/null &
    job=$!
    set +m
    trap 'kill -- "-$job" 2>/dev/null || true' EXIT
    echo "== all suites of the release build; clang-tidy, and the unit tests with sanitizers, behind them: $log" >&2
    failed=0
    "${run[@]}" -LE '^long$' || failed=1
    echo "== clang-tidy and sanitizers" >&2
    renice -n 0 -g "$job" &>/dev/null || true  # root may take it back, now that no test runs beside it
    wait "$job" || failed=1
    cat "$log" >&2
    trap - EXIT
    tools/slow_tests.py --top 10 >&2
    exit "$failed"
    ;;
  long)
    rm -f build/release/test-results/*.xml
    "${run[@]}" -L '^long$'
    ;;
  *)
    echo "usage: tools/run_tests.sh check [SUBJECT] | test | long" >&2
    exit 2
    ;;
esac
