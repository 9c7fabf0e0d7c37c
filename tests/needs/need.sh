# Shared by the scripts of this folder: `NAME.sh start|stop DIR`. Sourced, not run.
#
# `start` makes what the need stands for and writes DIR/NAME.env, lines KEY=VALUE that tests read. Where that is
# impossible it writes DIR/NAME.missing instead, one sentence with the remedy: tests that declare the need are then
# skipped with that sentence, or fail if CELLA_TESTS_MUST_RUN=1. `stop` ends, by pid, what `start` started.
set -euo pipefail

need=$(basename "$0" .sh)
usage() { echo "usage: tests/needs/$need.sh start|stop DIR" >&2; exit 2; }
[[ $# == 2 && ($1 == start || $1 == stop) ]] || usage
repository=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)

# Ends the script: this machine lacks the need.
missing() {
  echo "$*" >"$folder/$need.missing"
  echo "$need: $*" >&2
  if [[ ${CELLA_TESTS_MUST_RUN-} == 1 ]]; then exit 1; fi
  exit 0
}

# Writes the settings that tests read, in one step: a reader sees all or nothing.
available() {
  printf '%s\n' "$@" >"$folder/$need.env.new"
  mv "$folder/$need.env.new" "$folder/$need.env"
}

rm -f "$folder/$need.missing" "$folder/$need.env"
