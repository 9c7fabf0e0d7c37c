#!/usr/bin/env bash
# Fails if a shell completion and the options in cella's help differ.
#   tools/check_completions.sh build/release/bin/cella
set -euo pipefail
cella=$1
completions="$(dirname "${BASH_SOURCE[0]}")/../packaging/completions"

wanted=$(for command in '' run repl serve session 'session new' 'session ls' 'session run' 'session get' token 'token new' 'token ls' \
  'token rm' env 'env create' 'env ls' 'env show' 'env rm' 'env gc' workflows 'workflows ls' 'workflows show' 'workflows approve' doctor bench kernels version; do
  # shellcheck disable=SC2086  # no command is no word, and one below another is two
  "$cella" $command --help
done | grep -oE -- '(^|[ ,[(|])--[a-z][a-z-]+' | grep -oE -- '--.*' | sort -u)
failed=''
for file in cella.bash _cella cella.fish; do
  # fish writes `-l name` for `--name`.
  offered=$(sed -E '/^set /d; s/ -l ([a-z-]+) -/ --\1 -/' "$completions/$file" |
    grep -oE -- "(^|[ *')(|,])--[a-z][a-z-]+" |
    grep -oE -- '--.*' | sort -u)
  if ! difference=$(diff <(echo "$wanted") <(echo "$offered")); then
    echo "packaging/completions/$file differs from --help (<: missing, >: unknown option)"
    grep '^[<>]' <<<"$difference"
    failed=1
  fi
done
[[ ! $failed ]] || exit 1
echo "completions: $(wc -w <<<"$wanted") options"
