"""What the operator configured for pip and uv is what the installer uses: proxies, directories instead of an index."""

import http.server
import os
import threading
import zipfile

import pytest
from support.cella import PYTHON, TIME_BOUND, run_bounded
from support.package_index import index_variables
from support.wheels import make_own_sdist, make_wheel

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]

HOST = "packages.invalid"  # which has no address: only a proxy can know it


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("index")


def run_with(cella, variables, *names, code="print('ran')"):
    packages = [word for name in names for word in ("--with", name)]
    argv = [str(cella.binary), "run", *packages, "--python", PYTHON, "-c", code]
    return run_bounded(argv, env=variables, timeout=TIME_BOUND * 4)


@pytest.fixture(scope="module")
def links(cella, environment, place):
    """A directory with a wheel of the installer, as the index has it, and two packages."""
    state = place / "first"
    done = run_with(cella, {**environment, **index_variables(), "CELLA_STATE_DIR": str(state)}, "six")
    assert done.stdout == b"ran\n", done.describe()
    (uv,) = (state / "environments" / "tools").glob("uv-*")
    version = uv.name.split("-")[1]
    links = place / "links"
    links.mkdir()
    wheel = make_wheel(links, "uv", {}, version)
    wheel = wheel.rename(links / f"uv-{version}-py3-none-manylinux_2_17_{os.uname().machine}.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.write(uv, f"uv-{version}.data/scripts/uv")
    make_wheel(links, "local_8f3a", {"local_8f3a.py": "WORD = 'wheel'\n"})
    make_own_sdist(links, "source_8f3a", "")
    return links


class Proxy(http.server.BaseHTTPRequestHandler):
    """Knows one host, whose index has the files of a directory."""

    def do_GET(self):
        prefix = f"http://{HOST}/"
        if not self.path.startswith(prefix):
            return self.send(b"", 404)
        parts = self.path[len(prefix):].strip("/").split("/")
        files = sorted(self.server.links.iterdir())
        if parts[0] == "files":
            return self.send(next(file for file in files if file.name == parts[1]).read_bytes())
        named = [file.name for file in files if file.name.split("-")[0].replace("_", "-") == parts[-1]]
        self.server.asked.add(parts[-1])
        page = "".join(f'<a href="http://{HOST}/files/{name}">{name}</a>\n' for name in named)
        return self.send(page.encode(), 200 if named else 404)

    def send(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *ignored):
        pass


@pytest.mark.parametrize("setting", ["HTTP_PROXY", "PIP_PROXY"])
def test_installer_and_packages_come_through_the_proxy(cella, environment, links, tmp_path, setting):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        proxy.links, proxy.asked = links, set()
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        variables = {**environment, "CELLA_STATE_DIR": str(tmp_path), "PIP_INDEX_URL": f"http://{HOST}/simple",
                     "PIP_TRUSTED_HOST": HOST, setting: f"http://127.0.0.1:{proxy.server_address[1]}"}
        code = "import local_8f3a, source_8f3a; print(local_8f3a.WORD, source_8f3a.BUILT)"
        done = run_with(cella, variables, "local_8f3a", "source_8f3a", code=code)
        assert done.stdout == b"wheel True\n", done.describe()
        assert {"uv", "local-8f3a", "source-8f3a"} <= proxy.asked
        proxy.shutdown()


def test_directory_serves_where_the_operator_has_no_index(cella, environment, links, tmp_path):
    (tmp_path / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = file://{links}\n")
    variables = {**environment, "CELLA_STATE_DIR": str(tmp_path / "state"), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
                 "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    code = "import local_8f3a, source_8f3a; print(local_8f3a.WORD, source_8f3a.BUILT)"
    done = run_with(cella, variables, "local_8f3a", "source_8f3a", code=code)
    assert done.stdout == b"wheel True\n", done.describe()
    refused = run_with(cella, variables, "six")
    assert refused.exit_code == 126 and b"six" in refused.stderr, refused.describe()
    # No connection was tried, which would have failed.
    assert b"127.0.0.1" not in refused.stderr and b"onnect" not in refused.stderr, refused.describe()


def test_lock_larger_than_a_pipe_holds(cella, environment, links, tmp_path):
    """As of `streamlit`: a lock has the hashes of all wheels of each package."""
    many = tmp_path / "links"
    many.mkdir()
    names = [f"many{number}_{'x' * 115}" for number in range(350)]
    for name in names:
        make_wheel(many, name, {f"{name}.py": ""})
    (tmp_path / "requirements.txt").write_text("".join(f"{name}\n" for name in names))
    variables = {**environment, **index_variables(), "CELLA_STATE_DIR": str(tmp_path / "state"),
                 "UV_FIND_LINKS": f"{many},{links}"}
    argv = [str(cella.binary), "run", "-r", str(tmp_path / "requirements.txt"), "--python", PYTHON, "-c",
            f"import {names[0]}, {names[-1]}; print('all')"]
    done = run_bounded(argv, env=variables, timeout=TIME_BOUND * 4)
    assert done.stdout == b"all\n", done.describe()
