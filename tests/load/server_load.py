#!/usr/bin/python3
"""Measures `cella serve` from outside, over its Unix socket. Run by hand, on a machine that does nothing else.

    tests/load/server_load.py                      # everything; CELLA_BIN, else build/release/bin/cella
    tests/load/server_load.py memory --sessions 200
    tests/load/server_load.py throughput --clients 4 --seconds 3 --json

memory      live sessions, each with an open event stream: what the server itself needs for them
latency     `x = 1` in a live session, for one client that pauses between runs, and back to back
throughput  open, run and delete, for many clients at once
"""

import argparse
import contextlib
import json
import pathlib
import resource
import selectors
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("", "integration", "load")]

from machine import Processors, available_memory, descriptors, memory  # noqa: E402
from server import serving  # noqa: E402
from support.cella import Cella, program  # noqa: E402
from wire import Refused, Wire, request  # noqa: E402

SMALL = {"limits": {"memory": "64m", "pids": 16, "disk": "16m", "timeout": "1h"}}
FILES_PER_SESSION = 64  # of the server, with room to spare
BUDGET_BASE, BUDGET_EACH = 30 << 20, 64 << 10
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
)


def open_session(wire, policy):
    return json.loads(wire.expect(request("POST", "/v1/sessions", policy), 201))["id"]


def delete_session(wire, session):
    wire.expect(request("DELETE", f"/v1/sessions/{session}"), 204)


def quantiles(seconds):
    """In milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {}
    at = {"p50": 0.5, "p99": 0.99}
    found = {name: round(ordered[min(int(len(ordered) * q), len(ordered) - 1)] * 1e3, 3) for name, q in at.items()}
    return {**found, "max": round(ordered[-1] * 1e3, 3), "count": len(ordered)}


# Memory


def follow(server, wire, session, how):
    """An open event stream of the session: of a run that waits, or of all its runs."""
    stream = Wire(server.socket)
    path = f"/v1/sessions/{session}"
    if how == "run":
        code = {"code": "import time; print('on', flush=True); time.sleep(3000)"}
        stream.follow(request("POST", f"{path}/runs", code, accept="application/x-ndjson"), b'"stdout"')
    else:
        stream.follow(f"GET {path}/channel HTTP/1.1\r\nHost: x\r\n{UPGRADE}\r\n\r\n".encode(), b"101")
        wire.expect(request("POST", f"{path}/runs", {"code": "x = 1"}), 200)
    return stream


def measure_memory(start, options):
    count = options.sessions
    server = start(
        config={
            "server": {"max_connections": count + 100},
            "sessions": {"max_sessions": count + 100, "idle_timeout": "2h"},
        }
    )
    wire = Wire(server.socket)
    # What comes with the first session is not any session's own.
    delete_session(wire, open_session(wire, SMALL))
    steps = sorted({0, *(round(count * part) for part in (0.1, 0.5, 1))})
    rows, free = [], available_memory()
    with contextlib.ExitStack() as stack:
        stack.callback(wire.close)
        opened, stopped = 0, None
        for step in steps:
            started = time.monotonic()
            try:
                while opened < step:
                    session = open_session(wire, SMALL)
                    stack.callback(follow(server, wire, session, options.follow).close)
                    opened += 1
            except Refused as refusal:
                stopped = str(refusal)
            took = time.monotonic() - started
            time.sleep(options.settle)  # checkpoints are taken after the answers
            row = {"sessions": opened, **memory(server.pid), "descriptors": descriptors(server.pid)}
            row["machine_each"] = (free - available_memory()) // opened if opened else 0
            row["budget"] = BUDGET_BASE + opened * BUDGET_EACH
            row["within"] = row["rss"] <= row["budget"]
            row["seconds"] = round(took, 2)
            rows.append(row)
            if stopped:
                print(f"no more than {opened} sessions: {stopped}", file=sys.stderr)
                break
        answers = [timed(wire, request("GET", "/health")) for _ in range(200)]
        return {"follow": options.follow, "steps": rows, "stopped": stopped, "health_ms": quantiles(answers)}


# Latency


def timed(wire, data, status=200):
    started = time.perf_counter()
    wire.expect(data, status)
    return time.perf_counter() - started


def measure_latency(start, options):
    server = start()
    wire = Wire(server.socket)
    found = {}
    for name, checkpoint, pause in (
        ("pausing", "auto", 0.01),
        ("back to back, no checkpoint", "off", 0),
        ("back to back", "auto", 0),
    ):
        session = open_session(wire, {**SMALL, "checkpoint": checkpoint})
        data = request("POST", f"/v1/sessions/{session}/runs", {"code": "x = 1"})
        for _ in range(20):
            wire.expect(data, 200)
        used, started, seconds = Processors(server.pid), time.monotonic(), []
        for _ in range(options.runs):
            if pause:
                time.sleep(pause)
            seconds.append(timed(wire, data))
        wall = time.monotonic() - started
        found[name] = {**quantiles(seconds), "wall": round(wall, 2), "processors": used.used()}
        delete_session(wire, session)
    wire.close()
    return found


# Throughput


class Cycle:
    """One client: open, run, delete, and again."""

    OPEN = request("POST", "/v1/sessions", SMALL)

    def __init__(self, address, seconds):
        self.wire = Wire(address)
        self.seconds = seconds
        self.session = None
        self._steps = self._go_on()
        next(self._steps)

    def step(self):
        """To be called when there is something to read."""
        answer = self.wire.feed()
        if answer is not None:
            self._steps.send(answer)

    def _ask(self, name, data, expected):
        started = time.perf_counter()
        self.wire.send(data)
        status, body = yield
        if status != expected:
            raise RuntimeError(f"{name}: {status} {body[:300].decode(errors='replace')}")
        self.seconds[name].append(time.perf_counter() - started)
        return body

    def _go_on(self):
        while True:
            started = time.perf_counter()
            session = json.loads((yield from self._ask("open", self.OPEN, 201)))["id"]
            path = f"/v1/sessions/{session}"
            body = yield from self._ask("run", request("POST", f"{path}/runs", {"code": "1 + 1"}), 200)
            if b'"value":"2"' not in body:
                raise RuntimeError(f"a wrong Result: {body[:300].decode(errors='replace')}")
            yield from self._ask("delete", request("DELETE", path), 204)
            self.seconds["whole"].append(time.perf_counter() - started)


def measure_throughput(start, options):
    server = start(config={"sessions": {"max_sessions": 1000}})
    warm_up = Wire(server.socket)
    for _ in range(5):
        delete_session(warm_up, open_session(warm_up, SMALL))
    warm_up.close()
    seconds = {"open": [], "run": [], "delete": [], "whole": []}
    before = memory(server.pid)["rss"]
    used, started = Processors(server.pid), time.monotonic()
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for _ in range(options.clients):
            cycle = Cycle(server.socket, seconds)
            stack.callback(cycle.wire.close)
            selector.register(cycle.wire.socket, selectors.EVENT_READ, cycle)
        while time.monotonic() - started < options.seconds:
            for key, _ in selector.select(1):
                key.data.step()
    wall = time.monotonic() - started
    return {
        "clients": options.clients,
        "sessions_per_second": round(len(seconds["whole"]) / wall, 1),
        **{name: quantiles(values) for name, values in seconds.items()},
        "wall": round(wall, 2),
        "processors": used.used(),
        "rss_growth": memory(server.pid)["rss"] - before,
    }


# The command


MEASURES = {"memory": measure_memory, "latency": measure_latency, "throughput": measure_throughput}


def allow_files(wanted):
    """Raises the limit for us and for the server, as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"only {hard} descriptors are allowed here, and {wanted} would be safe", file=sys.stderr)


