"""What a guest of a session can see: variables, descriptors, processes, files and network."""

import os
import socket
import threading

import pytest
from support.running import IS_ROOT

pytestmark = pytest.mark.as_user

SECRET = {"SECRET": "hunter2", "PYTHONPATH": "/nowhere", "PYTHONSTARTUP": "/nowhere", "LD_LIBRARY_PATH": "/nowhere"}
# What a program may expect, and what keeps libraries from starting threads.
EXPECTED = {
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NODE_NO_WARNINGS", "NO_UPDATE_NOTIFIER",
    "CELLA_CALLS", "PYTHONPATH",  # where the guest's packages and pip are
}
BY_LANGUAGE = {
    "python": "import os; print('\\n'.join(os.environ))",
    "bash": "env | cut -d= -f1",
    "javascript": "console.log(Object.keys(process.env).join('\\n'))",
    "ruby": "puts ENV.keys",
}


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_no_variable_of_the_host_reaches_a_guest(open_session, language):
    session = open_session(with_env=SECRET)
    names = set(session.run(BY_LANGUAGE[language], language=language)["stdout"].split())
    # Shells add these by themselves.
    assert names - {"_", "PWD", "SHLVL", "OLDPWD"} <= EXPECTED
    assert "/nowhere" not in session.run("env", language="bash")["stdout"]


def test_guest_memory_has_no_variable_of_the_host(open_session):
    session = open_session(with_env=SECRET)
    assert session.value("'hunter2' in open('/proc/self/environ').read()") == "False"
    others = "cat /proc/[0-9]*/environ 2>/dev/null | grep -c hunter2"
    assert session.run(others, language="bash")["stdout"] == "0\n"


def test_named_variables_reach_every_language(open_session):
    session = open_session("--env", "COLOUR=dark teal", "--pass-env", "SECRET", with_env=SECRET)
    assert session.value("import os; os.environ['COLOUR'], os.environ['SECRET']") == "('dark teal', 'hunter2')"
    assert session.run('echo "$COLOUR $SECRET"', language="bash")["stdout"] == "dark teal hunter2\n"
    assert session.value("process.env.COLOUR", language="javascript") == "'dark teal'"
    assert session.run("puts ENV['COLOUR']", language="ruby")["stdout"] == "dark teal\n"


def test_argv_and_path_are_those_of_an_interactive_interpreter(open_session):
    session = open_session()
    assert session.value("import sys; sys.argv") == "['']"
    assert session.value("[entry for entry in sys.path if 'cella' in entry]") == "['/run/cella/shims']"
    assert session.value("sys.path[0]") == "''"
    assert session.value("[name for name in globals() if not name.startswith('__')]") == "['sys']"


def test_guest_has_no_descriptor_of_the_host(open_session):
    session = open_session()
    code = """
import os
links = []
for fd in os.listdir('/proc/self/fd'):
    try: links.append(os.readlink('/proc/self/fd/' + fd))
    except OSError: pass  # the one that read the directory
[link for link in links if link.startswith('/') and link != '/dev/null']
"""
    assert session.value(code) == "[]"
    inherited = "import subprocess; subprocess.check_output(['ls', '/proc/self/fd'], close_fds=False).decode().split()"
    assert session.value(inherited) == "['0', '1', '2', '3']", "programs inherit the session's channel"


def test_guest_sees_only_the_processes_of_its_session(open_session, token):
    session, other = open_session(), open_session()
    other.run(f"import subprocess; subprocess.Popen(['sleep', '60.{token}'])")
    listing = session.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", language="bash")["stdout"]
    assert token not in listing and "cella-launch" in listing


def test_guest_is_not_root_and_cannot_become_root(open_session):
    session = open_session()
    assert session.value("import os; os.getuid() != 0, os.getgid() != 0") == "(True, True)"
    assert session.run("os.setuid(0)")["error"]["name"] in ("PermissionError", "OSError"), "nobody is root in there"
    assert session.value("open('/proc/self/status').read().split('CapEff:')[1].split()[0]") == "'0000000000000000'"
    assert session.value("open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0]") == "'1'"
    assert session.value("open('/proc/self/status').read().split('Seccomp:')[1].split()[0]") == "'2'"


