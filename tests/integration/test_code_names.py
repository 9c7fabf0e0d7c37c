"""The name of the file that the code is written to: from the command line or from the first line."""

import hashlib
import os
import re
import shutil
import subprocess

import pytest
from support.cella import PYTHON


def saved_name(run, language, code):
    result = run.json("--lang", language, "-c", code)
    assert result["status"] == "ok", result
    return result["stdout"].strip()


@pytest.mark.parametrize(
    "language, code",
    [
        ("python", "# filename: named.py\nimport sys; print(sys.argv[0])"),
        ("python", "#filename:named.py\nimport sys; print(sys.argv[0])"),
        ("python", "#!/usr/bin/python3\n# Filename: named.py \nimport sys; print(sys.argv[0])"),
        ("sh", "# filename: named.py\necho $0"),
        (
            "javascript",
            "// filename: named.py\nconsole.log(require('path').basename(process.argv[1]))".replace(".py", ".js"),
        ),
        ("javascript", "/* filename: named.js */\nconsole.log(require('path').basename(process.argv[1]))"),
        ("lua", "-- filename: named.lua\nprint(arg[0])"),
        ("php", "<?php\n// filename: named.php\necho $argv[0];"),
    ],
)
def test_first_line_comment_sets_the_file_name(run, language, code):
    name = re.search(r"named\.\w+", code)[0]
    assert saved_name(run, language, code) == name


@pytest.mark.parametrize(
    "language, code, name",
    [
        ("html", "<!-- filename: page.html -->\n<p>x</p>", "page.html"),
        ("css", "/* filename: style.css */\np {}", "style.css"),
        ("markdown", "<!-- filename: docs/note.md -->\n# x", "docs/note.md"),
        ("json", "// filename: data.json\n{}", "data.json"),
    ],
)
def test_save_only_language_uses_the_name_of_the_first_line(run, tmp_path, language, code, name):
    result = run.json("--lang", language, "-c", code, "--out", tmp_path / "out")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("ok", 0, ""), result
    assert [(file["path"], file["size"], file["change"]) for file in result["files"]] == [(name, len(code), "created")]
    assert (tmp_path / "out" / name).read_text() == code


def test_file_name_with_directory_creates_the_directory(run):
    code = "# filename: pkg/deep/main.py\nimport sys, os\nprint(sys.argv[0], os.getcwd(), os.path.exists(sys.argv[0]))"
    assert run.python(code)["stdout"] == "pkg/deep/main.py /workspace True\n"


def test_default_file_name_contains_the_digest(run):
    code = "import os; print(*os.listdir('.'))"
    names = {run.python(code)["stdout"].strip() for _ in range(2)}
    digest = hashlib.sha256(code.encode()).hexdigest()
    assert len(names) == 2
    assert all(re.fullmatch(rf"tmp_code_{digest}_[0-9a-f]{{8}}\.py", name) for name in names), names


def test_filename_comment_after_the_first_line_is_ignored(run):
    assert run.python("x = 1\n# filename: named.py\nimport sys; print(sys.argv[0])")["stdout"].startswith("tmp_code_")


def test_name_of_the_given_file_overrides_the_comment(run, tmp_path):
    (tmp_path / "own.py").write_text("# filename: other.py\nimport os; print(os.listdir('.'))")
    assert run.json(tmp_path / "own.py")["stdout"] == "['own.py']\n"


ESCAPES = [
    "../out.py",
    "/etc/out.py",
    "a/../../out.py",
    "..",
    ".",
    "",
    "dir/",
    "//out.py",
    "a/..",
    "x" * 256 + ".py",
    "./../out.py",
]


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_rejects_file_name_outside_the_workspace(run, tmp_path, name, executor):
    work = tmp_path / "work"
    work.mkdir()
    message = run.rejected(
        "-c", f"# filename: {name}\nprint('ran')", "--workdir", work, "--executor", executor, "--python", PYTHON
    )
    assert "not in the workspace" in message, message
    assert os.listdir(tmp_path) == ["work"] and os.listdir(work) == []


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_rejects_file_name_through_a_symlink(run, tmp_path, executor):
    work, victim = tmp_path / "work", tmp_path / "victim"
    work.mkdir()
    victim.mkdir()
    (victim / "file.py").write_text("untouched")
    (work / "link").symlink_to(victim)
    (work / "direct.py").symlink_to(victim / "file.py")
    (work / "dangling.py").symlink_to(victim / "new.py")
    for name in ("link/out.py", "link/file.py", "direct.py", "dangling.py"):
        message = run.rejected(
            "-c", f"# filename: {name}\nprint('ran')", "--workdir", work, "--executor", executor, "--python", PYTHON
        )
        assert name in message and "not in the workspace" in message, message
    assert os.listdir(victim) == ["file.py"] and (victim / "file.py").read_text() == "untouched"