def show(name, found, indent=""):
    print(f"{indent}{name}:")
    for key, value in found.items():
        if isinstance(value, dict) and not all(isinstance(each, (int, float)) for each in value.values()):
            show(key, value, indent + "  ")
        elif isinstance(value, list):
            for row in value:
                show(f"{row['sessions']} sessions", {k: v for k, v in row.items() if k != "sessions"}, indent + "  ")
        elif isinstance(value, dict):
            print(f"{indent}  {key}: " + "  ".join(f"{word} {number}" for word, number in value.items()))
        else:
            megabytes = f" ({value / (1 << 20):.1f} MB)" if isinstance(value, int) and value >= 1 << 20 else ""
            print(f"{indent}  {key}: {value}{megabytes}")


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="memory|latency|throughput", help="all of them if none is named")
    parser.add_argument("--sessions", type=int, default=1000, help="live sessions in the end (default: %(default)s)")
    parser.add_argument("--follow", choices=["run", "channel"], default="run", help="what kind of stream each has open")
    parser.add_argument("--settle", type=float, default=1.0, metavar="SECONDS", help="wait before memory is read")
    parser.add_argument("--runs", type=int, default=1000, help="runs for each latency (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=16, help="at once, for the throughput (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of throughput (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one document instead of text")
    options = parser.parse_args(words)
    for word in options.what:
        if word not in MEASURES:
            parser.error(f"there is no '{word}' to measure: choose from {', '.join(MEASURES)}")
    return options


def main(words=None):
    options = parse(words)
    cella = Cella(program())
    if not cella.binary.exists():
        sys.exit(f"{cella.binary} does not exist: build the release preset, or set CELLA_BIN")
    allow_files(options.sessions * FILES_PER_SESSION + 2000)
    found = {}
    with tempfile.TemporaryDirectory(prefix="cella-home-") as home:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8"}
        for name in options.what or MEASURES:
            with serving(cella, environment) as start:
                found[name] = MEASURES[name](start, options)
            if not options.json:
                show(name, found[name])
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
