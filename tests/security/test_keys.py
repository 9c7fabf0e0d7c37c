"""The kernel lists keys in /proc/keys by user id, and an ordinary user's guest has the user's own."""

import ctypes
import os
import pathlib
import secrets

import pytest
from support.repl import Repl
from support.victims import Scene

pytestmark = pytest.mark.as_user

CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}
USER_KEYRING = -4
UNLINK = 9


@pytest.fixture
def key():
    """The name of a key in the user's own key ring."""
    libc = ctypes.CDLL(None, use_errno=True)
    add, control = CALLS[os.uname().machine]
    name = f"cella-test-{secrets.token_hex(8)}"
    number = libc.syscall(add, b"user", name.encode(), b"secret", ctypes.c_size_t(6), USER_KEYRING)
    if number < 0:
        pytest.skip(f"no keys: {os.strerror(ctypes.get_errno())}")
    yield name
    libc.syscall(control, UNLINK, number, USER_KEYRING)


READ = "[open(f'/proc/{name}').read() for name in ('keys', 'key-users')]"


def test_names_of_the_users_keys_are_not_in_a_jail(cella, key):
    assert key in pathlib.Path("/proc/keys").read_text(), "the name is not shown outside either"
    with Scene() as scene:
        source = scene.directory / "read.py"
        source.write_text(f"print({READ})")
        single = cella.run_python(source, env=scene.env).result()
        assert single["stdout"] == "['', '']\n", single
        with Repl(cella.binary, env=scene.env) as repl:
            assert repl.value(READ) == "['', '']"
