#!/usr/bin/env bash
# Runs ruff and mypy --strict over the Python package with its own configuration.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../sdk/python"
env=(../../tools/python_env.sh sdk tools/requirements.txt)
"${env[@]}" ruff check --no-cache .
"${env[@]}" mypy --no-incremental
echo "python: ruff and mypy --strict are clean"
