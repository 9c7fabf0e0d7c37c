"""The private server: one for each process, found, started, and gone with its owner whatever happens."""

import os
import pathlib
import signal
import stat
import sys

import pytest

from children import Child, run_script
from support.leftovers import cgroups_of, processes_with
from support.running import wait_until

pytestmark = pytest.mark.usefixtures("own_places")

START = """
    import cella.sync, cella._private_server as private
    session = cella.sync.Session()
    session.run("1")
    print("directory", private._current._directory.path, flush=True)
    print("server", private._current._pid, flush=True)
"""
SWEEP_ALL = """
    import cella._private_directory as directories
    directories._SETTLED_AFTER = -1
"""
SPIN = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass', '{}'])"


def directories():
    return set(os.listdir(os.environ["XDG_RUNTIME_DIR"]))


def assert_gone(child, family, directory, server):
    family.assert_gone(10)
    assert not os.path.exists(directory)
    assert cgroups_of([server]) == []


def test_one_server_serves_all_sessions_of_a_process():
    said = run_script("""
        import asyncio, cella, cella.sync, cella._private_server as private
        with cella.sync.Session() as one, cella.sync.Session() as two:
            assert one.run("1").ok and two.run("1").ok
            first = private._current._pid

            async def main():
                async with cella.Session() as three:
                    assert (await three.run("1")).ok

            asyncio.run(main())
            assert private._current._pid == first
        print("same")
    """)
    assert said == ["same"]


def test_server_directory_is_private_to_its_user():
    with Child(START + "    input()") as child:
        directory = child.answer("directory")
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        assert os.stat(directory).st_uid == os.geteuid()
        child.tell()
        assert child.finish() == 0, child.describe()
        assert not os.path.exists(directory)


def test_socket_of_the_server_needs_its_secret():
    """A guest of a jail that this user started has the user's uid: the uid is not enough."""
    said = run_script("""
        import http.client, json, socket, cella.sync, cella._private_server as private
        class Connection(http.client.HTTPConnection):
            def connect(self):
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.connect(private._current.socket)
        def status(**headers):
            connection = Connection("localhost")
            connection.request("POST", "/v1/sessions", json.dumps({"executor": "local"}), headers)
            return connection.getresponse().status
        with cella.sync.Session() as session:
            assert session.run("1").ok
            print(status(), status(Authorization="Bearer " + "0" * 64),
                  status(Authorization="Bearer " + private._current.token))
    """)
    assert said == ["401 401 201"]


def test_ended_process_leaves_nothing():
    with Child(START + "    input()") as child:
        directory, server = child.answer("directory"), child.answer("server")
        family = child.family()
        assert int(server) in family.members
        child.tell()
        assert child.finish() == 0, child.describe()
        assert_gone(child, family, directory, server)


@pytest.mark.parametrize("ending", ["", "raise LookupError", "import sys; sys.exit(3)"], ids=["end", "raise", "exit"])
def test_process_ending_with_runs_in_flight_ends_in_time_and_leaves_nothing(ending, token):
    script = START + f"""
    import threading
    run = threading.Thread(target=session.run, args=({SPIN.format(token)!r},), daemon=True)
    run.start()
    session.start("1")
    input()
    {ending}
    """
    with Child(script) as child:
        directory, server = child.answer("directory"), child.answer("server")
        assert wait_until(lambda: processes_with("while True: pass\0" + token), 20), child.describe()
        family = child.family()
        child.tell()
        child.finish(20)
        assert_gone(child, family, directory, server)
        assert not processes_with(token)


def test_asyncio_program_ending_with_runs_in_flight_leaves_nothing(token):
    script = f"""
        import asyncio, cella
        async def main():
            session = cella.Session()
            await session.open()
            asyncio.ensure_future(session.run({SPIN.format(token)!r}))
            await asyncio.get_running_loop().run_in_executor(None, input)
        asyncio.run(main())
    """
    with Child(script) as child:
        assert wait_until(lambda: processes_with("while True: pass\0" + token), 20), child.describe()
        family = child.family()
        child.tell()
        assert child.finish(20) == 0, child.describe()
        family.assert_gone(10)
    assert not processes_with("while True: pass\0" + token)


def test_server_ends_with_its_killed_parent_and_the_next_one_sweeps(token):
    with Child(START + f"    session.run({SPIN.format(token)!r})") as child:
        directory, server = child.answer("directory"), child.answer("server")
        assert wait_until(lambda: processes_with("while True: pass\0" + token), 20)
        family = child.family()
        os.kill(child.pid, signal.SIGKILL)
        child.finish()
        family.assert_gone(10)
        assert cgroups_of([server]) == []
    assert not processes_with("while True: pass\0" + token)
    # Too young to be taken for abandoned: a directory that is just being made looks the same.
    run_script(START)
    assert os.path.exists(directory)
    run_script(SWEEP_ALL + START)
    assert not os.path.exists(directory)


