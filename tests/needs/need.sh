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

# The archive `files` of the image for tests of containers, made under a lock: several runs of the tests share it.
make_image_files() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/cella-tests
  files=$cache/python-procps-image-$(dpkg --print-architecture).tar
  mkdir -p "$cache"
  exec {lock}>"$files.lock"
  flock "$lock"
  if [[ ! -s $files ]]; then
    command -v mmdebstrap >/dev/null || return 1
    # Mounts of root's that other tests must not see come and go in a namespace of their own.
    own=()
    if ((EUID == 0)); then own=(unshare --mount --propagation private); fi
    "${own[@]}" mmdebstrap --quiet --variant=minbase --include=python3,procps --dpkgopt='path-exclude=/usr/share/doc/*' \
      --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/man/*' bookworm "$files.new.tar" \
      >&2 </dev/null && mv "$files.new.tar" "$files"
  fi
  exec {lock}>&-
  [[ -s $files ]]
}

rm -f "$folder/$need.missing" "$folder/$need.env"
