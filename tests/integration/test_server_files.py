"""The files of a session over HTTP: up, down, ranges, lists, removal, archives; and every way out of the workspace."""

import io
import os
import secrets
import tarfile
import threading

import pytest
from server import client, serve, server, session  # noqa: F401 (fixtures)
from support.running import wait_until

pytestmark = pytest.mark.as_user


class Files:
    """What clients do with files; each answer is the test's to judge."""

    def __init__(self, session):
        self.session = session

    def path(self, name):
        return self.session.path("files", name)

    def put(self, name, body):
        return self.session.client.ask("PUT", self.path(name), body=body)

    def get(self, name, **headers):
        return self.session.client.ask("GET", self.path(name), headers=headers)

    def remove(self, name, query=""):
        return self.session.client.ask("DELETE", self.path(name) + query)

    def list(self, query=""):
        return self.session.client.get(self.session.path("files") + query)

    def names(self, query=""):
        return [each["name"] for each in self.list(query).expect(200)["files"]]

    def unpack(self, archive, query=""):
        return self.session.client.ask("PUT", self.session.path("archive") + query, body=archive)

    def pack(self, query=""):
        data = self.session.client.get(self.session.path("archive") + query).expect(200)
        return tarfile.open(fileobj=io.BytesIO(data))


@pytest.fixture
def files(session):
    return Files(session)


def archive(*entries):
    """Entries are (name, content) of files, or TarInfo objects."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            tar.addfile(info, io.BytesIO(entry[1]))
    return stream.getvalue()


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.fixture
def secret():
    """A file of the server's machine, outside of any workspace."""
    path = f"/tmp/cella-secret-{secrets.token_hex(8)}"
    with open(path, "w") as stream:
        stream.write("secret")
    yield path
    assert open(path).read() == "secret", "a client changed a file of the server's machine"
    os.unlink(path)


# Up and down


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 8192], ids=["empty", "small", "2m"])
def test_uploaded_file_is_downloaded_unchanged(files, content):
    assert files.put("data.bin", content).expect(201) == {"path": "data.bin", "size": len(content)}
    assert files.session.value("len(open('data.bin', 'rb').read())") == str(len(content))
    answer = files.get("data.bin")
    assert answer.expect(200) == content
    assert answer.headers["content-length"] == str(len(content))


def test_file_of_the_guest_can_be_downloaded(files):
    files.session.run("import os; os.makedirs('a/b'); open('a/b/c.txt', 'w').write('from inside')")
    answer = files.get("a/b/c.txt")
    assert answer.expect(200) == b"from inside"
    # No browser may take a guest's page for one of the server's.
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name, real",
    [
        ("with%20blank", "with blank"), ("%C3%A4%E2%82%AC", "ä€"), ("a%2Fb", "a/b"), ("100%25", "100%"),
        ("...", "..."), ("-rf", "-rf"), ("a;b&c=d", "a;b&c=d"), ("x" * 255, "x" * 255), ("q%3Fq%23", "q?q#"),
    ],
)
def test_unusual_file_names_are_accepted(files, name, real):
    files.put(name, b"x").expect(201)
    assert files.session.value(f"import os; os.path.exists({real!r})") == "True"
    assert files.get(name).expect(200) == b"x"
    files.remove(name).expect(204)


def test_upload_replaces_files_and_creates_directories(files):
    files.put("a/b/c", b"first version").expect(201)
    files.put("a/b/c", b"second").expect(201)
    assert files.get("a/b/c").expect(200) == b"second"


def test_aborted_upload_leaves_nothing(files):
    files.put("kept", b"before").expect(201)
    with files.session.client.connect() as connection:
        connection.putrequest("PUT", files.path("kept"))
        connection.putheader("Content-Length", "1000000")
        connection.endheaders(b"half of it")
    with files.session.client.connect() as connection:
        connection.putrequest("PUT", files.path("fresh"))
        connection.putheader("Content-Length", "1000000")
        connection.endheaders(b"half of it")
    assert wait_until(lambda: files.names() == ["kept"]), files.names()
    assert files.get("kept").expect(200) == b"before"


def test_directory_cannot_be_used_as_a_file(files):
    files.put("d/f", b"x").expect(201)
    for answer in (files.get("d"), files.put("d", b"x"), files.put("d/f/g", b"x"), files.remove("d")):
        assert 400 <= answer.status < 500, answer
        answer.error(answer.status)
    assert files.get("d/f").expect(200) == b"x"


def test_rejects_upload_beyond_the_disk_limit(client):
    session = client.open(limits={"disk": "1m"})
    files = Files(session)
    words = files.put("big", bytes(2 << 20)).error(429)
    assert "disk" in words["message"]
    assert files.names() == []
    session.delete().expect(204)


# Ranges


@pytest.mark.parametrize(
    "header, part",
    [
        ("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-3", b"789"), ("bytes=0-99", b"0123456789"),
        ("bytes=-99", b"0123456789"),
    ],
)
def test_range_returns_a_part(files, header, part):
    files.put("digits", b"0123456789").expect(201)
    answer = files.get("digits", Range=header)
    assert answer.expect(206) == part
    first = b"0123456789".index(part)
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/10"


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_range_beyond_the_end_is_416(files, header):
    files.put("digits", b"0123456789").expect(201)
    answer = files.get("digits", Range=header)
    assert (answer.status, answer.headers.get("content-range")) == (416, "bytes */10")