def test_sweep_keeps_directories_of_living_servers():
    with Child(START + "    input(); session.run('1'); print('alive')") as child:
        directory = child.answer("directory")
        run_script(SWEEP_ALL + START)
        assert os.path.exists(directory)
        child.tell()
        assert child.finish() == 0, child.describe()
        assert "alive" in child.said


def test_dead_server_is_reported_and_the_next_session_starts_another(tmp_path):
    said = run_script("""
        import os, signal, cella, cella.sync, cella._private_server as private
        session = cella.sync.Session()
        session.run("1")
        first = private._current
        os.kill(first._pid, signal.SIGKILL)
        for _ in range(2):
            try:
                session.run("1")
            except cella.ServerDied as error:
                print(error)
        assert not os.path.exists(first._directory.path)
        session.close()
        with cella.sync.Session() as another:
            print(another.run("6 * 7").value)
        assert private._current is not first
    """)
    assert len(said) == 3 and said[2] == "42"
    assert "was killed by signal 9" in said[0] and "new session starts a new one" in said[0]


def test_server_death_during_a_run_is_reported(twin):
    said = run_script(f"""
        import asyncio, os, signal, threading, time, cella, cella.sync, cella._private_server as private
        class End(threading.Thread):
            def run(self):
                started.wait(20)
                os.kill(private._current._pid, signal.SIGKILL)
        started = threading.Event()
        End().start()
        CODE = "print('on', flush=True)\\nwhile True: pass"
        try:
            if {twin.name!r} == "sync":
                with cella.sync.Session() as session:
                    session.run(CODE, on_stdout=lambda text: started.set())
            else:
                async def main():
                    async with cella.Session() as session:
                        await session.run(CODE, on_stdout=lambda text: started.set())
                asyncio.run(main())
        except cella.ServerDied as error:
            print("told")
    """)
    assert said == ["told"]


def test_failed_server_start_reports_the_servers_output(tmp_path):
    program = tmp_path / "cella"
    program.write_text("#!/bin/sh\necho the last words >&2\nexit 7\n")
    program.chmod(0o755)
    before = directories()
    said = run_script("""
        import cella, cella.sync
        for _ in range(2):
            try:
                cella.sync.Session().run("1")
            except cella.ServerStartError as error:
                print(error)
    """, env={"CELLA_BIN": str(program)})
    assert len(said) == 2 and all("ended with 7" in line and "the last words" in line for line in said)
    assert directories() == before


def test_program_that_cannot_be_started_is_reported(tmp_path):
    program = tmp_path / "cella"
    program.write_bytes(b"\x7fELF this is none")
    program.chmod(0o755)
    before = directories()
    said = run_script("""
        import cella, cella.sync
        try:
            cella.sync.Session().run("1")
        except cella.ServerStartError as error:
            print(error)
    """, env={"CELLA_BIN": str(program)})
    assert len(said) == 1 and "cannot be started" in said[0] and str(program) in said[0]
    assert directories() == before


def test_missing_program_error_names_the_remedy(tmp_path):
    said = run_script("""
        import os, cella, cella.sync, cella._programs
        os.environ.pop("CELLA_BIN")
        cella._programs._CARRIED = "/nowhere"  # where it was installed from a wheel
        try:
            cella.sync.Session()
        except cella.ProgramNotFound as error:
            print(error)
    """, env={"PATH": str(tmp_path)})
    assert len(said) == 1 and "CELLA_BIN" in said[0] and os.uname().machine in said[0]


def test_wrong_cella_bin_is_reported():
    said = run_script("""
        import cella, cella.sync
        try:
            cella.sync.Session()
        except cella.ProgramNotFound as error:
            print(error)
    """, env={"CELLA_BIN": "/nowhere/cella"})
    assert said == ["CELLA_BIN names '/nowhere/cella', which is no program: correct it, or unset it"]


def test_program_is_found_on_path_except_for_our_own_command(tmp_path):
    (tmp_path / "cella").write_text(f"#!{sys.executable}\nraise SystemExit(99)\n")
    (tmp_path / "cella").chmod(0o755)
    binary = pathlib.Path(os.environ["CELLA_BIN"])
    said = run_script("""
        import os
        os.environ.pop("CELLA_BIN")
        import cella._programs
        cella._programs._CARRIED = "/nowhere"
        print(cella._programs.find_program())
    """, env={"PATH": f"{tmp_path}:{binary.parent}"})
    assert said == [str(binary)]


