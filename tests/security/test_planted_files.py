"""A directory in which guests have left everything that some program might load: configurations, start files, modules and
programs of many kinds. No command of cella that starts there, or works on it, runs any of it outside a jail."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from support.cella import PYTHON, run_bounded

pytestmark = pytest.mark.as_user

PROGRAMS = (
    "python python3 python3.11 pypy3 node nodejs bash sh dash env cat ls id git make cc gcc g++ clang ld as rustc rustup "
    "cargo go java javac ruby perl php lua Rscript R tsc deno bun npx npm pwsh mise asdf pyenv uv conda docker podman "
    "docker-credential-evil pip bwrap cella cella-launch newuidmap newgidmap unshare mount systemctl dbus-send ssh gpg less vi editor stty tput"
).split()

# Names that take a shell script, or a command in some syntax, with {mark} for the file that shows that it ran.
SHELL = (
    ".bashrc .bash_profile .profile .bash_env .envrc .env .xonshrc .kshrc .zshrc .inputrc .login .npmrc .nvmrc "
    ".node-version .python-version .ruby-version .java-version .tool-versions .mise.toml mise.toml .asdfrc .sdkmanrc "
    "rust-toolchain .go-version .perl-version .php-version .Rprofile .Renviron .gemrc .perlrc .pythonrc Makefile "
    "makefile GNUmakefile .gdbinit .lldbinit .vimrc .exrc .editrc .terminfo .hushlogin .gitconfig .hgrc ld.so.preload "
    ".pam_environment .netrc .curlrc .wgetrc"
).split()
PYTHON_FILES = (
    "sitecustomize.py usercustomize.py conftest.py setup.py encodings/__init__.py site.py os.py io.py re.py json.py "
    "socket.py subprocess.py asyncio/__init__.py http/__init__.py ssl.py select.py signal.py cella/__init__.py "
    "cella_runner/__init__.py cella_runner/__main__.py __main__.py _sitebuiltins.py ipykernel_launcher.py "
    "ipykernel/__init__.py ipykernel/__main__.py IPython/__init__.py traitlets.py zmq.py tornado.py ipython_config.py "
    "ipython_kernel_config.py jupyter_config.py profile_default/startup/00.py profile_default/ipython_config.py "
    ".ipython/profile_default/startup/00.py .ipython/profile_default/ipython_config.py pip/__init__.py pip/__main__.py "
    "uv.py setuptools.py venv/__init__.py ensurepip/__init__.py evil/setup.py evil/backend.py store/workflows/evil.py"
).split()
KERNELSPEC = '{{"argv": ["{work}/bin/python3", "{{connection_file}}"], "display_name": "x", "language": "python"}}'
TEXTS = {
    "rust-toolchain.toml": '[toolchain]\npath = "{work}"\n',
    "pyvenv.cfg": "home = {work}/bin\ninclude-system-site-packages = true\n",
    "python3._pth": "{work}\nimport site\n",
    "python311._pth": "{work}\nimport site\n",
    "site.pth": "import os; os.system('touch {mark}')\n",
    ".cargo/config.toml": '[build]\nrustc-wrapper = "{work}/bin/rustc"\nrustc = "{work}/bin/rustc"\n',
    "go.mod": "module x\n\ngo 1.99\n\ntoolchain go1.99\n",
    "package.json": '{{"type": "module", "scripts": {{"preinstall": "touch {mark}"}}}}\n',
    "tsconfig.json": '{{"compilerOptions": {{"plugins": [{{"name": "{work}/plugin.js"}}]}}}}\n',
    "node_modules/x/index.js": "require('child_process').execSync('touch {mark}')\n",
    "plugin.js": "require('child_process').execSync('touch {mark}')\n",
    "pyproject.toml": '[tool.cella]\npython = "{work}/bin/python3"\n',
    "cella.toml": '[policy]\npython = "{work}/bin/python3"\n',
    "config.toml": '[policy]\npython = "{work}/bin/python3"\n',
    "languages.toml": '[languages.python]\ncommands = ["{work}/bin/python3"]\n',
    **{
        f"{place}/kernels/{name}/kernel.json": KERNELSPEC
        for place in ("share/jupyter", ".local/share/jupyter", ".venv/share/jupyter", ".jupyter", ".")
        for name in ("python3", "ir", "evil")
    },
    ".docker/config.json": '{{"credsStore": "evil", "cliPluginsExtraDirs": ["{work}/bin"], "currentContext": "evil"}}',
    "Dockerfile": "FROM scratch\nRUN touch {mark}\n",
    "taskweaver_config.json": '{{"execution_service.kernel_mode": "local"}}',
    "pip.conf": "[global]\nindex-url = http://127.0.0.1:9/\n",
    "uv.toml": 'index-url = "http://127.0.0.1:9/"\n',
    "requirements.txt": "--index-url http://127.0.0.1:9/\n-e ./evil\n",
    "local.txt": "./evil\n",
    "evil/pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "store/requirements.txt": "-e ../evil\n",
    "bunfig.toml": 'preload = ["{work}/plugin.js"]\n',
    "deno.json": '{{"tasks": {{"x": "touch {mark}"}}}}\n',
    "Cargo.toml": '[package]\nname = "x"\nbuild = "build.rs"\n',
    ".user.ini": "auto_prepend_file={work}/plugin.js\n",
    ".git/config": "[core]\n\tfsmonitor = touch {mark}\n\tpager = touch {mark}\n",
    "openssl.cnf": "openssl_conf = a\n[a]\nengines = b\n[b]\nc = d\n[d]\ndynamic_path = {work}/engine.so\n",
}


@pytest.fixture
def planted(cella):
    """The directory, the mark, and the environment of a shell in it."""
    with tempfile.TemporaryDirectory(prefix="cella-planted-") as root:
        root = pathlib.Path(root).resolve()
        root.chmod(0o755)
        work, mark = root / "home" / "work", root / "mark"
        (work / "bin").mkdir(parents=True)
        script = f"#!/bin/sh\n/usr/bin/touch {mark}\nexit 1\n"
        for name in PROGRAMS:
            for place in (work, work / "bin", work / ".venv" / "bin", work / "node_modules" / ".bin"):
                if place == work and name in ("cella", "pip"):
                    continue  # there they are packages
                place.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(script)
                (place / name).chmod(0o755)
        for name in SHELL:
            (work / name).write_text(script)
        for name in PYTHON_FILES:
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"import posix\nposix.close(posix.open({str(mark)!r}, posix.O_CREAT | posix.O_WRONLY))\n")
        for name, text in TEXTS.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(work=work, mark=mark))
        shutil.copy(work / "pyvenv.cfg", work / ".venv" / "pyvenv.cfg")
        (work / ".git" / "hooks").mkdir()
        for hook in ("pre-commit", "post-checkout", "fsmonitor-watchman"):
            (work / ".git" / "hooks" / hook).write_text(script)
            (work / ".git" / "hooks" / hook).chmod(0o755)
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(root / "home"), "LANG": "C.UTF-8"}
        environment["PIP_INDEX_URL"] = "http://127.0.0.1:9/simple"  # kernels get on without an index, at once
        # The traps work: a shell, an interpreter and a tool of the directory leave the mark.
        for command in ([work / "bin" / "python3"], ["sh", work / ".bashrc"], [PYTHON, work / "conftest.py"],
                        [PYTHON, "-c", "import sitecustomize"]):
            subprocess.run(list(map(str, command)), cwd=work, env={**environment, "PYTHONPATH": str(work)}, check=False,
                           timeout=30, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert mark.exists(), command
            mark.unlink()
        yield work, mark, environment


def commands(binary, work):
    """Every command that starts something or looks for it, from a directory of guests."""
    snippets = {
        "python": "print(1)", "bash": "echo 1", "sh": "echo 1", "javascript": "console.log(1)", "c": "int main(){}",
        "cpp": "int main(){}", "rust": "fn main(){}", "go": "package main\nfunc main(){}", "perl": "print 1",
        "ruby": "puts 1", "php": "<?php echo 1;", "lua": "print(1)", "r": "print(1)", "typescript": "console.log(1)",
        "java": "class A { public static void main(String[] a) {} }", "powershell": "1",
    }
    for language, code in snippets.items():
        yield [binary, "run", "--lang", language, "-c", code]
        yield [binary, "run", "--lang", language, "-c", code, "--workdir", "."]
    for flags in (["--venv", ".venv"], ["--python", ".venv/bin/python"], ["--python", "./bin/python3"],
                  ["--mount", f"{work}:/data:rw"], ["--python", "3.11"], ["--best-effort"]):
        yield [binary, "run", "-c", "1", *flags]
        yield [binary, "repl", *flags]
    for flags in (["--executor", "subprocess", "--jail"], ["--executor", "subprocess", "--jail", "--workdir", "."],
                  ["--executor", "subprocess", "--jail", "--kernel", "evil"], ["--storage", "store"],
                  ["--executor", "container", "--image", "none:none", "--pull", "never"], ["-r", "requirements.txt"],
                  ["-r", "local.txt"], ["--with", "./evil"],
                  ["--config", "taskweaver_config.json", "--executor", "sandbox"]):
        yield [binary, "run", "-c", "1", *flags]
    for words in (["kernels"], ["kernels", "--venv", ".venv"], ["kernels", "--python", ".venv/bin/python"], ["env", "ls"],
                  ["env", "create", "x", "-r", "requirements.txt"], ["workflows", "ls", "--storage", "store"],
                  ["workflows", "show", "evil", "--storage", "store"]):
        yield [binary, *words]
    yield [binary, "run", "conftest.py"]
    yield [binary, "run", ".bashrc"]
    yield [binary, "doctor"]
    yield [binary, "doctor", "--json"]
    yield [binary, "version"]
    yield [binary, "serve", "--check-config"]
    yield [binary, "token", "new", "someone", "--file", str(work.parent / "tokens")]
    yield [binary, "session", "ls", "--url", f"unix:{work}/nothing"]


# Without a jail the program that the caller's PATH names is run; but nothing besides, from the current directory.
UNCONFINED = (
    ["run", "--executor", "local", "--lang", "bash", "-c", "echo 1"],
    ["run", "--executor", "local", "-c", "1"],
    ["run", "--executor", "inprocess", "-c", "1"],
    ["run", "--executor", "inprocess", "--storage", "store", "-c", "1"],
    ["run", "--executor", "subprocess", "--kernel", "evil", "-c", "1"],
    ["run", "--executor", "subprocess", "--kernel", "ir", "-c", "1"],
)


def test_commands_without_a_jail_load_nothing_from_the_current_directory(cella, planted):
    work, mark, environment = planted
    for words in UNCONFINED:
        run_bounded([str(cella.binary), *words], env=environment, cwd=work)
        assert not mark.exists(), words


PATHS = {
    "ordinary PATH": lambda work: {},
    "guests' directories first on PATH": lambda work: {
        "PATH": f"{work}/bin:{work}/node_modules/.bin:.:/usr/local/bin:/usr/bin:/bin", "VIRTUAL_ENV": f"{work}/.venv"
    },
}


@pytest.mark.parametrize("name", PATHS)
def test_no_command_runs_what_guests_left_in_a_directory(cella, planted, name):
    work, mark, environment = planted
    environment = {**environment, **PATHS[name](work)}
    for command in commands(str(cella.binary), work):
        run_bounded(command, env=environment, cwd=work)
        assert not mark.exists(), command


def test_completions_run_nothing_of_guests(planted):
    work, mark, environment = planted
    completions = pathlib.Path(__file__).parents[2] / "packaging" / "completions" / "cella.bash"
    if not completions.exists():
        pytest.skip("the completions are not beside the tests")
    script = (f"source {completions}\n"
              "for words in 'cella ' 'cella run --venv ' 'cella run --python ' 'cella run ./' 'cella serve --config '; do\n"
              "  COMP_WORDS=($words ''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cella cella '' '' 2> /dev/null\n"
              "done\n")
    subprocess.run(["/bin/bash", "--norc", "-c", script], cwd=work, check=False, timeout=30,
                   env={**environment, "PATH": f"{work}/bin:/usr/bin:/bin"})
    assert not mark.exists()


def test_python_package_runs_nothing_of_guests(cella, planted):
    work, mark, environment = planted
    package = pathlib.Path(__file__).parents[2] / "sdk" / "python" / "src"
    if not package.exists():
        pytest.skip("the package is not beside the tests")
    # -P: what the caller's own interpreter imports from the current directory is the caller's business.
    code = (f"import sys; sys.path.insert(0, {str(package)!r})\n"
            "from cella.sync import Session\n"
            "with Session() as session: assert session.run('1 + 1').value == '2'\n")
    environment = {**environment, "CELLA_BIN": str(cella.binary), "PATH": f"{work}/bin:.:/usr/bin:/bin"}
    finished = run_bounded([sys.executable, "-I", "-c", code], env=environment, cwd=work)
    assert finished.exit_code == 0, finished.describe()
    assert not mark.exists()
