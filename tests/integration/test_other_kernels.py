"""Kernels of other languages: what does not depend on the language works with every kernel."""

import dataclasses
import json
import os

import pytest
from support.needs import require

pytestmark = pytest.mark.needs("deno")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The same acts in the kernel's own language."""

    name: str
    need: str
    place: str  # the setting of the need that is the JUPYTER_PATH
    aliases: tuple  # of the language
    assign: str = "x = 41"
    add: str = "x + 1"
    output: str = ""
    error: str = ""  # name boom
    endless: str = ""
    die: str = ""
    write: str = ""  # the file made.txt
    value: str = "42"
    value_is_display: bool = False
    ports: bool = False  # it knows no sockets in files
    quit: str = "import os; os._exit(0)"  # R's kernel ends after its reply
    given: str = ""  # true if the values of `test_values_are_variables_or_refused` have arrived


KERNELS = [
    Kernel(
        name="deno", need="deno", place="DENO_KERNELS", aliases=("typescript",), ports=True, quit="Deno.exit(0)", assign="let x = 41;", add="x + 1",
        output="console.log('out'); console.error('err')", error="throw new Error('boom')",
        endless="await new Promise(() => setInterval(() => 0, 50))", die="Deno.kill(Deno.pid, 'SIGKILL')",
        write="Deno.writeTextFileSync('made.txt', 'x')",
        given="text === 'é\\n' && raw.length === 3 && raw[2] === 255 && rows[0].a === null && long.length === 100000",
    ),
    Kernel(
        name="xpython", need="xpython", place="XPYTHON_KERNELS", aliases=("py",), ports=True, assign="x = 41", add="x + 1",
        output="import sys; print('out'); print('err', file=sys.stderr)", error="raise ValueError('boom')",
        endless="import time\nwhile True: time.sleep(0.05)", die="import os; os.kill(os.getpid(), 9)",
        write="open('made.txt', 'w').write('x')",
        given="text == 'é\\n' and raw == b'\\x00\\x01\\xff' and rows == [{'a': None}] and len(long) == 100000",
    ),
    Kernel(
        name="ir", need="irkernel", place="IRKERNEL_KERNELS", aliases=("R",), quit="quit()", assign="x <- 41", add="x + 1",
        output="cat('out\\n'); message('err')", error="stop('boom')", endless="repeat Sys.sleep(0.05)",
        die="tools::pskill(Sys.getpid(), 9); Sys.sleep(9)", write="cat('x', file = 'made.txt')", value="[1] 42",
        value_is_display=True,
    ),
]


@pytest.fixture(params=[pytest.param(k, id=k.name, marks=pytest.mark.needs(k.need)) for k in KERNELS])
def kernel(request):
    return request.param


@pytest.fixture
def temporary(tmp_path):
    """A temporary directory of its own, in which nothing of Cella may stay."""
    directory = tmp_path / "t"
    directory.mkdir()
    yield directory
    assert [name for name in os.listdir(directory) if name.startswith("cella")] == []


@pytest.fixture
def session(kernel, temporary, open_session):
    env = {"JUPYTER_PATH": require(kernel.need)[kernel.place], "TMPDIR": str(temporary)}
    return open_session("--executor", "subprocess", "--kernel", kernel.name, "--memory", "4g", with_env=env)


def run(session, code, **options):
    return session.run(code, language="", **options)


def answer(session, kernel, code):
    result = run(session, code)
    assert result["status"] == "ok", result
    if not kernel.value_is_display:
        return result["value"]
    assert result["value"] is None
    return result["outputs"][0]["mime"]["text/plain"]


def test_state_value_and_output(session, kernel):
    assert run(session, kernel.assign)["status"] == "ok"
    assert answer(session, kernel, kernel.add) == kernel.value
    printed = run(session, kernel.output)
    # R's kernel ends a message with a line break of its own.
    assert (printed["stdout"], printed["stderr"].rstrip()) == ("out\n", "err")


def test_error_is_reported_and_keeps_the_state(session, kernel):
    run(session, kernel.assign)
    failed = run(session, kernel.error)
    assert (failed["status"], failed["exit_code"], failed["state"]) == ("error", 1, "kept")
    assert "boom" in failed["error"]["message"] + failed["error"]["traceback"]
    assert "\x1b" not in failed["error"]["traceback"]
    # Deno does not send the value of every cell that follows an error.
    assert run(session, kernel.add)["status"] == "ok"


