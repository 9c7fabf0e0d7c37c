"""`:deps` of `cella repl` on a terminal, from the operator's index."""

import http.server
import threading

import pytest
from support.package_index import index_variables
from test_repl import PROMPT, start  # noqa: F401 (fixture)

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]

INSTALLED = 90.0


@pytest.fixture
def repl(start, tmp_path):  # noqa: F811
    return start(with_env={**index_variables(), "CELLA_STATE_DIR": str(tmp_path / "packages")})


def change(repl, line):
    """What the terminal shows of it."""
    repl.type(line + "\r")
    return repl.until(PROMPT, INSTALLED)


def test_packages_are_added_listed_and_removed_with_a_bar(repl):
    shown = change(repl, ":deps add cowsay inflection")
    assert "[#" in shown and "Resolv" in shown and shown.endswith("\x1b[K"), shown
    assert repl.entry("import cowsay, inflection; cowsay.__name__") == "'cowsay'\n"
    assert repl.entry(":deps") == "cowsay\ninflection\n"
    assert "cowsay" not in change(repl, ":deps remove Cowsay").replace(":deps remove Cowsay", "")
    assert repl.entry(":deps") == "inflection\n"
    assert "'cowsay' was not added" in change(repl, ":deps remove cowsay")
    assert "is not a requirement" in change(repl, ":deps add ../x")
    assert ":deps add PACKAGE" in change(repl, ":deps install six")
    assert repl.leave() == 0


class Stalling(http.server.BaseHTTPRequestHandler):
    """An index that never answers."""

    def do_GET(self):
        self.server.asked.set()
        self.server.released.wait(60)

    def log_message(self, *ignored):
        pass


def test_ctrl_c_stops_a_change_and_the_session_goes_on(start, tmp_path, repl):  # noqa: F811
    change(repl, ":deps add cowsay")  # the installer is there
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stalling) as server:
        server.asked, server.released = threading.Event(), threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        slow = start(with_env={
            **index_variables(), "CELLA_STATE_DIR": str(tmp_path / "packages"), "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1", "UV_DEFAULT_INDEX": f"http://127.0.0.1:{server.server_address[1]}/simple"})
        assert slow.entry("x = 41") == ""
        slow.type(":deps add stalls\r")
        assert server.asked.wait(INSTALLED)
        slow.type("\x03")
        assert "stopped" in slow.until(PROMPT)
        assert slow.entry("x + 1") == "42\n"
        assert slow.entry(":deps") == ""
        assert slow.leave() == 0
        server.released.set()
        server.shutdown()