@pytest.mark.parametrize("header", ["bytes=4-2", "bytes=x", "lines=1-2", "bytes=", "bytes=-", "bytes=0-1,3-4"])
def test_malformed_range_is_ignored(files, header):
    files.put("digits", b"0123456789").expect(201)
    assert files.get("digits", Range=header).expect(200) == b"0123456789"


def test_range_of_an_empty_file_is_empty_or_416(files):
    files.put("empty", b"").expect(201)
    for header in ("bytes=0-", "bytes=-5", "bytes=0-0"):
        answer = files.get("empty", Range=header)
        assert answer.status in (200, 416), answer
        assert answer.headers.get("content-range") in (None, "bytes */0"), answer


# Lists and removal


def test_directory_is_listed_in_pages(files):
    files.session.run("import os\nfor n in range(25): open(f'f{n:02}', 'w').write('x' * n)\nos.mkdir('sub')")
    page = files.list("?limit=20").expect(200)
    assert page["files"][3] == {"name": "f03", "type": "file", "size": 3, "media_type": page["files"][3]["media_type"]}
    rest = files.list(f"?limit=20&after={page['next']}").expect(200)
    names = [each["name"] for each in page["files"] + rest["files"]]
    assert names == sorted([*(f"f{n:02}" for n in range(25)), "sub"]) and rest["next"] is None
    assert rest["files"][-1]["type"] == "directory"
    assert files.names("?path=sub") == []
    files.list("?path=nowhere").error(404)


def test_directory_removal_requires_recursive(files):
    files.put("d/e/f", b"x").expect(201)
    assert 400 <= files.remove("d").status < 500
    assert files.get("d/e/f").expect(200) == b"x"
    files.remove("d", "?recursive=true").expect(204)
    assert files.names() == []
    files.remove("d").error(404)
    files.get("d/e/f").error(404)


# The way out


TRAVERSALS = [
    "../{}", "a/../../{}", "..%2f{}", "%2e%2e/{}", "%2e%2e%2f{}", ".%2e/{}", "%2E%2E%2F{}", "/{}", "%2f{}", "//{}",
    "..%5c{}", "..\\{}", "%252e%252e%252f{}", "..%c0%af{}", "%c0%ae%c0%ae/{}", "%e0%80%ae%e0%80%ae/{}", "a/./{}",
    "a%00/../{}", "..%00/{}", "..;/{}", "%uff0e%uff0e/{}", "./{}", "a//{}",
]


@pytest.mark.parametrize("form", TRAVERSALS)
def test_paths_cannot_leave_the_workspace(files, secret, form):
    # From any depth: the file is asked for relative to the root, with and without climbing.
    deep = "../" * 12
    for target in (secret.lstrip("/"), deep + secret.lstrip("/"), (deep + secret.lstrip("/")).replace("/", "%2f")):
        name = form.format(target)
        for answer in (files.get(name), files.put(name, b"changed"), files.remove(name)):
            assert b"secret" not in answer.body.replace(b"cella-secret", b""), answer
            # What is no way out may be the name of a file inside.
            assert 400 <= answer.status < 500 or answer.status in (201, 204), answer
    for query in (f"?path={form.format('etc')}", f"?path={deep}etc", "?path=/etc", "?path=%2fetc", "?path=.."):
        assert 400 <= files.list(query).status < 500
        assert 400 <= files.session.client.get(files.session.path("archive") + query).status < 500


@pytest.mark.parametrize("link", ["{}", "/proc/self/root{}", "../../../../../../../..{}", "/proc/1/root{}"])
def test_symlinks_of_a_guest_are_not_followed(files, secret, link):
    target, parent = link.format(secret), link.format(os.path.dirname(secret))
    name = os.path.basename(secret)
    files.session.run(f"import os; os.symlink({target!r}, 'l'); os.symlink({parent!r}, 'd'); os.symlink('l', 'again')")
    asked = [files.get("l"), files.get("again"), files.get(f"d/{name}"), files.put(f"d/{name}", b"changed"),
             files.put("d/planted", b"x"), files.remove(f"d/{name}"), files.list("?path=d"),
             files.session.client.get(files.session.path("archive") + "?path=d"),
             files.unpack(archive(("planted", b"x")), "?path=d"), files.unpack(archive((f"d/{name}", b"changed")))]
    for answer in asked:
        assert 400 <= answer.status < 500, answer
    assert not os.path.exists(os.path.join(os.path.dirname(secret), "planted"))
    types = {each["name"]: each["type"] for each in files.list().expect(200)["files"]}
    assert types["l"] == types["again"] == "link"
    # In its own place a link is only a name: it can be replaced and removed.
    files.put("l", b"mine").expect(201)
    assert files.get("l").expect(200) == b"mine"
    files.remove("again").expect(204)
    files.remove("d", "?recursive=true").expect(204)
    assert os.path.exists(secret) and files.names() == ["l"]


