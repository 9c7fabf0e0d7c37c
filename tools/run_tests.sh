#!/usr/bin/env bash
# Runs built tests.
#
#     tools/run_tests.sh check [SUBJECT]     the quick tests, all or of one subject
#     tools/run_tests.sh test                the tests of CI, with sanitizers and clang-tidy in the background
#     tools/run_tests.sh long                the long tests
#
# Tests spend most of their time waiting, so twice as many run at once as there are processors. Tests marked `alone` run by
# themselves. tools/slow_tests.py lists cases and durations.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=$1
most_unstable=3  # more failed groups than this are not run again
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
    # In the background, with the processor time that the tests leave.
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
    echo "== all suites of the release build; in the background clang-tidy and unit tests with sanitizers: $log" >&2
    failed=0 unstable=()
    if ! "${run[@]}" -LE '^long$'; then
      # A few failed groups run once more, one at a time. Those that pass then are reported as unstable below.
      mapfile -t unstable < <(cut -d: -f2 build/release/Testing/Temporary/LastTestsFailed.log)
      echo "== failed: ${unstable[*]}" >&2
      if ((${#unstable[@]} == 0 || ${#unstable[@]} > most_unstable)) ||
        ! ctest --test-dir build/release --output-on-failure --no-tests=error --rerun-failed; then
        failed=1 unstable=()
      fi
    fi
    echo "== clang-tidy and sanitizers" >&2
    renice -n 0 -g "$job" &>/dev/null || true  # restore the priority, which only root may do
    wait "$job" || failed=1
    cat "$log" >&2
    trap - EXIT
    tools/slow_tests.py --top 10 >&2
    if ((${#unstable[@]})); then
      echo "== unstable: failed beside other tests and passed alone (a defect, see tests/README.md): ${unstable[*]}" >&2
    fi
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
