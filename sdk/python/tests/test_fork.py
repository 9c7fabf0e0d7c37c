"""os.fork() with live sessions: the child says so and may open its own, the parent goes on."""

import os

import pytest

from children import run_script

SYNC = """
    import os, sys, cella, cella.sync, cella._private_server as private
    session = cella.sync.Session()
    session.run("x = 41")
    server = private._current._pid
"""
END = """
    def wait_for_child(pid):
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        print("parent", session.run("x + 1").value, private._current._pid == server, flush=True)
"""


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)"], ids=["_exit", "exit"])
def test_child_gets_an_error_for_inherited_sessions_and_can_open_its_own(leave):
    said = run_script(SYNC + END + f"""
    pid = os.fork()
    if pid == 0:
        for use in (session.run, session.checkpoint):
            try:
                use("x")
            except cella.ForkedError as error:
                print("child", "fork" in str(error), flush=True)
        try:
            session.close()
        except cella.ForkedError:
            print("child closed", flush=True)
        own = cella.sync.Session()
        print("own", own.run("6 * 7").value, private._current._pid != server, flush=True)
        {"private.stop()" if "_exit" in leave else "pass"}
        {leave}
    wait_for_child(pid)
    session.close()
    """)
    assert said == ["child True", "child True", "child closed", "own 42 True", "parent 42 True"]


def test_parent_can_cancel_while_a_child_holds_copies_of_its_connections():
    said = run_script(SYNC + """
    import threading
    started, pids = threading.Event(), []
    def fork_in_the_middle(text):
        pid = os.fork()
        if pid == 0:
            os.read(reading, 1)
            os._exit(0)
        pids.append(pid)
        raise LookupError("enough")
    reading, writing = os.pipe()
    try:
        session.run("print('on', flush=True)\\nwhile True: pass", on_stdout=fork_in_the_middle)
    except LookupError:
        print(session.run("'next'", timeout=5).value)
    os.write(writing, b"x")
    os.waitpid(pids[0], 0)
    session.close()
    """)
    assert said == ["'next'"]


def test_asyncio_sessions_work_beside_multiprocessing():
    said = run_script("""
        import asyncio, multiprocessing, sys, cella

        def work(number):
            import cella.sync
            with cella.sync.Session() as session:
                return session.run(f"{number} * 2").value

        async def main():
            async with cella.Session() as session:
                await session.run("x = 41")
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    print(pool.map(work, [1, 2, 3]))
                    pool.close()
                    pool.join()
                print((await session.run("x + 1")).value)

        asyncio.run(main())
    """)
    assert said == ["['2', '4', '6']", "42"]


def test_child_of_a_child_can_open_its_own_session():
    said = run_script("""
        import os, cella.sync
        def check(depth):
            with cella.sync.Session() as session:
                print(depth, session.run("1").value, flush=True)
                if depth:
                    pid = os.fork()
                    if pid == 0:
                        check(depth - 1)
                        import cella._private_server as private
                        private.stop()
                        os._exit(0)
                    os.waitpid(pid, 0)
                print(depth, session.run("2").value, flush=True)
        check(2)
    """)
    assert said == ["2 1", "1 1", "0 1", "0 2", "1 2", "2 2"]


def test_child_that_uses_no_session_starts_no_server(own_places):
    said = run_script(SYNC + """
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0)
    print(session.run("1").value)
    """)
    assert said == ["1"]
    assert os.listdir(own_places) == []
