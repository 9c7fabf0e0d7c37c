"""Every language that is installed runs; of every other one the user learns how to install it."""

import os
import shutil

import pytest
from language_samples import SAMPLES
from support.running import Run

PATH = os.environ["PATH"]

# Go compiles the standard library anew in every jail, which takes a while on a small machine.
PATIENT = ["--timeout", "85s", "--cpu-time", "170s"]
LONG = {"timeout": 90}
QUICK = [language for language in SAMPLES if language != "go"]


@pytest.fixture(scope="session")
def run(cella, home):
    """With the caller's own PATH and HOME, since that is where tools of version managers are found."""
    return Run(cella, {**os.environ, "XDG_CACHE_HOME": str(home / "cache")})


def installed(sample):
    return any(shutil.which(tool, path=PATH) for tool in sample.tools) and all(
        shutil.which(tool, path=PATH) for tool in sample.needs
    )


def assert_rejected_with_hint(result, language, sample):
    assert (result["status"], result["exit_code"]) == ("rejected", 127), result
    message = result["error"]["message"]
    assert f"{language} cannot run here" in message and sample.tools[0] in message and sample.hint in message


@pytest.mark.parametrize("language", QUICK)
def test_every_language_receives_arguments_and_input(run, language):
    sample = SAMPLES[language]
    result = run.json("--lang", language, "-c", sample.code, "--", "world", input=b"from stdin\n", **LONG)
    if not installed(sample):
        assert_rejected_with_hint(result, language, sample)
        return
    assert (result["status"], result["exit_code"]) == ("ok", 0), result
    assert result["stdout"].rstrip("\n") == "hello world\nfrom stdin", result
    assert result["stderr"] == ""
    assert result["files"] == []


@pytest.mark.parametrize("language", SAMPLES)
def test_program_exit_code_is_returned(run, language):
    sample = SAMPLES[language]
    result = run.json("--lang", language, "-c", sample.code, *PATIENT, "--", "fail", input=b"from stdin\n", **LONG)
    if not installed(sample):
        assert_rejected_with_hint(result, language, sample)
        return
    assert (result["status"], result["exit_code"], result["signal"]) == ("error", 7, None), result
    assert result["stdout"].rstrip("\n") == "hello fail\nfrom stdin"


@pytest.mark.parametrize("language", SAMPLES)
def test_broken_code_is_an_error_with_the_compilers_message(run, language):
    sample = SAMPLES[language]
    result = run.json("--lang", language, "-c", sample.broken, *PATIENT, "--", "x", **LONG)
    if not installed(sample):
        assert_rejected_with_hint(result, language, sample)
        return
    assert result["status"] == "error" and result["exit_code"] not in (0, 126, 127), result
    assert sample.complaint in result["stderr"] + (result["stdout"] if language == "php" else ""), result
    assert result["error"] is None


@pytest.mark.parametrize("language", ["c", "python", "ruby"])
def test_every_language_runs_from_a_file_in_the_local_executor(run, tmp_path, language):
    """The same code from a file, and without a jail."""
    sample = SAMPLES[language]
    extension = {"c": "c", "python": "py", "ruby": "rb"}[language]
    source = tmp_path / f"program.{extension}"
    source.write_text(sample.code)
    for executor in ("sandbox", "local"):
        result = run.json(source, "--executor", executor, "--", "world", input=b"x\n", **LONG)
        if installed(sample):
            assert (result["status"], result["stdout"]) == ("ok", "hello world\nx\n"), result
        else:
            assert_rejected_with_hint(result, language, sample)


def test_typescript_runs_or_is_refused_with_a_hint(run):
    result = run.json("--lang", "typescript", "-c", "const x: number = 6;\nconsole.log(x * 7)", **LONG)
    tools = ("tsx", "ts-node", "deno", "bun")
    node = shutil.which("node", path=PATH)
    recent = node and int(os.popen(f"{node} -p 'process.versions.node.split(`.`)[0]'").read()) >= 23
    if recent or any(shutil.which(tool, path=PATH) for tool in tools):
        assert (result["status"], result["stdout"]) == ("ok", "42\n"), result
    else:
        assert (result["status"], result["exit_code"]) == ("rejected", 127), result
        message = result["error"]["message"]
        assert all(word in message for word in ("typescript cannot run here", "node >= 22.6", "npm install -g tsx"))


def test_powershell_runs_or_is_refused_with_a_hint(run):
    result = run.json("--lang", "powershell", "-c", "Write-Output (6 * 7)", **LONG)
    if shutil.which("pwsh", path=PATH):
        assert (result["status"], result["stdout"].strip()) == ("ok", "42"), result
    else:
        assert (result["status"], result["exit_code"]) == ("rejected", 127), result
        assert "pwsh" in result["error"]["message"] and "learn.microsoft.com" in result["error"]["message"]


@pytest.mark.parametrize(
    "language, extension, code",
    [
        ("html", "html", "<p>hello</p>"),
        ("css", "css", "p { color: red }"),
        ("markdown", "md", "# hello"),
        ("json", "json", '{"a": 1}'),
    ],
)
def test_save_only_languages_are_saved(run, tmp_path, language, extension, code):
    out = tmp_path / "out"
    result = run.json("--lang", language, "-c", code, "--out", out)
    assert (result["status"], result["exit_code"], result["stdout"], result["stderr"]) == ("ok", 0, "", ""), result
    (saved,) = result["files"]
    assert saved["path"].endswith("." + extension) and saved["size"] == len(code) and saved["change"] == "created"
    assert (out / saved["path"]).read_text() == code
    assert os.listdir(out) == [saved["path"]]

    source = tmp_path / f"page.{extension}"
    source.write_text(code)
    result = run.json(source, "--out", out)
    assert [(entry["path"], entry["change"]) for entry in result["files"]] == [(source.name, "created")]
    assert (out / source.name).read_text() == code


def test_javascript_runs_modules_and_scripts(run):
    module = "import { basename } from 'node:path';\nconsole.log(basename('/a/b'), await Promise.resolve('awaited'))"
    script = "const path = require('path');\nconsole.log(path.basename('/a/b'))"
    assert run.json("--lang", "js", "-c", module)["stdout"] == "b awaited\n"
    assert run.json("--lang", "js", "-c", script)["stdout"] == "b\n"


def test_java_finds_main_in_any_class(run):
    code = (
        'class Helper { static String name() { return "helper"; } }\n'
        "public class Program { public static void main(String[] a) { System.out.println(Helper.name() + a.length); } }"
    )
    assert run.json("--lang", "java", "-c", code, "--", "x", **LONG)["stdout"] == "helper1\n"
    first = 'public class Other { public static void main(String[] a) { System.out.println("first"); } }'
    assert run.json("--lang", "java", "-c", first, **LONG)["stdout"] == "first\n"


def test_shell_scripts_can_call_system_tools(run):
    result = run.shell(
        "git --version >/dev/null 2>&1; awk 'BEGIN { print 6 * 7 }'; sed --version | head -1 | cut -c1-3; seq 2"
    )
    assert (result["status"], result["stdout"]) == ("ok", "42\nsed\n1\n2\n"), result


def test_shell_script_finds_the_chosen_python(run):
    direct = run.json("-c", "import sys; print(sys.executable)")
    script = run.json("--lang", "bash", "-c", "python3 -c 'import sys; print(sys.executable)'")
    assert direct["status"] == script["status"] == "ok", (direct, script)
    assert os.path.realpath(direct["stdout"].strip()) == os.path.realpath(script["stdout"].strip())
