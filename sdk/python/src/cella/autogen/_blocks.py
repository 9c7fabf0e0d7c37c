"""What AutoGen does to a block of code before it runs: its language, its text, the name of its file."""

from __future__ import annotations

import re
import shutil
from hashlib import sha256
from pathlib import Path

SUPPORTED_LANGUAGES = ["bash", "shell", "sh", "pwsh", "powershell", "ps1", "python"]

POWERSHELL = ("pwsh", "powershell", "ps1")
_PIP_IN_PYTHON = re.compile(r"^! ?pip install")
_PIP_IN_SHELL = re.compile(r"^pip install")
_NAME_LINE = "# filename:"


class NotInWorkspace(ValueError):
    """The code asks for a file name outside of its working directory."""


def normal_language(name: str) -> str:
    """The name that AutoGen compares; what it does not know stays as it is written."""
    lowered = name.lower()
    return "python" if lowered == "py" else lowered


def quiet_pip(code: str, language: str) -> str:
    """Tells pip to be quiet on lines that begin with it: what it prints costs a model tokens and tells it nothing."""
    if language == "python":
        pattern = _PIP_IN_PYTHON
    elif language in SUPPORTED_LANGUAGES:
        pattern = _PIP_IN_SHELL
    else:
        return code
    lines = code.split("\n")
    for number, line in enumerate(lines):
        found = pattern.match(line)
        if found and "-qqq" not in line:
            lines[number] = line.replace(found.group(), f"{found.group()} -qqq")
    return "\n".join(lines)


def to_bytes(code: str) -> bytes:
    """The file's content. A lone surrogate, which models do write, is for the interpreter to complain about."""
    return code.encode("utf-8", "surrogatepass")


def file_of(code: str, language: str, work_dir: Path) -> Path:
    """Where the code goes, relative to `work_dir`, which must be a real path. Raises NotInWorkspace."""
    return work_file(code, work_dir, _extension(language))


def work_file(code: str, work_dir: Path, extension: str) -> Path:
    """The same for a given extension."""
    first_line = code.split("\n", 1)[0]
    if not first_line.startswith(_NAME_LINE):
        return Path(f"tmp_code_{sha256(to_bytes(code)).hexdigest()}.{extension}")
    name = first_line[len(_NAME_LINE) :].split(":", 1)[0].strip()
    try:
        relative = (work_dir / name).resolve().relative_to(work_dir)
    except (ValueError, OSError, RuntimeError):  # outside; too long, a NUL byte; a loop of links
        raise NotInWorkspace(name) from None
    if not relative.parts:
        raise NotInWorkspace(name)
    return relative


def command_of(language: str, python: str, search_path: str) -> list[str]:
    """The program that runs a file of this language, and what comes before the file."""
    if language == "python":
        return [python]
    if language in POWERSHELL:
        for program in ("pwsh", "powershell"):
            found = shutil.which(program, path=search_path)
            if found:
                return [found, "-NoProfile", "-ExecutionPolicy", "Bypass", "-File"]
        raise ValueError("Powershell or pwsh is not installed. Please install one of them.")
    return ["bash" if language == "bash" else "sh"]


def _extension(language: str) -> str:
    if language == "python":
        return "py"
    return "ps1" if language in POWERSHELL else language
