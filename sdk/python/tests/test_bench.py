"""The benchmark measures what it says; how fast it is depends on the machine."""

import json
import os
import subprocess
import sys


def test_benchmark_reports_every_measurement():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    finished = subprocess.run(
        [sys.executable, "-m", "cella.bench", "--json", "--rounds", "8", "--cold-rounds", "1"],
        capture_output=True, text=True, timeout=120, env=environment,
    )
    assert finished.returncode == 0, finished.stderr
    measured = json.loads(finished.stdout)["measured"]
    assert len(measured) == 16
    assert all(0 < row["best_ms"] <= row["p50_ms"] <= row["p99_ms"] for row in measured.values())
