"""The client side works where the programs do not: macOS and Windows, by simulation; and with what frameworks do."""

import asyncio
import inspect
import os
import subprocess
import sys
import textwrap
import typing
import warnings

import pytest

import cella
import cella.sync
from serving import TOKEN, serving

SYSTEMS = {
    "darwin": """
        import socket, select, sys
        for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE"): vars(socket).pop(name, None)
        socket.TCP_KEEPALIVE = 4  # Linux calls this number TCP_KEEPIDLE
        missing = ("resource",)
    """,
    "win32": """
        import os, select, socket, sys
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "AF_UNIX"): vars(socket).pop(name, None)
        for name in ("register_at_fork", "fork", "posix_spawn", "uname", "geteuid"): vars(os).pop(name, None)
        vars(select).pop("poll", None)
        missing = ("fcntl", "resource", "pwd", "grp", "termios")
    """,
}
MISSING = """
    class Missing:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name in missing: raise ModuleNotFoundError(name)
    for name in missing: sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing)
"""
USE = """
    import cella, cella.sync, cella.config
    sys.platform = system
    try:
        cella.sync.Session()
    except cella.ProgramNotFound as error:
        assert "url=" in str(error), error
    with cella.sync.Session(url=url, token=token) as session:
        assert session.run("6 * 7").value == "42"
        session.upload("a", b"text")
    if system == "darwin":  # the loop of Windows cannot be had here
        import asyncio

        async def use():
            async with cella.Session(url=url, token=token) as session:
                assert (await session.run("6 * 7")).value == "42"

        asyncio.run(use())
    with cella.sync.Session(cella.InProcessExecutor()) as session:
        assert session.run("display(1); 6 * 7").value == "42"
    print("works")
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_client_works_on_another_system(system):
    with serving() as server:
        head = f"system, url, token = {system!r}, {server.url!r}, {TOKEN!r}\n"
        code = head + "".join(textwrap.dedent(part) for part in (SYSTEMS[system], MISSING, USE))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
        )
    assert (done.stdout, done.returncode) == ("works\n", 0), done.stderr


@pytest.mark.parametrize("kind", [cella.Session, cella.sync.Session])
def test_type_hints_of_methods_resolve(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name != "opened":
            assert typing.get_type_hints(method), name


def test_closing_in_a_cancelled_scope_ends_the_session():
    """anyio cancels each wait of a scope anew: here a task that is cancelled again and again."""

    async def main(server):
        client = cella.Client(server.url, TOKEN)
        entered = asyncio.Event()

        async def use():
            async with cella.Session(client=client):
                entered.set()
                await asyncio.sleep(60)

        task = asyncio.ensure_future(use())
        await entered.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        for _ in range(500):
            page = await client.list_sessions()
            if not page["sessions"]:
                break
            await asyncio.sleep(0.01)
        await client.aclose()
        return page["sessions"]

    with serving() as server:
        assert asyncio.run(main(server)) == []


def test_dropped_remote_session_is_a_resource_warning(twin, wait):
    with serving() as server:
        session = twin.api.Session(url=server.url, token=TOKEN)
        wait(session.open())
        client = session.client
        with pytest.warns(ResourceWarning, match="not closed"):
            del session
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twin.close(client)
