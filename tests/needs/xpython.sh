#!/usr/bin/env bash
# xeus-python, a kernel of Python that is not ipykernel, made once. XPYTHON_KERNELS is for JUPYTER_PATH.
source "$(dirname "$0")/need.sh"
[[ $1 == start ]] || exit 0

"$repository/tools/python_env.sh" xpython "$repository/tests/needs/xpython.txt" true >&2 ||
  missing "xeus-python cannot be installed from the package index: configure pip, then run 'tests/needs/xpython.sh start build/needs'"
# Its own kernelspec names the interpreter as it is found on PATH.
place=$repository/build/python/xpython
mkdir -p "$place/named/kernels/xpython"
cat >"$place/named/kernels/xpython/kernel.json" <<END
{"argv": ["$place/bin/python", "-m", "xpython_launcher", "-f", "{connection_file}"], "display_name": "XPython", "language": "python"}
END
available "XPYTHON_KERNELS=$place/named"
