"""Source packages: their build scripts are foreign code. Each attack first succeeds where a plain installer builds."""

import os
import pathlib
import shutil
import socket
import subprocess

import pytest
from support.cella import PYTHON, run_bounded
from support.needs import require
from support.package_index import index_variables
from support.wheels import make_own_sdist, make_sdist, make_wheel

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]

TOKEN = "token-of-the-caller-4711"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("sources")
    (place / "links").mkdir()
    (place / "home").mkdir()
    (place / "home" / "secret.txt").write_text("secret of the caller")
    (place / "work").mkdir()
    (place / "work" / "data.txt").write_text("file of the workspace")
    return place


@pytest.fixture(scope="module")
def variables(place):
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place / "home"), **index_variables(), "CELLA_TOKEN": TOKEN,
        "CELLA_STATE_DIR": str(place / "state"), "UV_FIND_LINKS": str(place / "links"),
    }


@pytest.fixture(scope="module")
def listener():
    """A service on the loopback of the host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def run_with(cella, variables, *names, code="print('ran')", **more):
    packages = [word for name in names for word in ("--with", name)]
    argv = [str(cella.binary), "run", *packages, "--python", PYTHON, "-c", code]
    return run_bounded(argv, env={**variables, **more}, timeout=180)


def install_on_the_host(place, variables, name):
    """The control: pip builds it with the caller's rights."""
    venv = place / f"venv-{name}"
    subprocess.run([require("network-index")["INDEX_PYTHON"], "-m", "venv", venv], check=True)
    pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", place / "links", name]
    return venv, subprocess.run(pip, capture_output=True, text=True, env=variables)


def test_build_script_finds_nothing_of_the_caller(cella, place, variables, listener):
    cache = place / "state" / "environments" / "work" / "cache"
    code = f"""
import socket
FOUND = []
def look(what, test):
    try:
        if test():
            FOUND.append(what)
    except OSError:
        pass
look("home", lambda: os.path.exists({str(place / "home" / "secret.txt")!r}))
look("own home", lambda: os.path.exists(os.path.expanduser("~/secret.txt")))
look("workspace", lambda: os.path.exists({str(place / "work" / "data.txt")!r}))
look("token", lambda: {TOKEN!r} in repr(os.environ))
look("cache", lambda: os.listdir({str(cache)!r}))
look("links", lambda: os.listdir({str(place / "links")!r}))
look("loopback", lambda: socket.create_connection(("127.0.0.1", {listener}), 2))
look("interfaces", lambda: len(socket.if_nameindex()) > 1)
WHEEL[2]["probe.py"] = "FOUND = %r\\n" % FOUND
"""
    make_own_sdist(place / "links", "probe_8f3a", code, ["probe_8f3a", "1.0", {}])
    cache.mkdir(parents=True, mode=0o700, exist_ok=True)
    (cache.parents[2]).chmod(0o700)
    (cache.parents[1]).chmod(0o700)
    (cache / "CACHEDIR.TAG").touch()
    venv, installed = install_on_the_host(place, variables, "probe_8f3a")
    control = subprocess.run([venv / "bin/python", "-c", "import probe; print(*probe.FOUND, sep=',')"], capture_output=True,
                             text=True)
    found = control.stdout.strip().split(",")
    assert {"home", "own home", "workspace", "token", "cache", "links", "loopback"} <= set(found), (installed, control)
    shutil.rmtree(place / "state")
    built = run_with(cella, variables, "probe_8f3a", code="import probe; print(probe.FOUND)")
    assert built.stdout == b"[]\n", built.describe()


POISON = """
import glob
for root in ROOTS:
    for path in glob.glob(root + "/archive-v0/*/six.py"):
        os.chmod(path, 0o644)
        with open(path, "a") as file:
            file.write("\\nPOISONED = True\\n")
"""
ASK = "import six; print(getattr(six, 'POISONED', False))"


def test_build_script_does_not_poison_the_cache(cella, place, variables):
    cache = place / "state" / "environments" / "work" / "cache"
    assert run_with(cella, variables, "six", code=ASK).stdout == b"False\n"
    (uv,) = (place / "state" / "environments" / "tools").glob("uv-*")
    # The control: one jail with the network and a cache, where uv installs a wheel, then builds.
    make_wheel(place / "links", "prey_8f3a", {"six.py": "eaten = False\n"})
    box = place / "box"
    box.mkdir()
    shutil.copy(uv, box / "uv")
    roots = [str(cache), str(box / "cache")]
    make_own_sdist(place / "links", "poison_8f3a", f"ROOTS = {roots!r}\n{POISON}")
    install = f"""
import subprocess
def install(name, target):
    subprocess.run([{str(box / "uv")!r}, "pip", "install", "--python", "/usr/bin/python3", "--cache-dir", {str(box / "cache")!r},
                    "--no-config", "--no-index", "--target", {str(box)!r} + "/" + target, name], check=True)
install("prey_8f3a", "earlier")
install("poison_8f3a", "attack")
"""
    argv = [str(cella.binary), "run", "--network", "host", "--python", PYTHON, "--mount", f"{box}:{box}:rw",
            "--env", f"UV_FIND_LINKS={place / 'links'}", "--mount", f"{place / 'links'}:{place / 'links'}", "-c", install]
    control = run_bounded(argv, env=variables, timeout=180)
    assert control.exit_code == 0, control.describe()
    assert "POISONED" in (box / "earlier" / "six.py").read_text(), "control: what was installed earlier has changed"

    before = {path: path.read_bytes() for path in cache.glob("archive-v0/*/six.py")}
    assert before
    built = run_with(cella, variables, "poison_8f3a", code="import poison_8f3a; print(poison_8f3a.BUILT)")
    assert built.stdout == b"True\n", built.describe()
    assert {path: path.read_bytes() for path in cache.glob("archive-v0/*/six.py")} == before
    assert run_with(cella, variables, "six", code=ASK).stdout == b"False\n"
    assert run_with(cella, variables, "six", "poison_8f3a", code=ASK).stdout == b"False\n"


