#!/usr/bin/env bash
# A package index that pip reaches as this machine configures it. INDEX_PYTHON is an interpreter that has pip.
source "$(dirname "$0")/need.sh"
[[ $1 == start ]] || exit 0

"$repository/tools/python_env.sh" index "$repository/tests/needs/index.txt" true >&2 ||
  missing "no package index answers pip: connect to the network, or configure an index (pip config set global.index-url URL)"
python=$repository/build/python/index/bin/python
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --dest "$place" six >&2 ||
  missing "no package index answers pip: connect to the network, or configure an index (pip config set global.index-url URL)"
available "INDEX_PYTHON=$python"
