#!/usr/bin/env bash
# A Python environment with ipykernel and jupyter_client, made once. JUPYTER_PYTHON is its interpreter.
source "$(dirname "$0")/need.sh"
[[ $1 == start ]] || exit 0

"$repository/tools/python_env.sh" jupyter "$repository/tests/needs/jupyter.txt" true >&2 ||
  missing "ipykernel cannot be installed from the package index: configure pip, then run 'tests/needs/jupyter.sh start build/needs'"
available "JUPYTER_PYTHON=$repository/build/python/jupyter/bin/python"