def test_wheel_of_another_package_is_refused(cella, place, variables):
    make_own_sdist(place / "links", "claims_8f3a", "", ["six", "99.0", {"six.py": "who = 'thief'\n"}])
    refused = run_with(cella, variables, "claims_8f3a")
    assert refused.exit_code == 126 and b"left a wheel of six" in refused.stderr, refused.describe()
    assert run_with(cella, variables, "six", code="import six; print(six.__version__ < '99')").stdout == b"True\n"


def test_wheel_that_is_a_link_is_refused(cella, place, variables):
    code = """
def build_wheel(directory, settings=None, metadata=None):
    os.symlink("/etc/passwd", os.path.join(directory, "linked_8f3a-1.0-py3-none-any.whl"))
    return "linked_8f3a-1.0-py3-none-any.whl"
"""
    make_own_sdist(place / "links", "linked_8f3a", code)
    refused = run_with(cella, variables, "linked_8f3a")
    assert refused.exit_code == 126 and refused.stdout == b"", refused.describe()


def test_built_wheel_that_replaces_pyvenv_cfg_is_refused(cella, place, variables):
    files = {"overwrites.py": "", "overwrites_8f3a-1.0.data/data/pyvenv.cfg": "home = /evil\n"}
    make_own_sdist(place / "links", "overwrites_8f3a", "", ["overwrites_8f3a", "1.0", files])
    refused = run_with(cella, variables, "overwrites_8f3a")
    assert refused.exit_code == 126 and b"pyvenv.cfg" in refused.stderr, refused.describe()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("raises", {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
                    "b.py": "print('before the end')\nraise RuntimeError('no compiler here')\n"}),
        ("lies", {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
                  "b.py": "def build_wheel(*a, **k): return '../../etc/passwd'\n"}),
        ("exits", {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
                   "b.py": "import os\nos._exit(0)\n"}),
        ("floods", {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
                    "b.py": "import os\nfor n in range(3000): os.write(1, b'x' * 100000)\nos._exit(0)\n"}),
        ("url", {"pyproject.toml": '[build-system]\nrequires = ["x @ https://h/x.whl"]\n'}),
        ("toml", {"pyproject.toml": "[build-system\n"}),
        ("circle", {"pyproject.toml": '[build-system]\nrequires = ["circle"]\n'}),
    ],
)
def test_build_that_fails_says_why(cella, place, variables, name, files):
    make_sdist(place / "links", f"fails_{name}", files)
    refused = run_with(cella, variables, f"fails-{name}")
    assert refused.exit_code == 126 and refused.stdout == b"", refused.describe()
    assert f"fails-{name}".encode() in refused.stderr or f"fails_{name}".encode() in refused.stderr
    if name == "raises":
        assert b"no compiler here" in refused.stderr and b"before the end" in refused.stderr
    staging = place / "state" / "environments" / "work" / "staging"
    assert list(staging.iterdir()) == []


def test_builds_can_be_switched_off(cella, place, variables):
    make_own_sdist(place / "links", "unbuilt_8f3a", "")
    refused = run_with(cella, variables, "unbuilt_8f3a", CELLA_SOURCE_BUILDS="off")
    assert refused.exit_code == 126 and b"not built from their source" in refused.stderr, refused.describe()


def test_package_of_the_index_without_a_wheel_is_built_once(cella, place, variables):
    ask = "import docopt; print(docopt.__version__)"
    assert run_with(cella, variables, "docopt==0.6.2", code=ask).stdout == b"0.6.2\n"
    offline = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    again = run_with(cella, variables, "docopt==0.6.2", code=ask, **offline)
    assert again.stdout == b"0.6.2\n", again.describe()
    built = pathlib.Path(place / "state" / "environments" / "built")
    assert len([wheel for wheel in built.glob("*/docopt-*.whl")]) == 1
    assert os.stat(built).st_mode & 0o077 == 0