def test_a_forked_guest_is_confined_like_an_executed_one(open_session):
    """What the zygote made and what the jail's init started share every namespace and every lock."""
    session = open_session()
    names = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
    forked = session.value(f"import os; [os.readlink('/proc/self/ns/' + name) for name in {names}]")
    executed = session.run(f"for n in {' '.join(names)}; do readlink /proc/self/ns/$n; done", language="bash")["stdout"]
    assert eval(forked) == executed.split()
    for name, link in zip(names, eval(forked)):
        assert os.readlink(f"/proc/self/ns/{name}") != link, name
    status = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid|Gid|Groups)' /proc/{}/status"
    runner = session.run(status.format("$$"), language="bash")["stdout"]
    of_python = f"subprocess.check_output({status.format('%d')!r} % os.getpid(), shell=True).decode()"
    assert session.value("import subprocess; " + of_python) == repr(runner)
    limits = "open('/proc/self/limits').read()"
    assert eval(session.value(limits)).split("Max open files")[1].split()[:2] == ["1024", "1024"]


def test_workdir_is_the_workspace(open_session, tmp_path):
    (tmp_path / "data.txt").write_text("from the host")
    session = open_session("--workdir", tmp_path)
    assert session.value("open('data.txt').read()") == "'from the host'"
    session.run("open('made.txt', 'w').write('by the guest')")
    session.run("echo more >> made.txt", language="bash")
    session.run("File.write('ruby.txt', 'x')", language="ruby")
    session.run("import os; os.abort()")
    session.run("open('after.txt', 'w').close()")
    session.close()
    assert (tmp_path / "made.txt").read_text() == "by the guestmore\n"
    assert sorted(os.listdir(tmp_path)) == ["after.txt", "data.txt", "made.txt", "ruby.txt"], "code files stay behind"
    assert {entry.stat().st_uid for entry in tmp_path.iterdir()} == {os.getuid()}


def test_two_sessions_can_share_a_workdir(open_session, tmp_path):
    first, second = open_session("--workdir", tmp_path), open_session("--workdir", tmp_path)
    first.run("open('note', 'w').write('hello')")
    assert second.value("open('note').read()") == "'hello'"
    second.run("open('note', 'a').write(' back')")
    assert first.value("open('note').read()") == "'hello back'"


def test_mounts_have_the_requested_modes(open_session, tmp_path):
    shown, writable = tmp_path / "shown", tmp_path / "writable"
    shown.mkdir()
    writable.mkdir()
    (shown / "file").write_text("shown")
    session = open_session("--mount", f"{shown}:/data", "--mount", f"{writable}:/out:rw")
    assert session.value("open('/data/file').read()") == "'shown'"
    assert session.run("open('/data/new', 'w')")["error"]["name"] in ("OSError", "PermissionError")
    session.run("open('/out/new', 'w').write('x')")
    session.ask(op="reset")
    assert session.value("open('/out/new').read(), open('/data/file').read()") == "('x', 'shown')"
    session.close()
    assert (writable / "new").read_text() == "x" and os.listdir(shown) == ["file"]


def test_guest_without_network_cannot_connect(open_session):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        session = open_session()
        result = session.run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)")
        assert result["error"]["name"] in ("ConnectionRefusedError", "OSError")
        interfaces = "[line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]"
        assert session.value(interfaces) == "['lo']"
        assert session.run("pass")["isolation"]["network"] == "none"


def test_guest_with_network_host_reaches_the_host(open_session):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"hello")

        server = threading.Thread(target=serve)
        server.start()
        session = open_session("--network", "host")
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3).recv(10)"
        assert session.value(code) == "b'hello'"
        server.join()
        assert session.run("pass")["isolation"]["network"] == "host"


def test_server_inside_a_session_is_reachable_from_it(open_session):
    session = open_session()
    session.run("(exec python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1) &", language="bash")
    code = """
import time, urllib.request
for attempt in range(100):
    try:
        status = urllib.request.urlopen('http://127.0.0.1:8000/', timeout=3).status
        break
    except OSError:
        time.sleep(0.05)
status
"""
    assert session.value(code) == "200"


def test_files_readable_only_by_the_caller_are_visible_when_mounted(open_session, tmp_path):
    """Root's stay closed: the guest is another user. An ordinary user's guest is that user."""
    secret = tmp_path / "secret"
    secret.write_text("private")
    secret.chmod(0o600)
    tmp_path.chmod(0o755)
    session = open_session("--mount", f"{tmp_path}:/data")
    result = session.run("open('/data/secret').read()")
    assert (result["error"]["name"] == "PermissionError") if IS_ROOT else (result["value"] == "'private'"), result


def test_local_executor_sees_the_host(open_session, tmp_path):
    """And says so: it is for trusted code."""
    (tmp_path / "file").write_text("host")
    session = open_session("--executor", "local", "--workdir", tmp_path, with_env=SECRET)
    result = session.run(f"print(open({str(tmp_path / 'file')!r}).read())")
    assert (result["stdout"], result["isolation"]["executor"]) == ("host\n", "local")
    assert session.run("import os; print('SECRET' in os.environ)")["stdout"] == "False\n"
