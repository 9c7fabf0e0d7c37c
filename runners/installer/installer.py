"""What runs in an installer's jail: one operation of uv on an environment that is being built.

Reads a request from standard input (JSON), writes progress to standard error and one answer to standard output (JSON). Nothing
but uv, pip (to fetch uv) and the base interpreter runs here; files of packages are data. Works with Python 3.8.
"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile

SKIPPED_BYTECODE = re.compile(r"/tests?/")
KEPT_OUTPUT = 20000


class Failure(Exception):
    """An expected failure: `kind` is a word of the builder (src/installer/answer.h)."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def run(argv, stdin="", env=None):
    """Runs a program; its standard error is passed on line by line and kept. Returns (exit status, stdout, stderr)."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               universal_newlines=True, errors="replace", env=env)
    if stdin:
        process.stdin.write(stdin)
    process.stdin.close()
    # Both pipes are read at once: a lock with the hashes of many wheels is larger than a pipe holds.
    out = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))
    reader.start()
    kept = []
    for line in process.stderr:
        kept.append(line)
        sys.stderr.write(line)
        sys.stderr.flush()
    reader.join()
    return process.wait(), "".join(out), "".join(kept)[-KEPT_OUTPUT:]


def say(line):
    """Progress."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def explain(text):
    """The sentences of uv's error, without its drawing."""
    lines = [re.sub(r"^[\s×╰▶─│]+", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("Resolved", "Prepared", "Using", "Downloading"))]
    return " ".join(lines)[-2000:] or "uv gave no reason"


def uv(request, *arguments, stdin="", offline=False):
    argv = [request["uv"], *arguments, "--no-config", "--cache-dir", request["cache"]]
    if os.environ.get("UV_NO_INDEX") and arguments[0] == "pip":
        argv.append("--no-index")
    if offline:
        argv.append("--offline")
    status, out, err = run(argv, stdin)
    if status != 0:
        raise Failure("unsolvable" if status == 1 else "failed", explain(err))
    return out


def for_other_python(request):
    """Options for packages that another interpreter imports: that of a container's image."""
    if not request.get("for_version"):
        return []
    return ["--python-version", request["for_version"], "--python-platform", request["for_platform"]]