def test_rejects_file_name_of_a_directory(run, tmp_path):
    (tmp_path / "taken.py").mkdir()
    message = run.rejected("-c", "# filename: taken.py\nprint('ran')", "--workdir", tmp_path)
    assert "taken.py" in message
    assert (tmp_path / "taken.py").is_dir()


def test_unusual_file_names_are_accepted(run):
    for name in ("a b.py", "ä€.py", "...py", ".hidden.py", "-x.py", "a/./b.py", "semi;colon.py"):
        result = run.python(f"# filename: {name}\nimport sys; print(sys.argv[0])")
        assert result["status"] == "ok", (name, result)
        assert os.path.normpath(result["stdout"].strip()) == os.path.normpath(name)


# How each tool names code that has no name of its own, when it fails; the shortest code that makes it do so.
NAMED_CODE = {
    "python": ("def f():\n    1 / 0\nf()", ['File "<code>", line 3, in <module>', "    f()", 'File "<code>", line 2, in f']),
    "bash": ("true\nno_such_command", ["<code>: line 2: no_such_command"]),
    "sh": ("true\nno_such_command", ["<code>: 2: no_such_command"]),
    "javascript": ("const f = () => { throw new Error('x'); };\nf();", ["<code>:1\n", "(<code>:2:1)"]),
    "c": ("int main() {\n  nonsense;\n}", ["<code>:2:3: error", "    2 |   nonsense;"]),
    "ruby": ("def f\n  raise 'x'\nend\nf", ["<code>:2:in", "<code>:4:in"]),
    "perl": ("die 'x'", ["x at <code> line 1"]),
    "lua": ("error('x')", ["<code>:1: x"]),
}


@pytest.mark.parametrize("executor", ["sandbox", "local"])
@pytest.mark.parametrize("language", NAMED_CODE)
def test_messages_call_code_without_a_name_code(run, language, executor):
    code, shown = NAMED_CODE[language]
    if shutil.which({"python": "python3", "javascript": "node", "c": "cc"}.get(language, language)) is None:
        pytest.skip(f"{language} is not installed: tools/setup.sh tests")
    python = ["--python", PYTHON] if language == "python" else []
    result = run.json("--lang", language, "-c", code, "--executor", executor, *python)
    assert result["status"] == "error", result
    assert "tmp_code_" not in result["stderr"], result["stderr"]
    for words in shown:
        assert words in result["stderr"], result["stderr"]


def test_module_of_node_is_called_code(run):
    if shutil.which("node") is None:
        pytest.skip("node is not installed: tools/setup.sh tests")
    result = run.json("--lang", "javascript", "-c", "import fs from 'fs';\nthrow new Error('x');")
    assert "tmp_code_" not in result["stderr"] and "at <code>:2:7" in result["stderr"], result["stderr"]


def test_code_keeps_its_file_name_where_it_asks_for_it(run):
    result = run.python("import sys; print(__file__); print(__file__, file=sys.stderr)")
    assert re.fullmatch(r"/workspace/tmp_code_\w+\.py\n", result["stdout"]), result
    assert result["stderr"] == "<code>\n"


def test_code_with_a_name_keeps_it_in_tracebacks(run, tmp_path):
    (tmp_path / "own.py").write_text("1 / 0")
    assert '/own.py", line 1' in run.json(tmp_path / "own.py")["stderr"]
    assert '/named.py", line 2' in run.python("# filename: named.py\n1 / 0")["stderr"]


def test_traceback_among_much_output_names_the_code(run):
    """The pipe is full all the time, and the name is cut between two reads."""
    code = "import sys, warnings\nfor n in range(3000): warnings.warn_explicit('x' * (n % 97), UserWarning, __file__, n + 100)"
    result = run.python("import warnings; warnings.simplefilter('always')\n" + code)
    lines = result["stderr"].splitlines()
    assert len(lines) == 3000 and all(line.startswith(f"<code>:{n + 100}: ") for n, line in enumerate(lines)), lines[:3]


def test_passed_through_traceback_names_the_code(cella, environment):
    done = subprocess.run([cella.binary, "run", "-c", "1 / 0"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and '  File "<code>", line 1, in <module>\n    1 / 0\n' in done.stderr, done
