"""Source packages as data: what is fetched before one is built, and the wheel that is taken after. Runs in an installer's jail.

Nothing of a package runs here: an archive is read, not unpacked, and a wheel is checked as a zip file. `fetch` has the network;
`take` has none. Requests, answers and failures are those of installer.py. Works with Python 3.8; pip's own modules read versions,
TOML and index pages, from the interpreter's pip or from the wheel that comes with it.
"""
import hashlib
import html.parser
import json
import os
import re
import stat
import sys
import tarfile
import urllib.parse
import zipfile

MAX_PAGE = 32 << 20
MAX_SOURCE = 512 << 20
MAX_WHEEL = 1 << 30
MAX_FILES = 100000
MAX_PROJECT = 1 << 20
SOURCE_NAME = re.compile(r"\A(?P<name>[A-Za-z0-9._-]+?)-(?P<version>[^-/]+)\.(?:tar\.gz|tgz|tar\.bz2|zip)\Z")


class Failure(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def find_pip():
    """Makes pip's modules importable."""
    try:
        import pip  # noqa: F401
    except ImportError:
        places = ["/usr/share/python-wheels"]
        try:
            import ensurepip
            places.insert(0, os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
        except ImportError:
            pass
        wheels = [os.path.join(place, name) for place in places if os.path.isdir(place) for name in sorted(os.listdir(place))
                  if name.startswith("pip-") and name.endswith(".whl")]
        if not wheels:
            raise Failure("failed", "this Python has no pip, which is needed to read source packages")
        sys.path.insert(0, wheels[-1])


def normalize(name):
    return re.sub(r"[-_.]+", "-", name).lower()


class Links(html.parser.HTMLParser):
    """The links of an index page."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.base = None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "base" and attrs.get("href"):
            self.base = attrs["href"]
        if tag == "a" and attrs.get("href"):
            self.found.append((attrs["href"], attrs.get("data-requires-python"), "data-yanked" in attrs))


class Network:
    """The index as the operator's variables describe it, through pip's own HTTP client."""

    def __init__(self):
        from pip._vendor import requests
        self.session = requests.Session()
        self.errors = requests.RequestException
        # The variables are all that counts: the jail has no other settings.
        self.session.verify = os.environ.get("SSL_CERT_FILE") or True
        if os.environ.get("SSL_CLIENT_CERT"):
            self.session.cert = os.environ["SSL_CLIENT_CERT"]
        self.insecure = set(os.environ.get("UV_INSECURE_HOST", "").split())
        self.timeout = float(os.environ.get("UV_HTTP_TIMEOUT") or 30)

    def open(self, url):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("https", "http"):
            raise Failure("failed", "the index has a link that is no web address")
        verify = False if parts.hostname in self.insecure else self.session.verify
        try:
            answer = self.session.get(url, timeout=self.timeout, stream=True, verify=verify,
                                      headers={"Accept": "text/html", "Accept-Encoding": "identity"})
            if answer.status_code == 404:
                return None
            answer.raise_for_status()
            return answer
        except self.errors as error:
            raise Failure("failed", "the index cannot be read: %s" % type(error).__name__)

    def pieces(self, answer, limit):
        taken = 0
        try:
            for piece in answer.iter_content(1 << 16):
                taken += len(piece)
                if taken > limit:
                    raise Failure("failed", "the index sends more than %d bytes" % limit)
                yield piece
        except self.errors as error:
            raise Failure("failed", "the index stopped sending: %s" % type(error).__name__)

    def page(self, url):
        """(link, requires-python) of all files that are not withdrawn."""
        answer = self.open(url)
        if answer is None:
            return []
        links = Links()
        links.feed(b"".join(self.pieces(answer, MAX_PAGE)).decode("utf-8", "replace"))
        base = urllib.parse.urljoin(answer.url, links.base or "")
        return [(urllib.parse.urljoin(base, href), needed) for href, needed, yanked in links.found if not yanked]


def index_urls():
    if os.environ.get("UV_NO_INDEX"):
        return []
    from pip._internal.models.index import PyPI
    urls = [word.split("=", 1)[1] if re.match(r"[A-Za-z0-9._-]+=", word) else word
            for word in os.environ.get("UV_INDEX", "").split()]
    return urls + [os.environ.get("UV_DEFAULT_INDEX") or PyPI.simple_url]


def candidates(network, name):
    """(version, path or URL, SHA-256 or None) of the sources of a package."""
    from pip._vendor.packaging.specifiers import InvalidSpecifier, SpecifierSet
    from pip._vendor.packaging.version import InvalidVersion, Version
    links = []
    for place in filter(None, os.environ.get("UV_FIND_LINKS", "").split(",")):
        if place.startswith("/"):
            links += [(os.path.join(place, file), None) for file in sorted(os.listdir(place))]
        else:
            links += network.page(place)
    for index in index_urls():
        page = network.page(index.rstrip("/") + "/" + normalize(name) + "/")
        links += page
        if page:
            break
    here = "%d.%d.%d" % sys.version_info[:3]
    for link, needed in links:
        address, _, fragment = link.partition("#")
        match = SOURCE_NAME.match(urllib.parse.unquote(address.rsplit("/", 1)[1]))
        if match is None or normalize(match["name"]) != normalize(name):
            continue
        try:
            if needed and not SpecifierSet(needed).contains(here, prereleases=True):
                continue
            digest = re.search(r"(?:^|&)sha256=([0-9a-f]{64})\Z", fragment)
            yield Version(match["version"]), address, digest and digest[1]
        except (InvalidSpecifier, InvalidVersion):
            continue


def fetch(request):
    """The newest source of a package that the specifiers permit, and what its build needs."""
    find_pip()
    from pip._vendor.packaging.specifiers import SpecifierSet
    network = Network()
    wanted = SpecifierSet(",".join(request["specifiers"]))
    found = list(candidates(network, request["name"]))
    versions = list(wanted.filter([each[0] for each in found]))
    if not versions:
        raise Failure("unsolvable", "%s%s has neither a wheel for this Python and machine nor a source" %
                      (request["name"], wanted))
    version, address, digest = next(each for each in found if each[0] == max(versions))
    file = urllib.parse.unquote(address.rsplit("/", 1)[1])
    sys.stderr.write("Downloading %s\n" % file)
    sys.stderr.flush()
    path = os.path.join(request["place"], file)
    actual = copy(network, address, path)
    if digest and digest != actual:
        raise Failure("failed", "the index gave another file for %s than it announced: its SHA-256 is %s, and %s is expected" %
                      (file, actual, digest))
    project = read_project(path)
    return {"file": file, "sha256": actual, "version": str(version), **project}


def copy(network, address, path):
    digest = hashlib.sha256()

    def pieces():
        if not address.startswith("/"):
            answer = network.open(address)
            if answer is None:
                raise Failure("failed", "the index does not have the file that it names")
            yield from network.pieces(answer, MAX_SOURCE)
            return
        with open(address, "rb") as source:
            while True:
                piece = source.read(1 << 20)
                if not piece:
                    return
                yield piece

    with open(path, "wb") as target:
        for piece in pieces():
            digest.update(piece)
            target.write(piece)
    return digest.hexdigest()


def read_project(path):
    """[build-system] of pyproject.toml, or what is meant where it is missing."""
    text = read_member(path, "pyproject.toml")
    document = {}
    if text is not None:
        try:
            import tomllib
        except ImportError:
            from pip._vendor import tomli as tomllib
        try:
            document = tomllib.loads(text.decode("utf-8"))
        except ValueError:
            raise Failure("unsolvable", "pyproject.toml of %s is not TOML" % os.path.basename(path))
    system = document.get("build-system")
    if not isinstance(system, dict):
        return {"requires": ["setuptools", "wheel"], "backend": "setuptools.build_meta:__legacy__", "paths": []}
    texts = [system.get("requires", []), system.get("backend-path", [])]
    for each in texts:
        if not isinstance(each, list) or not all(isinstance(text, str) for text in each):
            raise Failure("unsolvable", "[build-system] of %s is malformed" % os.path.basename(path))
    backend = system.get("build-backend", "setuptools.build_meta:__legacy__")
    if not isinstance(backend, str) or not re.match(r"\A[A-Za-z0-9_.]+(:[A-Za-z0-9_.]+)?\Z", backend):
        raise Failure("unsolvable", "[build-system] of %s names no backend" % os.path.basename(path))
    return {"requires": texts[0], "backend": backend, "paths": texts[1]}


def read_member(path, name):
    """A file of the archive's one top directory; None: it is not there."""
    try:
        if path.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist()[:MAX_FILES]:
                    if re.match(r"\A[^/]+/%s\Z" % re.escape(name), info.filename):
                        with archive.open(info) as file:
                            return file.read(MAX_PROJECT)
            return None
        with tarfile.open(path) as archive:
            for number, info in enumerate(archive):
                if number > MAX_FILES:
                    break
                if info.isreg() and re.match(r"\A(\./)?[^/]+/%s\Z" % re.escape(name), info.name):
                    return archive.extractfile(info).read(MAX_PROJECT)
        return None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise Failure("unsolvable", "%s is no archive: %s" % (os.path.basename(path), error))


def take(request):
    """Copies the one wheel that a build left, if it is the package's, as a new file of ours."""
    find_pip()
    from pip._vendor.packaging.tags import sys_tags
    from pip._vendor.packaging.utils import parse_wheel_filename
    from pip._vendor.packaging.version import Version
    names = [name for name in os.listdir(request["built"]) if name.endswith(".whl")]
    if len(names) != 1:
        raise Failure("hostile", "the build left %d wheels, and one is expected" % len(names))
    try:
        name, version, _, tags = parse_wheel_filename(names[0])
    except ValueError:
        raise Failure("hostile", "the build left a file that has no name of a wheel")
    if normalize(name) != normalize(request["name"]) or version != Version(request["version"]):
        raise Failure("hostile", "the build of %s %s left a wheel of %s %s" %
                      (request["name"], request["version"], name, version))
    if not tags & set(sys_tags()):
        raise Failure("hostile", "the build left a wheel for another Python or machine: %s" % names[0])
    source = os.open(os.path.join(request["built"], names[0]), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_WHEEL:
            raise Failure("hostile", "the build left a wheel that is no file, or too large")
        check_wheel(file)
        file.seek(0)
        digest = hashlib.sha256()
        with open(os.path.join(request["place"], names[0]), "wb") as target:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
                target.write(piece)
    return {"file": names[0], "sha256": digest.hexdigest()}


def check_wheel(file):
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError) as error:
        raise Failure("hostile", "the build left a wheel that is no zip file: %s" % error)
    if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > 4 * MAX_WHEEL:
        raise Failure("hostile", "the build left a wheel with too many or too large files")
    for entry in entries:
        parts = entry.filename.split("/")
        if entry.filename.startswith("/") or ".." in parts or "\\" in entry.filename:
            raise Failure("hostile", "the build left a wheel with a file outside of it: %r" % entry.filename)


OPERATIONS = {"fetch": fetch, "take": take}


def main():
    os.umask(0o022)
    request = json.load(sys.stdin)
    try:
        answer = OPERATIONS[request["op"]](request)
        answer["ok"] = True
    except Failure as failure:
        answer = {"ok": False, "kind": failure.kind, "message": str(failure)}
    except OSError as error:
        answer = {"ok": False, "kind": "failed", "message": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
