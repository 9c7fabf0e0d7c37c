"""Which languages there are, by which names, and what is done to their code."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from lab import Lab

SAMPLES = {
    "python": "print(6 * 7)",
    "Python": "print(6 * 7)",
    "PYTHON": "print(6 * 7)",
    "py": "print(6 * 7)",
    "bash": "a=(6 7); echo $((a[0] * a[1]))",
    "BASH": "a=(6 7); echo $((a[0] * a[1]))",
    "sh": "echo $((6 * 7))",
    "shell": "echo $((6 * 7))",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_supported_language_runs(lab: Lab, name: str) -> None:
    result = lab.run((name, SAMPLES[name]))
    assert (result.exit_code, result.output) == (0, "42\n")


@pytest.mark.parametrize("name", ["python3", "javascript", "", " python", "rm -rf", "../x", "python\n"])
def test_unsupported_language_name_is_an_error(lab: Lab, name: str) -> None:
    result = lab.run(("python", "print('before')"), (name, "print(1)"), ("python", "print('after')"))
    assert result.exit_code == 1
    assert result.output == f"before\n\nunknown language {name}"


def test_unknown_language_writes_no_file(lab: Lab) -> None:
    result = lab.run(("rust", "fn main() {}"), cleanup_temp_files=False)
    assert (result.exit_code, result.output, result.code_file) == (1, "\nunknown language rust", None)
    assert lab.files() == []


def test_supported_languages_are_listed(lab: Lab) -> None:
    assert lab.type.SUPPORTED_LANGUAGES == ["bash", "shell", "sh", "pwsh", "powershell", "ps1", "python"]


@pytest.mark.skipif(bool(shutil.which("pwsh") or shutil.which("powershell")), reason="PowerShell is here: it runs")
@pytest.mark.parametrize("name", ["pwsh", "powershell", "ps1"])
def test_missing_powershell_error_names_the_remedy(lab: Lab, name: str) -> None:
    with pytest.raises(ValueError, match=r"Powershell or pwsh is not installed\. Please install one of them\."):
        lab.run((name, "Write-Output 42"))


@pytest.mark.skipif(not shutil.which("pwsh"), reason="needs pwsh")
@pytest.mark.parametrize("name", ["pwsh", "powershell", "ps1"])
def test_powershell_runs(lab: Lab, name: str) -> None:
    result = lab.run((name, "Write-Output (6 * 7)"), timeout=60)
    assert (result.exit_code, result.output) == (0, "42\n")


@pytest.mark.parametrize("name", ["pwsh", "powershell", "ps1"])
def test_powershell_is_started_with_the_expected_options(
    lab: Lab, name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stand-in, which shows its arguments and the file: it need not be installed, and is in a place of its own."""
    (tmp_path / "opt").mkdir()
    stand_in = tmp_path / "opt" / "pwsh"
    stand_in.write_text('#!/bin/sh\necho "$@"; shift 4; cat "$1"\n')
    stand_in.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pwsh").symlink_to(stand_in)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    result = lab.run((name, "# filename: x.ps1"))
    assert result.output == f"-NoProfile -ExecutionPolicy Bypass -File {lab.seen_dir}/x.ps1\n# filename: x.ps1"
    assert lab.run((name, "1"), cleanup_temp_files=False).code_file.endswith(".ps1")


@pytest.mark.parametrize("language", ["sh", "bash", "shell"])
def test_pip_in_scripts_is_made_quiet(lab: Lab, language: str) -> None:
    code = "pip install one\n pip install two\npip install -qqq three\necho pip install four"
    lab.run((language, "# filename: seen\n" + "exit 0\n" + code), cleanup_temp_files=False)
    assert (lab.work_dir / "seen").read_text().splitlines()[2:] == [
        "pip install -qqq one",
        " pip install two",
        "pip install -qqq three",
        "echo pip install four",
    ]


def test_pip_in_python_code_is_made_quiet(lab: Lab) -> None:
    lab.python("# filename: seen\n!pip install one\n! pip install two\npip install three", cleanup_temp_files=False)
    assert (lab.work_dir / "seen").read_text().splitlines()[1:] == [
        "!pip install -qqq one",
        "! pip install -qqq two",
        "pip install three",
    ]
