"""Variables and virtual environments, as the engine takes them."""

from __future__ import annotations

import os
import re
import venv
from collections.abc import Mapping
from types import SimpleNamespace

from cella.config import Mount

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of a policy document.
_MOST_VARIABLES = 250
_MOST_BYTES = 63 << 10
# Where pip looks for indexes and certificates, besides PIP_*.
_PIP_READS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


def usable(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that a program can make use of. Names that no shell takes (exported functions of bash) and values that are
    no text stay behind."""
    return {name: value for name, value in variables.items() if _NAME.fullmatch(name) and _is_text(value)}


def fits(variables: Mapping[str, str]) -> bool:
    """Whether a policy document can hold them."""
    return len(variables) <= _MOST_VARIABLES and _size(variables) <= _MOST_BYTES


def _size(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode()) + 2 for name, value in variables.items())


def passed_on(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that are usable. Raises ValueError where there are too many."""
    taken = usable(variables)
    if fits(taken):
        return taken
    raise ValueError(
        f"the environment is too large to be passed on ({len(taken)} variables, {_size(taken)} bytes; at most "
        f"{_MOST_VARIABLES} and {_MOST_BYTES}): name what the code needs with env={{...}}"
    )


def virtual_env_dir(context: SimpleNamespace | None) -> str | None:
    if context is None:
        return None
    return os.path.abspath(str(context.env_dir))


def virtual_env_at(directory: str | None) -> SimpleNamespace | None:
    """The context of an environment that is there already."""
    if directory is None:
        return None
    return venv.EnvBuilder().ensure_directories(directory)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def pip_needs() -> tuple[dict[str, str], list[Mount]]:
    """Variables and files of the host that its pip goes by, for a pip that sees nothing else of the host."""
    env = passed_on(
        {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.upper() in _PIP_READS}
    )
    if "PIP_CONFIG_FILE" not in env:
        for path in ("~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf"):
            if os.path.isfile(os.path.expanduser(path)):
                env["PIP_CONFIG_FILE"] = os.path.expanduser(path)
                break
    named = dict.fromkeys(value for value in env.values() if os.path.isabs(value) and os.path.exists(value))
    # A jail has these anyway.
    return env, [Mount(path, path) for path in named if not path.startswith(("/usr/", "/etc/ssl/"))]
