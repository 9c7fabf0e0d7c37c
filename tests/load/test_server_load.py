"""Runs the measurement with small numbers and checks the form of its report, not the figures."""

import json
import pathlib
import subprocess
import sys

COMMAND = pathlib.Path(__file__).with_name("server_load.py")


def measure(*words):
    return subprocess.run([sys.executable, "-B", COMMAND, *words], capture_output=True, text=True, timeout=60)


def test_all_measurements_are_reported():
    ended = measure("--json", "--sessions", "8", "--settle", "0", "--runs", "5", "--clients", "3", "--seconds", "2")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found.keys() == {"memory", "latency", "throughput"}
    steps = found["memory"]["steps"]
    assert [row["sessions"] for row in steps] == [0, 1, 4, 8] and found["memory"]["stopped"] is None
    assert steps[0]["rss"] >= steps[0]["private"] > 1 << 20
    # What the server makes ahead of demand comes and goes meanwhile; eight sessions outweigh it.
    assert steps[0]["descriptors"] < steps[-1]["descriptors"]
    assert all(0 < row["p50"] <= row["p99"] <= row["max"] and row["count"] == 5 for row in found["latency"].values())
    assert found["throughput"]["whole"]["count"] > 0


def test_text_report_of_sessions_with_channels_is_printed():
    ended = measure("memory", "--sessions", "2", "--settle", "0", "--follow", "channel")
    assert ended.returncode == 0 and "  2 sessions:" in ended.stdout, ended


def test_unknown_measurement_exits_2():
    ended = measure("memroy")
    assert ended.returncode == 2 and "memroy" in ended.stderr and "latency" in ended.stderr
