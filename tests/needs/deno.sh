#!/usr/bin/env bash
# The kernel of Deno from npm, made once: it knows only ports (tcp), and ZMTP 3.0. DENO_KERNELS is for JUPYTER_PATH.
source "$(dirname "$0")/need.sh"
[[ $1 == start ]] || exit 0

place=$repository/build/node/deno
program=$place/node_modules/.bin/deno
if ! "$program" --version >/dev/null 2>&1; then
  command -v npm >/dev/null || missing "no npm: install it with 'sudo apt install npm'"
  mkdir -p "$place"
  npm install --prefix "$place" --no-audit --no-fund --no-save deno@2 >&2 ||
    missing "Deno cannot be installed from the npm registry: connect to the network, or configure npm"
  "$program" --version >/dev/null || missing "the Deno of the npm registry does not start on this machine"
fi
mkdir -p "$place/kernels/deno"
cat >"$place/kernels/deno/kernel.json" <<END
{"argv": ["$program", "jupyter", "--kernel", "--conn", "{connection_file}"], "display_name": "Deno", "language": "typescript"}
END
available "DENO_KERNELS=$place"
