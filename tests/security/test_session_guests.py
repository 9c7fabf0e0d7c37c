"""Every attack of the tables again, from a cell of a session: a guest that was forked from a zygote and moved into its
jail from outside must be as confined as one that was born there. That the attacks work outside shows test_guests.py.
"""

import concurrent.futures
import json
import os
import queue

import pytest
from support.cella import PYTHON, run_bounded
from support.repl import Repl
from support.victims import Scene
from test_guests import INSIDE, bundle, by_name, verdict

pytestmark = pytest.mark.as_user

# Requests come on standard input, so nothing else can be there. What a session has and a run has not (descriptors, the
# runner in /run, a user namespace between the host's and its own) test_session_confinement.py looks at.
ELSEWHERE = ("input-file", "open-descriptors", "list-run", "host-uid")
CASES = [case for case in INSIDE if case.name not in ELSEWHERE]
FLAGS = ("--checkpoint", "off")

# Takes the terminal whose descriptor is its first argument, and leaves nothing of it to the program.
WITH_TERMINAL = """
import fcntl, os, sys, termios
fd = int(sys.argv[1])
fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
os.set_inheritable(fd, False)
os.execv(sys.argv[2], sys.argv[2:])
"""


# One session sees many guests, and each expects an empty directory.
EMPTY_DIRECTORY = "import os, tempfile\nos.chdir(tempfile.mkdtemp(dir='/workspace'))\n"


def cell(case, args):
    return f"import sys\nsys.argv = {['guest.py', *args]!r}\n{bundle(case.guest)}"


def read_verdict(result):
    assert result["isolation"]["start"] == "fork", result["isolation"]
    return verdict(result["stdout"], result["exit_code"]), result


def run_among_victims(case, cella):
    """In a cella of its own, started in the midst of what is attacked."""
    with Scene(case.victims) as scene:
        request = json.dumps({"code": cell(case, scene.fill(case.args))}).encode() + b"\n"
        start = scene.start()
        argv = [str(cella.binary), "repl", "--json", "--python", PYTHON, *FLAGS, *scene.flags]
        # Where packages of sessions are is visible in the jail's mountinfo (SECURITY.md).
        start["env"] = {**start["env"], "CELLA_STATE_DIR": str(scene.directory / "state")}
        terminal = start.pop("terminal")
        if terminal is not None:
            argv = [PYTHON, "-I", "-S", "-c", WITH_TERMINAL, str(terminal), *argv]
            start["pass_fds"] = [*start["pass_fds"], terminal]
        finished = run_bounded(argv, cwd=scene.cwd, **{**start, "input": request})
        scene.verify()
        return read_verdict(finished.result()["result"])


class Sessions:
    """Lent to one case at a time, and reset after each."""

    def __init__(self, cella, count):
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
        self._all = [Repl(cella.binary, *FLAGS, env=env) for _ in range(count)]
        self._free = queue.SimpleQueue()
        for session in self._all:
            self._free.put(session)

    def run(self, case):
        session = self._free.get()
        try:
            result = session.run(EMPTY_DIRECTORY + cell(case, case.args))
            assert session.ask(op="reset").get("ok"), "the attack broke the session"
            return read_verdict(result)
        finally:
            self._free.put(session)

    def close(self):
        for session in self._all:
            session.__exit__(None, None, None)


@pytest.fixture(scope="module")
def attacks(request, cella):
    """Runs what was selected on all cores; a test waits for its own case. Returns test name -> future."""
    count = os.cpu_count()
    sessions = Sessions(cella, count)
    with concurrent.futures.ThreadPoolExecutor(max_workers=count) as pool:
        futures = {}
        for item in request.session.items:
            if getattr(item, "originalname", "") == "test_session_withstands":
                case = item.callspec.params["case"]
                alone = case.victims != ()
                futures[item.name] = pool.submit(run_among_victims, case, cella) if alone else pool.submit(
                    sessions.run, case)
        yield futures
        for future in futures.values():
            future.cancel()
    sessions.close()


@by_name(CASES)
def test_session_withstands(case, attacks, request):
    word, result = attacks[request.node.name].result()
    wanted = " or ".join(case.expect)
    assert word in case.expect, f"{case.attack}: {case.layer} should answer {wanted}, got {word}\n{result}"