def test_time_limit_ends_the_run_and_the_session_goes_on(session, kernel):
    ended = run(session, kernel.endless, timeout=1)
    assert (ended["status"], ended["exit_code"]) == ("timeout", 124)
    assert ended["state"] in ("kept", "lost")
    run(session, kernel.assign)
    assert answer(session, kernel, kernel.add) == kernel.value


# Deno's kernel sends one value in ten after its idle status.
def test_no_value_is_missed(session, kernel):
    run(session, kernel.assign)
    assert [answer(session, kernel, kernel.add) for _ in range(100)] == [kernel.value] * 100


def test_kernel_that_dies_is_an_answer_and_a_fresh_one_follows(session, kernel):
    run(session, kernel.assign)
    died = run(session, kernel.die)
    assert (died["status"], died["state"], died["signal"]) == ("crashed", "lost", 9)
    assert run(session, kernel.add)["status"] == "error"


def test_files_of_the_workspace_are_reported(session, kernel):
    assert [file["path"] for file in run(session, kernel.write)["files"]] == ["made.txt"]


def test_values_are_variables_or_refused(session, kernel):
    values = {"text": "é\n", "raw": {"$bytes": "AAH/"}, "rows": [{"a": None}], "long": "x" * 100_000}
    if not kernel.given:
        refused = session.run(kernel.assign, variables=values)
        assert refused["status"] == "rejected" and "variables" in refused["error"]["message"], refused
        return
    given = run(session, kernel.assign, variables=values)
    assert given["status"] == "ok" and given["files"] == [], given
    assert answer(session, kernel, kernel.given).lower() == "true"
    assert run(session, "", variables={"text": "new"})["status"] == "ok"


def test_reset_forgets_and_the_session_goes_on(session, kernel):
    run(session, kernel.assign)
    assert session.ask(op="reset")["ok"] is True
    assert run(session, kernel.add)["status"] == "error"
    run(session, kernel.assign)
    assert answer(session, kernel, kernel.add) == kernel.value


def test_names_are_completed(session, kernel):
    run(session, kernel.assign.replace("x", "temperature"))
    assert session.ask(op="complete", code="temper", language=kernel.aliases[0])["matches"] == ["temperature"]


def test_block_in_another_language_is_rejected(session, kernel):
    refused = session.run("x", language="ruby")
    assert refused["status"] == "rejected" and kernel.name in refused["error"]["message"]


def test_kernel_that_is_asked_to_quit_is_lost_with_that_run(session, kernel):
    """No later run may begin in a kernel that is about to end."""
    for _ in range(3):
        run(session, kernel.assign)
        assert run(session, kernel.quit)["state"] == "lost"
        assert run(session, kernel.add)["status"] == "error"


def test_kernel_runs_in_a_jail_unless_it_needs_ports(temporary, open_session, cella, environment, kernel):
    place = require(kernel.need)[kernel.place]
    folder = place.removesuffix("/named")  # the kernel itself, which lies beside the build
    flags = ["--executor", "subprocess", "--jail", "--kernel", kernel.name, "--memory", "4g", "--mount", f"{folder}:{folder}"]
    env = {"JUPYTER_PATH": place, "TMPDIR": str(temporary)}
    if kernel.ports:
        refused = cella("run", *flags, "--json", "-c", "1", env={**environment, **env})
        message = json.loads(refused.stdout)["error"]["message"]
        assert refused.exit_code == 126 and "needs ports (transport tcp) does not start in a jail" in message
        assert "\x1b" not in message
        return
    session = open_session(*flags, with_env=env)
    run(session, kernel.assign)
    assert answer(session, kernel, kernel.add) == kernel.value
    assert [file["path"] for file in run(session, kernel.write)["files"]] == ["made.txt"]
    result = run(session, kernel.die)
    assert (result["status"], result["state"]) == ("crashed", "lost")
    assert "pid" in result["isolation"]["namespaces"] and result["isolation"]["network"] == "none"
    assert run(session, kernel.add)["status"] == "error"
