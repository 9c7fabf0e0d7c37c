#!/usr/bin/python3
"""Runs a command as the ordinary user `cella-test`; started by an ordinary user, as that user itself.

    as_user.py --programs DIR --tests DIR [--results FILE] [--user NAME] -- COMMAND...

The programs and the tests are first copied to a directory that the user can read, since the repository may lie
below a private one; in COMMAND, {tests} and {programs} stand for the copies, and {results} for a file that becomes FILE
afterwards. DIR of --programs is the directory of the `cella` executable; what it needs lies beside it or in its siblings
(lib, libexec, share), which come along. Test programs beside it are copied only if COMMAND names them.
The command gets a clean environment and a private working directory, and everything is removed after it.
Started by root, this makes the user when it is missing, with a home that is its own.
"""

import argparse
import fcntl
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile

PASSED = ("CELLA_TESTS_LONG", "CELLA_TESTS_MUST_RUN")
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
NEEDS = pathlib.Path(os.environ.get("CELLA_TEST_NEEDS") or pathlib.Path(__file__).resolve().parents[2] / "build/needs")
SIBLINGS = ("lib", "libexec", "share")


def ensure_user(name):
    # Two suites may start at once, and useradd does not wait for another one to finish.
    with open("/etc/passwd") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return pwd.getpwnam(name)
        except KeyError:
            subprocess.run(
                ["useradd", "--create-home", "--key", "HOME_MODE=0700", "--shell", "/usr/sbin/nologin", name],
                check=True, env={"PATH": PATH}, stdout=sys.stderr,
            )
        user = pwd.getpwnam(name)
        os.chmod(user.pw_dir, 0o700)
        return user


def copy_readable(source, target, *ignored):
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache", *ignored)
    shutil.copytree(source, target, symlinks=True, ignore=ignore)
    for directory, names, files in os.walk(target):
        os.chmod(directory, 0o755)
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.access(path, os.X_OK) and os.stat(path).st_mode & 0o100 else 0o644)


def lay_out(root, programs, tests, command):
    """Copies into root, and returns what the placeholders mean."""
    os.chmod(root, 0o755)
    prefix = root / "prefix"
    prefix.mkdir(mode=0o755)
    unused = [path.name for path in programs.glob("*_test") if f"{{programs}}/{path.name}" not in command]
    copy_readable(programs, prefix / programs.name, *unused)
    for name in SIBLINGS:
        if (programs.parent / name).is_dir():
            copy_readable(programs.parent / name, prefix / name)
    copy_readable(tests, root / "tests")
    lay_out_needs(root / "needs")
    results = root / "work" / "results.xml"
    return {"programs": str(prefix / programs.name), "tests": str(root / "tests"), "results": str(results)}


def lay_out_needs(folder):
    """What the scripts of tests/needs wrote for the tests: settings, or why there are none."""
    folder.mkdir(mode=0o755)
    for file in NEEDS.glob("*"):
        if file.suffix in (".env", ".missing"):
            (folder / file.name).write_bytes(file.read_bytes())


def share_engine(user):
    """The ordinary user may use the Docker engine that tests/needs/docker.sh started. No other user may."""
    settings = NEEDS / "docker.env"
    text = settings.read_text() if settings.exists() else ""
    place = re.search(r"^DOCKER_HOST=unix://(/tmp/cella-docker-[^/\n]+)/s$", text, re.M)
    if os.geteuid() == 0 and place is not None and os.path.exists(f"{place[1]}/s"):
        os.chmod(place[1], 0o711)
        os.chown(f"{place[1]}/s", 0, user.pw_gid)
        os.chmod(f"{place[1]}/s", 0o660)


def become(user):
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)


def run(command, user, root, places):
    directory = root / "work"
    directory.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(directory, user.pw_uid, user.pw_gid)
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    environment |= {
        "HOME": user.pw_dir, "USER": user.pw_name, "PATH": PATH, "LANG": "C.UTF-8",
        "CELLA_BIN": os.path.join(places["programs"], "cella"), "CELLA_TEST_NEEDS": str(root / "needs"),
    }
    for name, place in places.items():
        command = [word.replace("{" + name + "}", place) for word in command]
    process = subprocess.Popen(
        command, env=environment, cwd=directory, preexec_fn=lambda: become(user),
        start_new_session=True,
    )

    def stop(number, frame):
        os.killpg(process.pid, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    code = process.wait()
    return code if code >= 0 else 128 - code


def keep_results(written, wanted):
    """Not through a link that the command may have left in its place."""
    try:
        with open(os.open(written, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:
            wanted.write_bytes(source.read())
    except OSError as error:
        print(f"as_user: no results: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", default="cella-test")
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--tests", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    os.umask(0o022)
    user = ensure_user(options.user) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    root = pathlib.Path(tempfile.mkdtemp(prefix="cella-as-user-", dir="/tmp"))
    try:
        share_engine(user)
        places = lay_out(root, options.programs.resolve(), options.tests.resolve(), options.command)
        code = run(options.command, user, root, places)
        if options.results:
            keep_results(places["results"], options.results)
        return code
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
