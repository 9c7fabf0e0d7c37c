"""Many concurrent sessions, on a server below its limit and on one at its limit."""

import asyncio
import threading

import pytest

import cella
import cella.sync
from cella._private_server import _most_sessions
from serving import TOKEN, serving

SMALL = cella.SandboxExecutor(memory_limit="64m", disk_limit="16m", pids_limit=16, checkpoint="off")


def test_thousand_sessions_can_be_opened_at_once():
    async def one(number):
        async with cella.Session(SMALL) as session:
            return (await session.run(f"{number} + 1")).value

    async def main():
        return await asyncio.gather(*(one(number) for number in range(count)))

    # With fewer descriptors than usual the others would wait, and not for long.
    count = min(1000, _most_sessions())
    assert count > 100
    assert asyncio.run(main()) == [str(number + 1) for number in range(count)]


def test_hundred_sessions_can_live_at_once():
    async def main():
        sessions = [cella.Session(SMALL) for _ in range(100)]
        await asyncio.gather(*(session.run(f"x = {n}") for n, session in enumerate(sessions)))
        results = await asyncio.gather(*(session.run("x") for session in sessions))
        assert [result.value for result in results] == [str(n) for n in range(100)]
        await asyncio.gather(*(session.aclose() for session in sessions))

    asyncio.run(main())


def test_opening_is_retried_until_the_server_has_room(twin, wait):
    with serving("[sessions]\nmax_sessions = 2\n") as server:
        client = twin.api.Client(server.url, TOKEN)
        full = [wait(client.create_session()) for _ in range(2)]

        def make_room():
            other = cella.sync.Client(server.url, TOKEN)
            other.delete_session(full[0]["id"])
            other.close()

        timer = threading.Timer(0.5, make_room)
        timer.start()
        session = wait(client.create_session())
        timer.join()
        wait(client.delete_session(session["id"]))
        twin.close(client)


def test_full_server_is_reported_with_its_hint(twin, wait, monkeypatch):
    module = __import__(f"cella._{twin.name}.client", fromlist=["client"])
    monkeypatch.setattr(module, "BUSY_BOUND", 0.1)
    with serving("[sessions]\nmax_sessions = 1\n") as server:
        client = twin.api.Client(server.url, TOKEN)
        wait(client.create_session())
        with pytest.raises(cella.ServerBusy, match="1 sessions at most") as busy:
            wait(client.create_session())
        assert busy.value.status == 429 and busy.value.retry_after == 5.0
        twin.close(client)
