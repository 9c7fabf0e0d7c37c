"""Texts that guests choose (names of files, kernelspecs, sources of workflows) on the terminal of the person who lists
them: they must neither speak to the terminal nor look like something else."""

import json

import pytest
from server import serve, short_directory  # noqa: F401 (fixtures)
from support.cella import PYTHON, run_bounded

pytestmark = pytest.mark.as_user

TITLE = "\x1b]0;title\x07"  # some terminals type it again, as if the user did
HIDDEN = "\u202e\u2066\u200b\u009b2K\ufeff"
CONTROLS = {*map(chr, range(32)), "\x7f", *HIDDEN} - {"\n", *"2K"}


def printed(cella, environment, *words):
    done = run_bounded([str(cella.binary), *map(str, words)], env=environment)
    assert done.exit_code == 0, done.describe()
    text = done.stdout.decode()
    assert not CONTROLS & set(text), text
    return text


def test_names_of_files_of_a_session_print_no_control_characters(cella, environment, serve):  # noqa: F811 (fixture)
    server = serve()
    session = server.client().open()
    session.run(f"open({'a' + TITLE + 'b'!r}, 'w')")
    names = [each["name"] for each in session.client.get(session.path("files")).expect(200)["files"]]
    assert names == [f"a{TITLE}b"], "the control: the name does have them"
    assert "ab\n" in printed(cella, environment, "session", "files", session.id, "--url", f"unix:{server.socket}")


def test_kernelspecs_print_no_control_characters(cella, environment, tmp_path):
    place = tmp_path / "kernels" / "planted"
    place.mkdir(parents=True)
    spec = {"argv": ["/bin/true", TITLE], "display_name": TITLE, "language": f"py{TITLE}"}
    (place / "kernel.json").write_text(json.dumps(spec))
    listed = printed(cella, {**environment, "JUPYTER_PATH": str(tmp_path)}, "kernels", "--python", PYTHON)
    assert "planted  py " in listed


def test_workflow_looks_like_the_code_that_it_is(cella, environment, tmp_path):
    workflows = tmp_path / "data" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "planted.py").write_text(
        f'"""About {TITLE}{HIDDEN}"""\nasync def run():\n    evil()  # {HIDDEN} harmless\r    pass\n'
    )
    shown = printed(cella, environment, "workflows", "show", "planted", "--storage", tmp_path / "data")
    assert "    evil()  # ????2K? harmless?    pass\n" in shown
    assert "About" in printed(cella, environment, "workflows", "ls", "--storage", tmp_path / "data")