@pytest.mark.parametrize("element", [".", "", "bin"])
def test_program_below_the_current_directory_is_not_started(tmp_path, element):
    planted = tmp_path / element / "cella"
    planted.parent.mkdir(exist_ok=True)
    planted.write_bytes(b"\x7fELF")
    planted.chmod(0o755)
    binary = pathlib.Path(os.environ["CELLA_BIN"])
    said = run_script(f"""
        import os
        os.environ.pop("CELLA_BIN")
        os.chdir({str(tmp_path)!r})
        import cella._programs
        cella._programs._CARRIED = "/nowhere"
        print(cella._programs.find_program())
    """, env={"PATH": f"{element}:{binary.parent}"})
    assert said == [str(binary)]


def test_too_long_temporary_directory_name_is_skipped(tmp_path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    environment = {"TMPDIR": str(long), "XDG_RUNTIME_DIR": str(long)}
    said = run_script(START, env=environment)
    assert said and str(long) not in said[0]


def test_missing_place_for_the_server_directory_names_the_remedy(tmp_path):
    said = run_script("""
        import cella, cella.sync, cella._private_directory as directories
        directories._candidates = lambda is_state: iter(["/proc", "/" + "x" * 120])
        try:
            cella.sync.Session()
        except cella.ServerStartError as error:
            print(error)
    """)
    assert len(said) == 1 and "TMPDIR" in said[0] and "too long" in said[0]


def test_server_starts_with_an_unwritable_home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    said = run_script(START + "    print(session.run('6 * 7').value)", env={"HOME": "/proc/nowhere"})
    assert said[-1] == "42"
    said = run_script(START + "    print(session.run('6 * 7').value)", env={"HOME": str(home)})
    assert said[-1] == "42"


def test_server_inherits_no_descriptor_of_its_parent():
    said = run_script("""
        import os, cella.sync
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        session = cella.sync.Session()
        session.run("1")
        os.close(writing)
        os.set_blocking(reading, False)
        print("end" if os.read(reading, 1) == b"" else "open")
    """)
    assert said == ["end"]


def test_server_does_not_notify_the_parents_service_manager(tmp_path):
    said = run_script(f"""
        import os, socket, cella.sync
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind({str(tmp_path / 'notify')!r})
        notify.setblocking(False)
        os.environ["NOTIFY_SOCKET"] = {str(tmp_path / 'notify')!r}
        cella.sync.Session().run("1")
        try:
            print(notify.recv(100))
        except BlockingIOError:
            print("silent")
    """)
    assert said == ["silent"]


def test_caller_reaping_all_children_is_supported():
    said = run_script("""
        import os, signal, cella, cella.sync, cella._private_server as private
        session = cella.sync.Session()
        session.run("1")
        os.kill(private._current._pid, signal.SIGKILL)
        os.wait()
        try:
            session.run("1")
        except cella.ServerDied as error:
            print("told")
        print(cella.sync.Session().run("1").value)
    """)
    assert said == ["told", "1"]


def test_sync_package_does_not_import_asyncio_or_slow_modules():
    said = run_script("""
        import sys
        from cella.sync import Session
        with Session() as session:
            session.run("1")
        heavy = ("asyncio", "subprocess", "dataclasses", "inspect", "typing", "threading", "http.client", "tempfile",
                 "shutil", "ssl", "email")
        print([name for name in heavy if name in sys.modules])
    """)
    assert said == ["[]"]


def test_server_is_started_before_the_remaining_imports():
    said = run_script("""
        import sys
        from cella.sync import Session
        import cella._private_server as private
        start = private.PrivateServer._spawn
        private.PrivateServer._spawn = lambda *words: (print([n for n in ("json", "socket", "re", "enum")
                                                              if n in sys.modules]), start(*words))[1]
        Session()
    """)
    assert said == ["[]"]


def test_state_lies_in_the_temporary_directory_and_the_socket_does_not(tmp_path):
    """/dev/shm has 64 MB in a container: a few runs with much output filled it for good."""
    said = run_script("""
        import os, cella.sync
        import cella._private_server as private
        with cella.sync.Session() as session:
            session.run("print('x' * 3_000_000)")
            server = private._current
            assert os.path.dirname(server.socket).startswith(os.environ["XDG_RUNTIME_DIR"])
            assert server._state.path.startswith(os.environ["TMPDIR"])
            assert os.stat(server._state.path).st_mode & 0o777 == 0o700
            size = sum(os.lstat(os.path.join(where, name)).st_size
                       for where, _, names in os.walk(os.path.dirname(server.socket)) for name in names)
            assert size < 20_000, size
            assert os.path.isdir(os.path.join(server._state.path, "state"))
        private.stop()
        assert os.listdir(os.environ["TMPDIR"]) == [], os.listdir(os.environ["TMPDIR"])
        assert os.listdir(os.environ["XDG_RUNTIME_DIR"]) == []
        print("holds")
    """, env={"TMPDIR": str(tmp_path)})
    assert said == ["holds"]
