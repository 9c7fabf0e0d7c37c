"""What `make install` gives to applications: libcella.so, its headers, and how CMake and pkg-config find it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from support.cella import REPOSITORY, run_bounded
from support.needs import require
from support.running import IS_ROOT

BUILD = REPOSITORY / "build/release"
HERE = pathlib.Path(__file__).parent
# The ordinary user's copy of the tests has no build tree.
pytestmark = pytest.mark.skipif(
    not (IS_ROOT and (BUILD / "cmake_install.cmake").exists()), reason="needs the build tree: run 'make check' first"
)
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
CHAT = b"x = 6\nprint('hi')\nx * 7\n1 / 0\nx\ntools.shout('lend'), tools.shout(text='me')\ntools.shout(1)\n"
ANSWERS = (
    "hi\n= 42\nZeroDivisionError: division by zero\n= 6\n= ('LEND', 'ME')\n"
    "ToolError: shout(): text must be {\"type\":\"string\"}\n"
)


@pytest.fixture(scope="module")
def prefix(cella):
    with tempfile.TemporaryDirectory(prefix="cella-prefix-") as name:
        for component in ("Unspecified", "library"):
            command = ["cmake", "--install", BUILD, "--prefix", f"{name}/usr", "--component", component, "--strip"]
            subprocess.run(command, check=True, capture_output=True)
        yield pathlib.Path(name, "usr")


def built(*command, **options):
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, **options)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def environment_of(prefix, environment):
    return {**environment, "LD_LIBRARY_PATH": str(prefix / "lib")}


def assert_chats(binary, environment):
    for words in ((), ("inprocess",)):
        ended = run_bounded([str(binary), *words], env=environment, input=CHAT)
        assert (ended.exit_code, ended.text(), ended.stderr) == (0, ANSWERS, b""), ended.describe()


def test_library_exports_the_functions_of_its_header_alone(prefix):
    declared = set(re.findall(r"\b(cella_\w+)\(", (prefix / "include/cella.h").read_text()))
    table = built("readelf", "--dyn-syms", "--wide", prefix / "lib/libcella.so")
    exported = {
        fields[7].partition("@")[0]
        for fields in map(str.split, table.splitlines())
        if len(fields) >= 8 and fields[6] not in ("UND", "Ndx", "ABS") and fields[4] in ("GLOBAL", "WEAK", "UNIQUE")
    }
    assert len(declared) > 80 and exported == declared


def test_library_needs_only_libc_and_has_a_versioned_name(prefix):
    dynamic = built("readelf", "--dynamic", prefix / "lib/libcella.so")
    needed = set(re.findall(r"NEEDED.*\[([\w.-]+)\]", dynamic))
    assert needed <= {"libc.so.6", "libm.so.6"} | {name for name in needed if name.startswith("ld-linux")}
    assert "Library soname: [libcella.so.0]" in dynamic and "TEXTREL" not in dynamic


def test_nothing_installed_links_libpython(prefix):
    for path in prefix.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            assert "libpython" not in built("readelf", "--dynamic", path), path


def test_c_program_uses_every_kind_of_call(prefix, tmp_path, environment_of):
    flags = built("pkg-config", "--cflags", "--libs", "cella", env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")})
    built("gcc", "-std=c99", *WARNINGS, HERE / "use_library.c", "-o", tmp_path / "use", *flags.split())
    ended = run_bounded([str(tmp_path / "use")], env=environment_of)
    assert (ended.exit_code, ended.text(), ended.stderr) == (0, "", b""), ended.describe()


def test_example_builds_in_an_empty_directory_by_cmake(prefix, tmp_path, environment):
    shutil.copytree(REPOSITORY / "examples/cpp", tmp_path / "source")
    (tmp_path / "build").mkdir()
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_COMPILER=g++", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}"]
    built("cmake", "-G", "Ninja", *options, "../source", cwd=tmp_path / "build")
    built("cmake", "--build", ".", cwd=tmp_path / "build")
    assert_chats(tmp_path / "build/chat", environment)


def test_example_builds_in_an_empty_directory_by_pkg_config(prefix, tmp_path, environment_of):
    """With another compiler than CMake's, whose standard library is its own affair."""
    flags = built("pkg-config", "--cflags", "--libs", "cella", env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")})
    source = REPOSITORY / "examples/cpp/chat.cc"
    built("clang++-19", "-std=c++20", *WARNINGS, source, "-o", tmp_path / "chat", *flags.split(), cwd=tmp_path)
    assert_chats(tmp_path / "chat", environment_of)
    # The files are found relative to the library, wherever it lies; or where the user says.
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    assert_chats(tmp_path / "chat", {**environment_of, "LD_LIBRARY_PATH": str(moved / "lib")})
    shutil.copytree(moved / "lib", tmp_path / "elsewhere/lib", symlinks=True)
    shutil.rmtree(moved / "lib")
    alone = {**environment_of, "LD_LIBRARY_PATH": str(tmp_path / "elsewhere/lib")}
    refused = run_bounded([str(tmp_path / "chat")], env=alone, input=CHAT)
    assert refused.exit_code == 1 and b"CELLA_HOME" in refused.stderr, refused.describe()
    assert_chats(tmp_path / "chat", {**alone, "CELLA_HOME": str(moved)})


OPTIONS = r"""
#include <cella/session.h>
#include <cstdio>
int main(int argc, char** argv) {
  cella::SessionOptions options;
  options.executor = cella::ExecutorKind::kContainer;
  cella::ContainerPolicy& container = options.policy.container;
  container.user = "1234";
  container.extra_hosts = {{"db", "1.2.3.4"}};
  if (argc > 2) {
    container.engine = argv[1];
    container.image = argv[2];
    auto session = cella::Session::Open(options);
    if (!session) return std::printf("%s\n", session.error().message.c_str()), 1;
    auto result = session->Run("import os, socket; os.getuid(), socket.gethostbyname('db')");
    return std::printf("%s\n", result ? result->value.value_or("none").c_str() : result.error().message.c_str()), 0;
  }
  options.policy.values_of_assignments = true;
  container.mode = cella::ContainerMode::kCommand;
  container.engine = "unix:///e";
  container.image = "i\"\n";
  container.pull = container.read_only = container.auto_remove = container.stop_container = false;
  container.name = "n";
  container.runtime = "runsc";
  container.auth_token = "t";
  container.auth_disabled = true;
  container.bind_dir = "/b";
  container.device_requests = "[{\"Count\": -1}]";
  container.cap_add = {"NET_RAW"};
  container.init_command = "true";
  std::printf("%s\n", cella::detail::ToDocument(options)->c_str());
}
"""


@pytest.fixture(scope="module")
def options_program(prefix):
    with tempfile.TemporaryDirectory() as name:
        source = pathlib.Path(name, "options.cc")
        source.write_text(OPTIONS)
        libraries = (f"-I{prefix}/include", f"-L{prefix}/lib", "-lcella", f"-Wl,-rpath,{prefix}/lib")
        built("g++", "-std=c++20", *WARNINGS, source, "-o", f"{name}/options", *libraries)
        yield f"{name}/options"


def test_container_options_are_keys_of_the_policy_document(options_program, environment):
    document = json.loads(run_bounded([options_program], env=environment).text())
    assert (document["executor"], document["network"]) == ("container", "none")
    assert document["value_of"] == "last_expr_or_assign"
    assert document["container"] == {
        "mode": "command", "engine": "unix:///e", "image": 'i"\n', "pull": "never", "name": "n", "runtime": "runsc",
        "auth_token": "t", "auth_disabled": True, "read_only": False, "bind_dir": "/b", "user": "1234",
        "extra_hosts": {"db": "1.2.3.4"}, "device_requests": [{"Count": -1}], "cap_add": ["NET_RAW"],
        "init_command": "true", "auto_remove": False, "stop_container": False,
    }


@pytest.mark.needs("docker")
def test_container_options_hold_in_a_session(options_program, environment):
    engine = require("docker")
    ended = run_bounded([options_program, engine["DOCKER_HOST"], engine["CELLA_TEST_IMAGE"]], env=environment)
    assert ended.text() == "(1234, '1.2.3.4')\n", ended.describe()


def test_example_is_clean_under_address_sanitizer(prefix, tmp_path, environment_of):
    """The library is not instrumented, but its memory is counted. An interpreter that is never finalised keeps its own."""
    flags = built("pkg-config", "--cflags", "--libs", "cella", env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")})
    checks = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    built("clang++-19", "-std=c++20", *checks, REPOSITORY / "examples/cpp/chat.cc", "-o", tmp_path / "chat", *flags.split())
    (tmp_path / "known").write_text("leak:libpython3\n")
    options = f"suppressions={tmp_path / 'known'}:print_suppressions=0"
    assert_chats(tmp_path / "chat", {**environment_of, "LSAN_OPTIONS": options, "ASAN_OPTIONS": "symbolize=0"})


# What the snippets of the page refer to: the code around them is the reader's.
READERS_CODE = r"""
#include <cella/session.h>
#include <cstdio>
#include <cstdlib>
static void Print(const std::string& text) { std::printf("%s\n", text.c_str()); }
static int Find(const std::string& key, int limit) { return static_cast<int>(key.size()) * limit; }
static cella::Expected<cella::Session> made = cella::Session::Open(cella::Policy{});
static cella::Session* session = made ? &*made : nullptr;
"""


def test_snippets_of_the_documentation_compile_and_run(prefix, tmp_path, environment_of):
    page = (REPOSITORY / "docs/library.md").read_text()
    first, *others = re.findall(r"^```cpp\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    flags = built("pkg-config", "--cflags", "--libs", "cella", env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")})
    (tmp_path / "first.cc").write_text(first)
    functions = [f"static void Snippet{number}() {{\n{text}\n}}\n" for number, text in enumerate(others)]
    storage = tmp_path / "storage"
    calls = "".join(f"  Snippet{number}();\n" for number in range(len(others)))
    text = READERS_CODE + "".join(functions).replace("/var/lib/agent/data", str(storage)) + f"int main() {{\n{calls}}}\n"
    (tmp_path / "others.cc").write_text(text)
    shown = {}
    for name in ("first", "others"):
        built("g++", "-std=c++20", "-Wno-unused-result", "-Wno-unused-variable", tmp_path / f"{name}.cc", "-o", tmp_path / name, *flags.split())
        ended = run_bounded([str(tmp_path / name)], env=environment_of)
        assert ended.exit_code == 0, ended.describe()
        shown[name] = ended.text()
    assert shown["first"] == "2432902008176640000\n"
    assert shown["others"].startswith("30\nof the workspace") and (storage / "artifacts/june.json").exists(), shown


def test_headers_compile_alone(prefix, tmp_path):
    sources = []
    for header in ("detail/policy_document.h", "detail/values.h", "engine.h", "words.h"):
        sources.append(tmp_path / f"{len(sources)}.cc")
        sources[-1].write_text(f"#include <cella/{header}>\n")
    built("g++", "-std=c++20", "-fsyntax-only", *WARNINGS, f"-I{prefix}/include", *sources)