def fetch_uv(request):
    """The pinned uv of the operator's index, by pip, which knows the operator's index."""
    place = request["place"]
    pip = [sys.executable, "-m", "pip"]
    if subprocess.call([*pip, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
        pip = [sys.executable, bundled_pip() + "/pip"]
    status, _, err = run([*pip, "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--platform",
                          request["platform"], "--dest", place, "uv==" + request["version"]])
    if status != 0:
        raise Failure("failed", explain(err))
    wheel = next(name for name in os.listdir(place) if name.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(place, wheel)) as archive:
        with archive.open("uv-%s.data/scripts/uv" % request["version"]) as source:
            with open(os.path.join(place, "uv"), "wb") as target:
                shutil.copyfileobj(source, target)
    os.chmod(os.path.join(place, "uv"), 0o755)
    os.unlink(os.path.join(place, wheel))
    return {}


def bundled_pip():
    try:
        import ensurepip
    except ImportError:
        ensurepip = None
    places = ["/usr/share/python-wheels"]
    if ensurepip is not None:
        places.insert(0, os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
    for place in places:
        if os.path.isdir(place):
            for name in sorted(os.listdir(place)):
                if name.startswith("pip-") and name.endswith(".whl"):
                    return os.path.join(place, name)
    raise Failure("no-pip", "this Python has no pip")


def resolve(request):
    """Requirements to a lock with hashes, and its wheels into the cache. Where packages have no wheel: their names."""
    show_built(request)
    lock = request.get("lock")
    if not lock:
        try:
            lock = mark_built(request, compile_lock(request))
        except Failure as failure:
            sources = missing_wheels(request, str(failure))
            if failure.kind != "unsolvable" or not sources:
                raise
            return {"sources": sources, "why": str(failure)}
    warm = os.path.join(request["staging"], "warm")
    try:
        write(os.path.join(request["staging"], "lock.txt"), without_marks(lock))
        if lock.strip():
            uv(request, "pip", "install", "--target", warm, "--python", sys.executable, "--no-build", "--no-deps",
               "--require-hashes", "-r", os.path.join(request["staging"], "lock.txt"), *for_other_python(request))
    finally:
        shutil.rmtree(warm, ignore_errors=True)
    return {"lock": lock}


def show_built(request):
    """The wheels that were built here count as those of the operator's directories."""
    links = [link for link in os.environ.get("UV_FIND_LINKS", "").split(",") if link]
    links += [built["directory"] for built in request.get("built", [])]
    if links:
        os.environ["UV_FIND_LINKS"] = ",".join(links)


def mark_built(request, lock):
    """Notes in the lock which of its wheels were built here, and where they are."""
    marked = []
    for line in lock.splitlines():
        name, _, rest = line.partition("==")
        wanted = [re.sub(r"[-_.]+", "-", name).lower(), rest.split(" ")[0]]
        for built in request.get("built", []):
            for file in os.listdir(built["directory"]):
                package, version = (file.split("-") + [""])[:2]
                if [re.sub(r"[-_.]+", "-", package).lower(), version] == wanted:
                    line += " # built:" + built["key"]
        marked.append(line + "\n")
    return "".join(marked)


def without_marks(lock):
    return re.sub(r" # built:.*", "", lock)


def missing_wheels(request, message):
    """The packages that uv would have to build, each with what it says of their versions."""
    found = []
    for name in sorted(set(re.findall(r"Wheels are required for `([A-Za-z0-9._-]+)` because building", message))):
        known = re.escape(name)
        specifiers = re.findall(r"(?:require|depends on) %s([<>=!~][^\s{]*)" % known, message)
        for text in request["packages"] + request.get("constraints", []):
            match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([<>=!~][^;\s]*)?", text)
            if match and re.sub(r"[-_.]+", "-", match.group(1)).lower() == name and match.group(2):
                specifiers.append(match.group(2))
        found.append({"name": name, "specifiers": sorted({each.rstrip(",.") for each in specifiers})})
    return found


def compile_lock(request):
    arguments = ["pip", "compile", "-", "--python", sys.executable, "--no-build", "--generate-hashes", "--no-header",
                 "--no-annotate", "--quiet", *for_other_python(request)]
    staging = request["staging"]
    if request.get("constraints"):
        write(os.path.join(staging, "constraints.txt"), "\n".join(request["constraints"]) + "\n")
        arguments += ["-c", os.path.join(staging, "constraints.txt")]
    preferred = os.path.join(staging, "preferred.txt")
    if request.get("preferred"):
        # uv prefers the versions that its output file holds already.
        write(preferred, "\n".join(request["preferred"]) + "\n")
        arguments += ["-o", preferred]
    say("Resolving")
    lock = uv(request, *arguments, stdin="\n".join(request["packages"]) + "\n")
    if request.get("preferred"):
        with open(preferred, encoding="utf-8") as file:
            lock = file.read()
    return canonical_lock(lock)


def canonical_lock(text):
    """One line per package, sorted, with its hashes."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    lines = (line.strip() for line in joined.splitlines())
    return "".join(line + "\n" for line in sorted(line for line in lines if line and not line.startswith("#")))


def install(request):
    """A lock to a verified environment in the staging directory. Without network."""
    staging, venv = request["staging"], os.path.join(request["staging"], "venv")
    show_built(request)
    compile_bytecode(request)
    uv(request, "venv", "--relocatable", "--python", sys.executable, venv, offline=True)
    if not os.path.isdir(site_packages(venv)):
        raise Failure("failed", "'%s' is not uv: it made no environment" % request["uv"])
    made = {path: snapshot(path) for path in guarded_files(venv)}
    lock = os.path.join(staging, "lock.txt")
    write(lock, without_marks(request["lock"]))
    say("Installing")
    if request["lock"].strip():
        uv(request, "pip", "install", "--python", os.path.join(venv, "bin", "python"), "--no-build", "--no-deps",
           "--require-hashes", "--link-mode", "hardlink", "-r", lock, offline=True)
    say("Verifying")
    packages = verify(venv, made)
    size, files = seal(venv)
    os.unlink(lock)
    return {"packages": packages, "bytes": size, "files": files}


def layer(request):
    """A lock to a verified directory of packages in the staging directory. Without network."""
    staging, target = request["staging"], os.path.join(request["staging"], "layer")
    show_built(request)
    if not request.get("for_version"):
        compile_bytecode(request)
    os.makedirs(target, mode=0o755, exist_ok=True)
    lock = os.path.join(staging, "lock.txt")
    write(lock, without_marks(request["lock"]))
    say("Installing")
    if request["lock"].strip():
        # An other interpreter has its own bytecode, so that its layer gets files of its own, too.
        link_mode = "copy" if request.get("for_version") else "hardlink"
        uv(request, "pip", "install", "--target", target, "--python", sys.executable, "--no-build", "--no-deps",
           "--require-hashes", "--link-mode", link_mode, "-r", lock, *for_other_python(request), offline=True)
    packages = verify(target, {}, site=target)
    fix_scripts(os.path.join(target, "bin"))
    size, files = seal(target)
    os.unlink(lock)
    return {"packages": packages, "bytes": size, "files": files}


def fix_scripts(directory):
    """Scripts of a layer run with the session's Python, which is the first on PATH."""
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        path = os.path.join(directory, name)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            content = file.read()
        first, newline, rest = content.partition(b"\n")
        if first.startswith(b"#!") and b"python" in first:
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(b"#!/usr/bin/env python3" + newline + rest)
            os.chmod(path, 0o755)


def compile_bytecode(request):
    """Compiles the wheels of the cache that are new for this Python. The code is parsed, not run."""
    import compileall
    import py_compile
    archives = os.path.join(request["cache"], "archive-v0")
    done = os.path.join(request["bytecode"], sys.implementation.cache_tag)
    os.makedirs(done, exist_ok=True)
    for name in sorted(os.listdir(archives)) if os.path.isdir(archives) else []:
        mark = os.path.join(done, name)
        if os.path.exists(mark):
            continue
        say("Compiling")
        compileall.compile_dir(os.path.join(archives, name), quiet=2, rx=SKIPPED_BYTECODE, workers=os.cpu_count() or 1,
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        for directory, _, files in os.walk(os.path.join(archives, name)):
            for file in files:
                if file != "RECORD":  # which uv opens for writing when it installs
                    make_read_only(os.path.join(directory, file))
        write(mark, "")


def make_read_only(path):
    mode = os.lstat(path).st_mode
    if not os.path.islink(path):
        os.chmod(path, (mode | 0o444 | (0o111 if mode & 0o100 else 0)) & 0o555)


def guarded_files(venv):
    """What a package must not replace."""
    bin_dir = os.path.join(venv, "bin")
    found = [os.path.join(bin_dir, name) for name in os.listdir(bin_dir)]
    found += [os.path.join(venv, name) for name in os.listdir(venv) if os.path.isfile(os.path.join(venv, name))]
    site = site_packages(venv)
    return found + [os.path.join(site, name) for name in os.listdir(site) if os.path.isfile(os.path.join(site, name))]


def snapshot(path):
    if os.path.islink(path):
        return "link", os.readlink(path)
    with open(path, "rb") as file:
        return "file", file.read()


def site_packages(venv):
    return os.path.join(venv, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


def verify(root, made, site=None):
    """Every file of a RECORD exists with its size and belongs to one package; nothing replaced what uv made; no link leads out
    of the tree. Returns the packages."""
    for path, before in made.items():
        if not os.path.lexists(path) or snapshot(path) != before:
            raise Failure("hostile", "a package replaces '%s' of the environment" % os.path.relpath(path, root))
    site = site or site_packages(root)
    owners, packages = {}, []
    for name in sorted(os.listdir(site)):
        if not name.endswith(".dist-info"):
            continue
        package, _, version = name[:-len(".dist-info")].partition("-")
        package = re.sub(r"[-_.]+", "-", package).lower()
        packages.append({"name": package, "version": version})
        with open(os.path.join(site, name, "RECORD"), newline="", encoding="utf-8", errors="surrogateescape") as file:
            for row in csv.reader(file):
                if row and row[0]:
                    check_record(root, site, package, row, owners)
    check_links(root, made)
    return packages


def check_record(root, site, package, row, owners):
    path = os.path.normpath(os.path.join(site, row[0]))
    if not path.startswith(root + os.sep):
        raise Failure("hostile", "the package %s has a file outside of the environment: %s" % (package, row[0]))
    if path.endswith((".pyc", "/INSTALLER", "/REQUESTED", "/RECORD", "/direct_url.json")):
        return
    other = owners.setdefault(path, package)
    if other != package:
        raise Failure("conflict", "the packages %s and %s both have the file %s" % (other, package, row[0]))
    if not os.path.lexists(path):
        raise Failure("damaged", "the file %s of %s is missing" % (row[0], package))
    if len(row) > 2 and row[2].isdigit() and os.path.getsize(path) != int(row[2]):
        raise Failure("damaged", "the file %s of %s has another size than its package says" % (row[0], package))


def check_links(root, made):
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(directory, name)
            if not os.path.islink(path) or path in made:
                continue
            target = os.path.realpath(path)
            if target != root and not target.startswith(root + os.sep) and not (name == "lib64" and directory == root):
                raise Failure("hostile", "'%s' is a link out of the environment" % os.path.relpath(path, root))


def seal(root):
    """Read-only for every user, readable by guests. Returns (bytes, files)."""
    size = count = 0
    for directory, _, files in os.walk(root, topdown=False):
        for name in files:
            path = os.path.join(directory, name)
            make_read_only(path)
            size += os.lstat(path).st_size
            count += 1
        os.chmod(directory, 0o555)
    return size, count


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


OPERATIONS = {"fetch_uv": fetch_uv, "resolve": resolve, "install": install, "layer": layer}


def main():
    os.umask(0o022)
    request = json.load(sys.stdin)
    start = time.monotonic()
    try:
        answer = OPERATIONS[request["op"]](request)
        answer["ok"] = True
    except Failure as failure:
        answer = {"ok": False, "kind": failure.kind, "message": str(failure)}
    except OSError as error:
        answer = {"ok": False, "kind": "failed", "message": str(error)}
    answer["seconds"] = round(time.monotonic() - start, 3)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
