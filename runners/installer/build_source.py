"""Builds one source package, in a jail of its own: no network, no cache, nothing of the caller's. Foreign code runs here, so all
that this writes is a claim. The wheel is left in the workspace, below built/. Reads a request from standard input (JSON) and writes one answer to standard output. Works with Python 3.8.
"""
import importlib
import json
import os
import sys
import tarfile
import zipfile

MAX_FILES = 100000
MAX_BYTES = 4 << 30


def inside(root, name):
    path = os.path.normpath(os.path.join(root, name))
    return path if path == root or path.startswith(root + os.sep) else None


def unpack(archive, root):
    """Files and directories alone; the one top directory is the project."""
    os.makedirs(root)
    taken = 0
    if archive.endswith(".zip"):
        with zipfile.ZipFile(archive) as source:
            for info in source.infolist()[:MAX_FILES]:
                path = inside(root, info.filename)
                taken += info.file_size
                if path and not info.is_dir() and taken <= MAX_BYTES:
                    write(path, source.open(info), 0o755 if info.external_attr >> 16 & 0o100 else 0o644)
    else:
        with tarfile.open(archive) as source:
            for number, info in enumerate(source):
                path = inside(root, info.name)
                taken += info.size
                if path and info.isreg() and number < MAX_FILES and taken <= MAX_BYTES:
                    write(path, source.extractfile(info), 0o755 if info.mode & 0o100 else 0o644)
    names = [name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))]
    return os.path.join(root, names[0]) if len(names) == 1 else root


def write(path, source, mode):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as target:
        for piece in iter(lambda: source.read(1 << 20), b""):
            target.write(piece)
    os.chmod(path, mode)


def missing(requirements):
    """Those that this environment lacks, by their names alone."""
    import re
    from importlib import metadata
    absent = []
    for text in requirements:
        match = re.match(r"\s*([A-Za-z0-9._-]+)", text)
        try:
            metadata.version(match.group(1) if match else "")
        except (metadata.PackageNotFoundError, ValueError):
            absent.append(text)
    return absent


def build(request):
    request["workspace"] = os.getcwd()
    project = unpack(request["source"], os.path.join(os.getcwd(), "source"))
    os.chdir(project)
    sys.path[:0] = [os.path.join(project, path) for path in request["paths"] if inside(project, path)]
    module, _, attribute = request["backend"].partition(":")
    backend = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        backend = getattr(backend, part)
    # As a script that is run has it; setup.py of old packages relies on it.
    sys.argv = [os.path.join(project, "setup.py")]
    ask = getattr(backend, "get_requires_for_build_wheel", None)
    more = missing(ask() or []) if ask is not None else []
    if more:
        return {"requires": more}
    built = os.path.join(request["workspace"], "built")
    os.makedirs(built)
    return {"wheel": os.path.basename(backend.build_wheel(built))}


def main():
    os.umask(0o022)
    request = json.load(sys.stdin)
    # What the build prints goes to standard error, which is kept.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    try:
        answer = {"ok": True, **build(request)}
    except SystemExit as left:
        answer = {"ok": False, "message": "the build ended with %r" % (left.code,)}
    except BaseException as error:
        import traceback
        traceback.print_exc()
        answer = {"ok": False, "message": "%s: %s" % (type(error).__name__, error)}
    sys.stdout.flush()
    json.dump(answer, answers)
    answers.flush()


if __name__ == "__main__":
    main()
