"""An installed cella finds what belongs to it, wherever it was put."""

import os
import pathlib
import shutil
import subprocess

import pytest
from support.cella import REPOSITORY, run_bounded
from support.running import IS_ROOT

LAYOUT = {
    "bin/cella": 0o755,
    "libexec/cella/cella-launch": 0o755,
    "libexec/cella/runners/bash/runner.bash": 0o644,
    "libexec/cella/runners/javascript/runner.js": 0o644,
    "libexec/cella/runners/python/cella_runner/__main__.py": 0o644,
    "share/cella/languages.toml": 0o644,
    "share/doc/cella/LICENSE": 0o644,
    "lib/systemd/system/cella.service": 0o644,
    "lib/systemd/system/cella.socket": 0o644,
    **{
        f"share/doc/cella/contained/{name}.txt": 0o644
        for name in ("cli11", "fmt", "glibc", "json", "libstdc++", "openssl", "sqlite", "tomlplusplus")
    },
}


def lay_out(cella, prefix):
    """What an install makes of the programs, by hand: the suite may run where there is no build tree."""
    sources = {
        "bin/cella": "cella",
        "libexec/cella/cella-launch": "cella-launch",
        "share/cella/languages.toml": "languages.toml",
    }
    for target, source in sources.items():
        (prefix / target).parent.mkdir(parents=True, exist_ok=True)
        places = [cella.binary.parent / source, cella.binary.parents[1] / target]
        shutil.copy2(next(place for place in places if place.exists()), prefix / target)
    runners = [cella.binary.parent / "runners", cella.binary.parents[1] / "libexec/cella/runners"]
    shutil.copytree(next(place for place in runners if place.exists()), prefix / "libexec/cella/runners")


def assert_works(run, prefix, **options):
    for executor in ("sandbox", "local"):
        argv = [str(prefix / "bin/cella"), "run", "-c", "print('installed')", "--executor", executor]
        finished = run_bounded(argv, env=run.environment, **options)
        assert (finished.exit_code, finished.stdout, finished.stderr) == (0, b"installed\n", b""), finished.describe()
    # A session needs the runners and the library that forks them.
    request = b'{"code": "print(6 * 7)"}\n'
    talk = run_bounded([str(prefix / "bin/cella"), "repl", "--json"], env=run.environment, input=request, **options)
    assert talk.exit_code == 0 and b'"stdout":"42\\n"' in talk.stdout and b'"start":"fork"' in talk.stdout, talk.describe()


@pytest.mark.parametrize("name", ["prefix", "with space", "ümlaut", "deep/er/down"])
def test_cella_runs_from_any_prefix(run, cella, tmp_path, name):
    lay_out(cella, tmp_path / name)
    assert_works(run, tmp_path / name)


def test_cella_runs_after_the_prefix_was_moved(run, cella, tmp_path):
    lay_out(cella, tmp_path / "first")
    os.rename(tmp_path / "first", tmp_path / "second")
    assert_works(run, tmp_path / "second")


def test_cella_runs_from_a_private_prefix(run, cella, tmp_path):
    """Below a home that nobody else may enter: the guest's uid need not see it."""
    lay_out(cella, tmp_path / "private")
    (tmp_path / "private").chmod(0o700)
    assert_works(run, tmp_path / "private")


@pytest.mark.parametrize(
    "missing", ["libexec/cella/cella-launch", "libexec/cella/runners", "share/cella/languages.toml"]
)
def test_incomplete_installation_is_reported(run, cella, tmp_path, missing):
    lay_out(cella, tmp_path)
    shutil.rmtree(tmp_path / missing) if (tmp_path / missing).is_dir() else (tmp_path / missing).unlink()
    finished = run_bounded([str(tmp_path / "bin/cella"), "run", "-c", "print(1)"], env=run.environment)
    assert finished.exit_code in (126, 127) and finished.stdout == b""
    assert (
        os.path.basename(missing).encode() in finished.stderr and b"incomplete" in finished.stderr
    ), finished.describe()


def test_broken_language_table_is_reported(run, cella, tmp_path):
    lay_out(cella, tmp_path)
    (tmp_path / "share/cella/languages.toml").write_text("[python\nx = ")
    finished = run_bounded([str(tmp_path / "bin/cella"), "run", "-c", "print(1)"], env=run.environment)
    assert finished.exit_code == 126 and b"languages.toml" in finished.stderr, finished.describe()


def test_make_install_creates_the_documented_files(run, tmp_path):
    """With the build tree of root's run; an ordinary user's copy of the tests has none, and checks the rules only."""
    build = REPOSITORY / "build" / "release"
    if not (IS_ROOT and (build / "cmake_install.cmake").exists()):
        assert set(LAYOUT) > {"bin/cella", "libexec/cella/cella-launch", "share/cella/languages.toml"}
        return
    manifest = build / "install_manifest.txt"
    kept = manifest.read_bytes() if manifest.exists() else None
    try:
        subprocess.run(
            ["cmake", "--install", build, "--prefix", "/usr/local", "--strip"],
            check=True,
            capture_output=True,
            env={**os.environ, "DESTDIR": str(tmp_path / "staged")},
        )
        staged = tmp_path / "staged" / "usr" / "local"
        for name, mode in LAYOUT.items():
            assert pathlib.Path(staged, name).stat().st_mode & 0o777 == mode, name
        unit = (staged / "lib/systemd/system/cella.service").read_text()
        assert "\nExecStart=/usr/local/bin/cella serve\n" in unit and "@" not in unit, unit
        # The socket unit's file lies in it, and listens on while the service is stopped.
        assert "\nRuntimeDirectoryPreserve=yes\n" in unit
        assert_works(run, staged)
        subprocess.run(["cmake", "--install", build, "--prefix", tmp_path / "plain"], check=True, capture_output=True)
        assert f"ExecStart={tmp_path}/plain/bin/cella serve" in (
            tmp_path / "plain/lib/systemd/system/cella.service"
        ).read_text()
        assert_works(run, tmp_path / "plain")
    finally:
        # `make uninstall` goes by it, and shall not find ours.
        if kept is not None:
            manifest.write_bytes(kept)
        else:
            manifest.unlink(missing_ok=True)
