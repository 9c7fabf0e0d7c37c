"""The name `deps` and the command pip, against a host of the test that answers as the installer does."""

import json
import os
import socket
import struct
import threading

import pytest
from driver import ENVIRONMENT
from python_runner import INTERPRETERS, PACKAGE, start, version_of

SHIMS = PACKAGE.parent.parent / "shims"


class Installer:
    """Each change makes a directory with the modules that were asked for; `locked` ones are refused."""

    def __init__(self, root):
        self.path = str(root / "calls")
        self.root = root
        self.wanted = []
        self.locked = False
        self.generation = 0
        self.calls = []
        self._one_at_a_time = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection):
        """A connection takes many calls, as the host's does."""
        with connection, connection.makefile("rb") as stream:
            while sizes := stream.read(8):
                header_size, body_size = struct.unpack("<II", sizes)
                header, body = json.loads(stream.read(header_size)), json.loads(stream.read(body_size))
                with self._one_at_a_time:
                    answer, value = self._serve(header["operation"], body["args"])
                head, value = json.dumps(answer).encode(), json.dumps(value).encode()
                connection.sendall(struct.pack("<II", len(head), len(value)) + head + value)

    def _serve(self, operation, words):
        self.calls.append((operation, words))
        if operation == "list":
            return {}, {"deps": self.wanted, "installed": []}
        if self.locked and operation != "sync":
            return {"error": {"type": "DepsDisabledError", "message": "locked"}}, None
        if "no-such" in words:
            return {"error": {"type": "DepsError", "message": "no-such: not found"}}, None
        if operation == "remove":
            known = words[0] in self.wanted
            self.wanted = [each for each in self.wanted if each != words[0]]
            return {}, {"removed": known, "directory": self.publish() if known else self.directory()}
        added = [word for word in words if word not in self.wanted]
        self.wanted += added
        answer = {"added": [{"name": name, "version": "1"} for name in added], "removed": [], "needs_restart": []}
        return {}, {**answer, "directory": self.publish()}

    def directory(self):
        return str(self.root / str(self.generation)) if self.wanted else None

    def publish(self):
        self.generation += 1
        place = self.root / str(self.generation)
        place.mkdir()
        for name in self.wanted:
            (place / (name + ".py")).write_text("generation = %d\n" % self.generation)
            data = place / (name + "-1.dist-info")
            data.mkdir()
            (data / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: 1\nSummary: Test\n" % name)
        return self.directory()

    def close(self):
        self._listener.close()


@pytest.fixture
def host(tmp_path):
    made = Installer(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=INTERPRETERS, ids=lambda python: "%d.%d" % version_of(python))
def guest(request, host):
    link = os.path.dirname(host.path) + "/.cella-packages"
    paths = {
        "PATH": "%s/bin:%s:%s" % (SHIMS, os.path.dirname(request.param), ENVIRONMENT["PATH"]),
        "PYTHONPATH": "%s:%s" % (SHIMS, link),
    }
    with start(request.param) as started:
        env = {**ENVIRONMENT, **paths, "CELLA_CALLS": host.path}
        started.send({"type": "configure", "env": env, "cwd": str(host.root), "spaces": ["deps"]})
        begin = started.start
        # As the supervisor does: each run is told where the packages are.
        started.start = lambda code, **fields: begin(code, packages=host.directory(), **fields)
        yield started


def test_added_package_is_imported_in_the_same_cell(guest):
    assert guest.run("deps.add('aa'); import aa; aa.generation").value == "1"
    assert guest.run("deps.list()").value == "['aa']"
    outcome = guest.run("(await deps.add('bb')).added, await deps.list(), await deps.remove('bb'), deps.remove('bb')")
    assert outcome.value == "(['bb==1'], ['aa', 'bb'], True, False)"
    assert guest.run("import bb").error["name"] == "ModuleNotFoundError"


def test_failures_are_of_the_kinds_of_deps_error(guest, host):
    assert guest.run("deps.add('no-such')").error["name"] == "DepsError"
    host.locked = True
    assert guest.run("deps.add('aa')").error["name"] == "DepsDisabledError"
    caught = guest.run("try:\n    deps.remove('aa')\nexcept DepsError as error:\n    print(error.type, error.operation)")
    assert caught.stdout == "DepsDisabledError remove\n"
    assert guest.run("issubclass(DepsError, HostCallError), deps.sync().added").value == "(True, [])"


@pytest.mark.parametrize(
    "line",
    [
        "%pip install -q aa",
        "!pip install aa",
        "!python3 -m pip install aa && true",
        "import subprocess, sys; _ = subprocess.run([sys.executable, '-m', 'pip', 'install', 'aa'], check=True)",
        "import subprocess; _ = subprocess.run(['pip', 'install', '-U', 'aa'], check=True)",
        "import pip; pip.main(['install', 'aa'])",
        "import multiprocessing\nwith multiprocessing.Pool(1) as pool: pool.apply(deps.add, ('aa',))",
    ],
)
def test_package_is_there_for_the_rest_of_the_cell(guest, line):
    outcome = guest.run("%s\nimport aa\nprint('generation', aa.generation)" % line)
    assert outcome.status == "ok" and outcome.stdout.endswith("generation 1\n"), (outcome.error, outcome.stderr)


def test_shell_script_has_the_package_at_once(guest):
    outcome = guest.run("%%bash\npip install aa\npython3 -c 'import aa; print(aa.generation)'\npip freeze | grep aa")
    assert outcome.stdout == "Successfully installed aa-1\n1\naa==1\n", outcome.stderr


def test_pip_tells_what_is_there(guest, host):
    guest.run("deps.add('aa')")
    assert guest.run("!pip install aa 'aa==1'").stdout == (
        "Requirement already satisfied: aa (1)\nRequirement already satisfied: aa==1 (1)\n"
    )
    assert [words for operation, words in host.calls if operation == "add"] == [["aa"]]
    assert "aa" in guest.run("%pip list").stdout and "Name: aa\n" in guest.run("!pip show aa").stdout
    assert json.loads(guest.run("!pip list --format=json").stdout)
    assert guest.run("!pip uninstall -y aa").stdout == "Successfully uninstalled aa-1\n"
    assert "Skipping aa" in guest.run("!pip uninstall -y aa").stderr


@pytest.mark.parametrize(
    ("spec", "there"),
    [("aa>=0.9,<2", True), ("aa ~= 1.0", True), ("aa==1.*", True), ("aa!=2", True), ("aa<=1.0.0", True), ("aa>0.9", True),
     ("aa>1", False), ("aa<1", False), ("aa~=1.1", False), ("aa==2.*", False), ("aa!=1.*", False), ("aa[more]", False),
     ("aa>=0.9rc1", False)],
)
def test_package_that_is_there_is_not_asked_for(guest, host, spec, there):
    guest.run("deps.add('aa')")
    host.locked = True
    outcome = guest.run("%%pip install '%s'" % spec)
    if there:
        assert outcome.stdout == "Requirement already satisfied: %s (1)\n" % spec, outcome.stderr
    else:
        assert outcome.error["name"] == "DepsDisabledError" and host.calls[-1] == ("add", [spec])


def test_requirements_are_read_from_a_file(guest, host):
    (host.root / "requirements.txt").write_text("aa  # first\n\nbb\\\n\n# end\n")
    assert guest.run("%pip install -r requirements.txt").stdout == "Successfully installed aa-1 bb-1\n"
    (host.root / "requirements.txt").write_text("--index-url http://x\naa\n")
    assert "only packages are accepted" in guest.run("!pip install -r requirements.txt").stderr


def test_failed_pip_line_is_the_error_of_a_cell_of_such_lines_alone(guest, host):
    outcome = guest.run("# packages\n%pip install no-such")
    assert outcome.error["name"] == "DepsError" and outcome.stderr == "ERROR: no-such: not found\n"
    outcome = guest.run("!pip install no-such\nprint('on', _exit_code)")
    assert (outcome.status, outcome.stdout) == ("ok", "on 1\n") and "no-such" in outcome.stderr
    host.locked = True
    assert guest.run("!pip install aa").error["name"] == "DepsDisabledError"
    assert guest.run("import subprocess; subprocess.run(['pip', 'install', 'aa']).returncode").value == "1"


@pytest.mark.parametrize("words", ["install --index-url=http://x aa", "install -e .", "install --target d aa", "wheel aa"])
def test_what_the_host_decides_is_refused(guest, host, words):
    outcome = guest.run("!pip %s" % words)
    assert outcome.error["name"] == "PipError" and not host.calls


def test_next_run_follows_the_host(guest, host):
    guest.run("deps.add('aa')")
    host.wanted.append("bb")
    directory = host.publish()
    assert guest.run("import bb; bb.generation").value == "2"
    assert os.readlink(os.path.join(os.path.dirname(host.path), ".cella-packages")) == directory
