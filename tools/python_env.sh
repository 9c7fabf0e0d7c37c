#!/usr/bin/env bash
# Runs a command in a Python environment with the packages of a requirements file. The environment is created once below
# build/python/.
#   tools/python_env.sh NAME REQUIREMENTS COMMAND...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

name=$1 requirements=$(realpath "$2")
shift 2
folder=$root/build/python/$name
mkdir -p "$root/build/python"
# Several tests may need it at the same time.
exec {lock}>"$folder.lock"
flock "$lock"
# The copy of the requirements marks a complete environment.
if ! cmp -s "$requirements" "$folder/requirements.txt"; then
  echo "== making $folder (packages from the index)" >&2
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
  cp "$requirements" "$folder/requirements.txt"
fi
exec {lock}>&-
PATH=$folder/bin:$PATH VIRTUAL_ENV=$folder exec "$@"
