"""The files that code is written to: their names, where they may be, and when they go away."""

from __future__ import annotations

import hashlib
import pathlib

import pytest
from lab import Lab


def expected_name(code: str, extension: str) -> str:
    return f"tmp_code_{hashlib.sha256(code.encode()).hexdigest()}.{extension}"


@pytest.mark.parametrize(
    ("language", "extension"), [("python", "py"), ("py", "py"), ("bash", "bash"), ("sh", "sh"), ("shell", "shell")]
)
def test_file_name_is_derived_from_the_code(lab: Lab, language: str, extension: str) -> None:
    code = "print('ü')" if extension == "py" else "echo ü"
    result = lab.run((language, code), cleanup_temp_files=False)
    assert (result.exit_code, result.output) == (0, "ü\n")
    assert lab.files() == [expected_name(code, extension)]
    assert result.code_file == str(lab.work_dir.resolve() / expected_name(code, extension))
    assert pathlib.Path(result.code_file).read_text() == code


def test_file_name_is_derived_after_pip_is_made_quiet(lab: Lab) -> None:
    result = lab.run(("sh", "exit 0\npip install x"), cleanup_temp_files=False)
    assert result.code_file.endswith(expected_name("exit 0\npip install -qqq x", "sh"))


def test_code_sees_its_file_name(lab: Lab) -> None:
    code = "print(__file__)"
    assert lab.python(code).output == f"{lab.seen_dir}/{expected_name(code, 'py')}\n"


def test_shell_script_sees_its_file_name(lab: Lab) -> None:
    code = 'echo "$0"'
    assert lab.run(("bash", code)).output == f"{lab.seen_dir}/{expected_name(code, 'bash')}\n"


def test_files_are_removed_afterwards(lab: Lab) -> None:
    result = lab.run(("python", "print(1)"), ("sh", "echo 2; exit 1"))
    assert result.code_file is not None and not pathlib.Path(result.code_file).exists()
    assert lab.files() == []


def test_failed_clean_up_is_logged(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    result = lab.python("# filename: own.py\nimport os\nos.remove(__file__)\nos.mkdir(__file__)")
    assert result.exit_code == 0 and lab.files() == ["own.py"], result.output
    assert "Failed to delete temporary file" in caplog.text and "own.py" in caplog.text, caplog.text


def test_code_file_of_the_result_is_the_first_block(lab: Lab) -> None:
    result = lab.run(("python", "# filename: one.py"), ("python", "# filename: two.py"), cleanup_temp_files=False)
    assert result.code_file == str(lab.work_dir.resolve() / "one.py")
    assert lab.files() == ["one.py", "two.py"]


def test_first_line_comment_sets_the_file_name(lab: Lab) -> None:
    result = lab.python("# filename: hello.py\nprint(__file__)", cleanup_temp_files=False)
    assert (result.exit_code, result.output) == (0, f"{lab.seen_dir}/hello.py\n")
    assert (lab.work_dir / "hello.py").read_text() == "# filename: hello.py\nprint(__file__)"


def test_named_files_are_removed_as_well(lab: Lab) -> None:
    lab.python("# filename: hello.py\nprint(1)")
    assert lab.files() == []


def test_named_file_replaces_an_existing_one(lab: Lab) -> None:
    (lab.work_dir / "hello.py").write_text("print('old')\n" * 100)
    assert lab.python("# filename: hello.py\nprint('new')").output == "new\n"


def test_later_block_can_use_the_file_of_an_earlier_one(lab: Lab) -> None:
    user = "import helper\nprint(helper.f())"
    result = lab.run(("python", "# filename: helper.py\ndef f(): return 42"), ("python", user))
    assert (result.exit_code, result.output) == (0, "42\n")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("# filename:plain.py", "plain.py"),
        ("# filename:   spaces in it.py  ", "spaces in it.py"),
        ("# filename: ./dot.py", "dot.py"),
        ("# filename: sub/../up.py", "up.py"),
        ("# filename: sub/below.py", "sub/below.py"),
        ("# filename: a.py: what it does", "a.py"),
        ("# filename: -dash.py", "-dash.py"),
        ("# filename: ünï.py", "ünï.py"),
        ("# filename: no_extension", "no_extension"),
        ("# filename: $(touch x);'q'.py", "$(touch x);'q'.py"),
    ],
)
def test_valid_file_names_are_accepted(lab: Lab, line: str, name: str) -> None:
    (lab.work_dir / "sub").mkdir()
    result = lab.python(line + "\nprint('ran')", cleanup_temp_files=False)
    assert (result.exit_code, result.output) == (0, "ran\n")
    assert result.code_file == str(lab.work_dir.resolve() / name)
    assert (lab.work_dir / name).is_file() and not (lab.work_dir / "x").exists()


def test_absolute_name_inside_the_directory_is_accepted(lab: Lab) -> None:
    result = lab.python(f"# filename: {lab.work_dir}/in.py\nprint('ran')", cleanup_temp_files=False)
    assert result.output == "ran\n" and lab.files() == ["in.py"]


@pytest.mark.parametrize("name", ["../out.py", "/out.py", "sub/../../out.py", "/etc/passwd", "link/out.py"])
def test_rejects_names_outside_the_directory(lab: Lab, tmp_path: pathlib.Path, name: str) -> None:
    (lab.work_dir / "link").symlink_to(tmp_path)
    blocks = ("python", "print('before')"), ("python", f"# filename: {name}\nprint('ran')")
    result = lab.run(*blocks, cleanup_temp_files=False)
    assert (result.exit_code, result.output, result.code_file) == (1, "Filename is not in the workspace", None)
    assert not (tmp_path / "out.py").exists()


@pytest.mark.parametrize("code", ["#filename: x.py", "# Filename: x.py", "1 # filename: x.py", "#  filename: x.py"])
def test_malformed_filename_comments_are_ignored(lab: Lab, code: str) -> None:
    result = lab.python(code, cleanup_temp_files=False)
    assert result.exit_code == 0 and lab.files() == [expected_name(code, "py")]


def test_filename_comment_after_the_first_line_is_ignored(lab: Lab) -> None:
    lab.python("print(1)\n# filename: x.py", cleanup_temp_files=False)
    assert "x.py" not in lab.files()


def test_other_comment_styles_are_ignored(lab: Lab) -> None:
    lab.run(("sh", "// filename: x.sh"), cleanup_temp_files=False)
    assert "x.sh" not in lab.files()


def test_windows_line_ends_are_accepted(lab: Lab) -> None:
    result = lab.python("# filename: w.py\r\nprint('ran')\r\n", cleanup_temp_files=False)
    assert result.output == "ran\n" and lab.files() == ["w.py"]


def test_files_made_by_the_code_are_kept(lab: Lab) -> None:
    lab.run(("python", "open('result.csv', 'w').write('1')"), ("sh", "mkdir d; echo 2 > d/x"))
    assert lab.files() == ["d", "result.csv"]


def test_files_belong_to_the_caller(lab: Lab) -> None:
    lab.run(("python", "open('made', 'w')"), ("sh", "mkdir made_too"))
    owner = lab.work_dir.stat().st_uid
    assert {(lab.work_dir / name).stat().st_uid for name in ("made", "made_too")} == {owner}