def test_archive_download_does_not_follow_symlinks(files, secret):
    files.session.run(f"import os; os.symlink({secret!r}, 'l'); open('f', 'w').write('x')")
    with files.pack() as tar:
        for member in tar.getmembers():
            assert not member.isfile() or tar.extractfile(member).read() != b"secret"
        assert "f" in [member.name.removeprefix("./") for member in tar]


@pytest.mark.parametrize(
    "make", ["import os; os.mkfifo('p')", "import socket; s = socket.socket(socket.AF_UNIX); s.bind('p')"],
    ids=["pipe", "socket"],
)
def test_special_files_do_not_block_requests(files, make):
    files.session.run(make)
    answer = files.get("p")
    assert 400 <= answer.status < 500, answer
    with files.pack() as tar:
        assert [member.name for member in tar if member.isfile()] == []
    files.put("p", b"x").expect(201)
    assert files.get("p").expect(200) == b"x"


def test_swapping_directories_for_symlinks_does_not_leave_the_workspace(files, secret):
    name = os.path.basename(secret)
    swap = f"""
import os, time
os.mkdir('real'); open('real/{name}', 'w').write('inside')
print('on', flush=True)
end = time.monotonic() + 10
while time.monotonic() < end and not os.path.exists('stop'):
    os.rename('real', 'd'); os.rename('d', 'real')
    os.symlink('/tmp', 'd'); os.unlink('d')
"""
    with files.session.stream(swap) as events:
        events.until("stdout")
        answers = [files.get(f"d/{name}") for _ in range(200)] + [files.put(f"d/{name}", b"inside") for _ in range(100)]
        files.put("stop", b"").expect(201)
        events.until("finished")
    assert {answer.status for answer in answers if answer.status >= 500} == set()
    assert all(answer.body == b"inside" for answer in answers if answer.status == 200)


# Archives


def test_archive_round_trips(files):
    told = files.unpack(archive(("a.txt", b"one"), ("d/b.txt", b"two"), ("d/e/c.bin", bytes(100_000)))).expect(200)
    assert (told["files"], told["bytes"]) == (3, 100_006)
    assert files.session.value("open('d/b.txt').read()") == "'two'"
    files.unpack(archive(("x", b"below")), "?path=sub/dir").expect(200)
    assert files.get("sub/dir/x").expect(200) == b"below"
    with files.pack() as tar:
        content = {m.name.removeprefix("./"): tar.extractfile(m).read() for m in tar if m.isfile()}
    assert content == {"a.txt": b"one", "d/b.txt": b"two", "d/e/c.bin": bytes(100_000), "sub/dir/x": b"below"}
    with files.pack("?path=d") as tar:
        assert sorted(m.name.rpartition("/")[2] for m in tar if m.isfile()) == ["b.txt", "c.bin"]


@pytest.mark.parametrize(
    "entry",
    [
        special("link", tarfile.SYMTYPE, "/etc/passwd"), special("link", tarfile.SYMTYPE, "inside"),
        special("hard", tarfile.LNKTYPE, "before"), special("fifo", tarfile.FIFOTYPE), special("null", tarfile.CHRTYPE),
        special("disk", tarfile.BLKTYPE), ("../out", b"x"), ("/absolute", b"x"), ("a/../../out", b"x"),
        ("d/" * 100 + "deep", b"x"), ("n" * 300, b"x"),
    ],
    ids=lambda entry: getattr(entry, "name", None) or entry[0][:12],
)
def test_rejects_archive_with_links_devices_or_outside_paths(files, entry):
    files.unpack(archive(("before", b"x"), entry)).error(400)
    assert files.names() == ["before"]


def test_rejects_malformed_archive(files):
    whole = archive(("f", b"x" * 5000))
    for wrong in (b"no archive at all", bytes(511), whole[:3000], os.urandom(4096), b"\x1f\x8b" + bytes(2000)):
        files.unpack(wrong).error(400)
    assert files.names() == []


def test_rejects_archive_beyond_the_disk_limit(client):
    session = client.open(limits={"disk": "1m"})
    files = Files(session)
    # More content than there is room for, and more than is ever sent.
    for bomb in (archive(("big", bytes(3 << 20))), archive(*((f"f{n}", bytes(200_000)) for n in range(10)))):
        answer = files.unpack(bomb)
        assert answer.status in (413, 429), answer
    announced = special("huge", tarfile.REGTYPE)
    announced.size = 1 << 40
    answer = files.unpack(announced.tobuf() + bytes(4096))
    assert 400 <= answer.status < 500, answer
    assert session.value("1 + 1") == "2"
    session.delete().expect(204)


def test_large_download_does_not_block_other_requests(files, client):
    files.session.run("open('big', 'wb').truncate(48 << 20)")
    sizes = []
    with client.connect() as slow:
        slow.request("GET", files.path("big"))
        response = slow.getresponse()
        reader = threading.Thread(target=lambda: sizes.append(len(response.read())))
        assert client.get("/health").expect(200)["status"] == "ok"
        reader.start()
        reader.join(30)
    assert sizes == [48 << 20]
