"""Threads and event loops: several at once, one after the other, and closed under a session."""

import asyncio
import gc
import threading
import warnings

import pytest

import cella
import cella.sync
from support.running import wait_until


def test_session_works_in_several_loops():
    session = cella.Session()
    asyncio.run(session.run("x = 41"))
    assert asyncio.run(session.run("x + 1")).value == "42"
    asyncio.run(session.aclose())


def test_closing_the_loop_of_a_session_leaves_no_connection():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        session = cella.Session()
        for _ in range(3):
            loop = asyncio.new_event_loop()
            assert loop.run_until_complete(session.run("1")).ok
            loop.close()
        pools = session.client._exchanges.pool._pools
        asyncio.run(session.run("1"))
        assert sum(not loop.is_closed() for loop in pools) == 0 and len(pools) <= 2
        asyncio.run(session.aclose())
        gc.collect()


def test_closing_the_loop_during_a_run_ends_the_run():
    session = cella.Session()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(session.run("x = 41"))
    task = loop.create_task(session.run("while True: pass"))

    async def is_running():
        while (await session.info())["status"] != "running":
            await asyncio.sleep(0.01)

    loop.run_until_complete(is_running())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    assert asyncio.run(session.run("x + 1", timeout=5)).value == "42"
    asyncio.run(session.aclose())


def test_loops_in_several_threads_share_a_session():
    session = cella.Session()
    asyncio.run(session.open())
    values = []

    async def work(number):
        for _ in range(5):
            values.append((await session.run(f"{number}")).value)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(work(n))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(values) == sorted(str(n) for n in range(6) for _ in range(5))
    asyncio.run(session.aclose())


def test_concurrent_tasks_open_a_session_once():
    async def main():
        async with cella.Session() as other:
            before = len((await other.client.list_sessions(limit=1000))["sessions"])
            session = cella.Session()
            results = await asyncio.gather(*(session.run(str(n)) for n in range(10)))
            assert [result.value for result in results] == [str(n) for n in range(10)]
            assert len((await other.client.list_sessions(limit=1000))["sessions"]) == before + 1
            await session.aclose()

    asyncio.run(main())


def sessions_on(client):
    """How many the private server has."""
    lines = client._exchanges.fetch("GET", "/metrics").decode().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("cella_sessions{"))


def test_session_whose_opening_was_cancelled_is_ended():
    observer = cella.sync.Client()
    before = sessions_on(observer)

    async def main():
        for delay in (number * 0.0002 for number in range(40)):
            session = cella.Session()
            task = asyncio.ensure_future(session.open())
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.wait([task])
            await session.aclose()
        while asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert wait_until(lambda: sessions_on(observer) <= before, 10)
    observer.close()


def test_unreferenced_sessions_are_ended_by_the_next_use():
    with cella.sync.Session() as other:
        before = sessions_on(other.client)
        for _ in range(5):
            cella.sync.Session().run("1")
            gc.collect()
        assert sessions_on(other.client) <= before + 1


def test_threads_share_a_session():
    with cella.sync.Session() as session:
        values = []

        def work(number):
            for _ in range(5):
                values.append(session.run(f"{number}").value)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(values) == sorted(str(n) for n in range(8) for _ in range(5))


def test_concurrent_first_use_starts_one_server():
    from children import run_script

    said = run_script("""
        import threading, cella.sync, cella._private_server as private
        made = []
        original = private.PrivateServer.__init__
        private.PrivateServer.__init__ = lambda self: (made.append(1), original(self))[1]
        values = []
        def work():
            with cella.sync.Session() as session:
                values.append(session.run("1").value)
        threads = [threading.Thread(target=work) for _ in range(10)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(made), values == ["1"] * 10)
    """)
    assert said == ["1 True"]


def test_cancel_succeeds_while_requests_wait_for_connections():
    from cella._transport import aio

    async def main():
        async with cella.Session() as blocked, cella.Session() as free:
            places, aio._MOST_BUSY = aio._MOST_BUSY, 3
            blocked.client._exchanges.pool.close()
            try:
                runs = [asyncio.ensure_future(blocked.run("import time; time.sleep(100)")) for _ in range(3)]
                while len((await free.client.list_runs(blocked.id))["runs"]) < 3:
                    await asyncio.sleep(0.01)
                waiting = asyncio.ensure_future(free.run("'my turn'"))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                assert await blocked.cancel() == 3
                assert (await asyncio.wait_for(waiting, 20)).value == "'my turn'"
                await asyncio.gather(*runs)
            finally:
                aio._MOST_BUSY = places
                blocked.client._exchanges.pool.close()

    asyncio.run(main())
