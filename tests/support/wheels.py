"""Wheels and source packages made by hand, to be found with find-links."""

import base64
import hashlib
import io
import tarfile
import zipfile


def make_wheel(directory, name, files, version="1.0"):
    """A wheel with these files (path in the wheel → content). Returns its path."""
    stem = f"{name}-{version}"
    info = f"{stem}.dist-info"
    content = {
        **{path: text.encode() for path, text in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    content[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return wheel


def make_sdist(directory, name, files, version="1.0"):
    """A source package with these files (path in the project → content). Returns its path."""
    stem = f"{name}-{version}"
    content = {"PKG-INFO": f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n", **files}
    path = directory / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name_in_project, text in content.items():
            info = tarfile.TarInfo(f"{stem}/{name_in_project}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


# A build backend in the project itself, which needs no package: it writes a wheel by hand.
OWN_BACKEND = """
import base64, hashlib, os, zipfile

def build_wheel(directory, settings=None, metadata=None):
    name, version, files = WHEEL
    stem = name + "-" + version
    info = stem + ".dist-info"
    content = dict(files)
    content[info + "/METADATA"] = "Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n" % (name, version)
    content[info + "/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    record = ""
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\\n" % (path, digest, len(text.encode()))
    content[info + "/RECORD"] = record + info + "/RECORD,,\\n"
    wheel = stem + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, wheel), "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return wheel
"""
OWN_PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def make_own_sdist(directory, name, code, wheel=None, version="1.0"):
    """A source package whose own backend runs `code` first. `wheel`: the name, version and files of what it leaves."""
    wheel = wheel or (name, version, {f"{name}.py": "BUILT = True\n"})
    backend = f"WHEEL = {wheel!r}\n{OWN_BACKEND}\n{code}\n"
    return make_sdist(directory, name, {"pyproject.toml": OWN_PROJECT, "backend.py": backend}, version)
