"""Packages and faults: indexes that stall or lie, wheels of other machines, full disks, killed builds. Each ends with a
clear error, and what was there still works."""

import hashlib
import http.server
import os
import pathlib
import signal
import subprocess
import threading

import pytest
from support.cella import PYTHON, TIME_BOUND, run_bounded
from support.package_index import index_variables
from support.running import wait_until
from support.wheels import make_own_sdist, make_wheel

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]

SIX = "import six; print(six.__name__)"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("faults")
    (place / "links").mkdir()
    return place


@pytest.fixture(scope="module")
def variables(environment, place):
    return {**environment, **index_variables(), "CELLA_STATE_DIR": str(place / "state"),
            "UV_FIND_LINKS": str(place / "links")}


@pytest.fixture(scope="module")
def warm(cella, variables):
    """The installer is there, and so is an environment with six."""
    done = run_with(cella, variables, "six", code=SIX)
    assert done.stdout == b"six\n", done.describe()
    return variables


def run_with(cella, variables, *names, code="print('ran')", **more):
    packages = [word for name in names for word in ("--with", name)]
    argv = [str(cella.binary), "run", *packages, "--python", PYTHON, "-c", code]
    return run_bounded(argv, env={**variables, **more}, timeout=TIME_BOUND * 4)


def refused(finished, *words):
    assert finished.exit_code == 126 and finished.stdout == b"", finished.describe()
    for word in words:
        assert word.encode() in finished.stderr, finished.describe()


def staging(place):
    return list((place / "state" / "environments" / "work" / "staging").iterdir())


class Index(http.server.BaseHTTPRequestHandler):
    """A package index that misbehaves by the name of the package."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts[0] == "files":
            return self.send(b"not the announced file")
        name = parts[-1]
        if name == "stalls":
            self.server.released.wait(60)
            self.close_connection = True
            return None
        if name == "garbage":
            return self.send(bytes(range(256)) * 100)
        if name == "lies":
            digest = hashlib.sha256(b"something else").hexdigest()
            page = f'<a href="/files/lies-1.0-py3-none-any.whl#sha256={digest}">lies-1.0-py3-none-any.whl</a>'
            return self.send(page.encode())
        if name == "lying-source":
            digest = hashlib.sha256(b"something else").hexdigest()
            page = f'<a href="/files/lying_source-1.0.tar.gz#sha256={digest}">lying_source-1.0.tar.gz</a>'
            return self.send(page.encode())
        return self.send(b"", 404)

    def send(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *ignored):
        pass


@pytest.fixture(scope="module")
def bad_index():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        server.released = threading.Event()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield {"UV_DEFAULT_INDEX": f"http://127.0.0.1:{server.server_address[1]}/simple", "UV_HTTP_RETRIES": "0",
               "UV_HTTP_TIMEOUT": "2", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        server.released.set()
        server.shutdown()


@pytest.mark.parametrize("name", ["stalls", "garbage", "lies", "lying-source"])
def test_index_that_misbehaves_ends_with_126_and_the_name(cella, warm, place, bad_index, name):
    refused(run_with(cella, warm, name, **bad_index), name)
    assert staging(place) == []
    assert run_with(cella, warm, "six", code=SIX).stdout == b"six\n"


def test_wheel_for_another_platform_is_refused_by_name(cella, warm, place):
    wheel = make_wheel(place / "links", "elsewhere_8f3a", {"elsewhere.py": ""})
    wheel.rename(wheel.with_name("elsewhere_8f3a-1.0-cp39-cp39-win_amd64.whl"))
    refused(run_with(cella, warm, "elsewhere_8f3a"), "elsewhere-8f3a")


def test_package_that_shadows_the_standard_library_does_not(cella, warm, place):
    make_wheel(place / "links", "shadows_8f3a", {"json.py": "raise SystemExit('shadowed')\n", "shadows.py": ""})
    done = run_with(cella, warm, "shadows_8f3a", code="import json, shadows; print(json.dumps([1]))")
    assert done.stdout == b"[1]\n", done.describe()


def test_ten_thousand_requirements_are_refused(cella, warm, tmp_path):
    (tmp_path / "requirements.txt").write_text("".join(f"package{number}\n" for number in range(10_000)))
    argv = [str(cella.binary), "run", "-r", str(tmp_path / "requirements.txt"), "-c", "print(1)"]
    refused(run_bounded(argv, env=warm), "2000")


def test_full_disk_ends_with_126_and_works_with_space(cella, warm, place, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    (uv,) = (place / "state" / "environments" / "tools").glob("uv-*")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", small], check=True)
    try:
        variables = {**warm, "CELLA_STATE_DIR": str(small / "state"), "CELLA_UV": str(uv)}
        full = run_with(cella, variables, "rich")
        refused(full, "rich")
        subprocess.run(["mount", "-o", "remount,size=200m", small], check=True)
        done = run_with(cella, variables, "rich", code="import rich; print(rich.__name__)")
        assert done.stdout == b"rich\n", done.describe()
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def processes_of(state):
    """Of this state directory, but for this process."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if os.fsencode(state) in (process / "cmdline").read_bytes():
                    found.append(process.name)
            except OSError:
                continue
    return found


def test_source_builds_that_are_killed_leave_nothing_behind(cella, warm, place):
    marker = "slow_build_of_this_test"
    make_own_sdist(place / "links", "slowly_8f3a", f"import time\n{marker} = 1\ntime.sleep(0.7)\n")
    argv = [str(cella.binary), "run", "--with", "slowly-8f3a", "--python", PYTHON, "-c", "import slowly_8f3a; print(slowly_8f3a.BUILT)"]
    for number in range(10):
        process = subprocess.Popen(argv, env=warm, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1 + 0.12 * number)
            raise subprocess.TimeoutExpired(argv, 0)  # it was faster: that counts as well
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert wait_until(lambda: processes_of(place / "state") == [], TIME_BOUND), processes_of(place / "state")
    done = run_bounded(argv, env=warm, timeout=TIME_BOUND * 4)
    assert done.stdout == b"True\n", done.describe()
    assert staging(place) == []
