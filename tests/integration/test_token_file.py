"""`cella token`: the clients of a server, in a file that only its owner can read."""

import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def token_command(cella, environment, tmp_path):
    def start(*arguments, umask=0o022, **options):
        return subprocess.run(
            [cella.binary, "token", *arguments], cwd=tmp_path, env={**environment, "XDG_STATE_HOME": f"{tmp_path}/s"},
            capture_output=True, text=True, timeout=60, umask=umask, **options,
        )

    return start


def test_token_is_printed_once_and_stored_as_a_hash(token_command, tmp_path):
    made = token_command("new", "alice", "--file", "tokens", umask=0)
    assert made.returncode == 0, made.stderr
    token = made.stdout.removesuffix("\n")
    assert len(token) == 49 and token.startswith("cella_") and "\n" not in token
    file = tmp_path / "tokens"
    assert file.read_text() == f"alice:sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"
    assert file.stat().st_mode & 0o7777 == 0o600
    listed = token_command("ls", "--file", "tokens")
    assert listed.stdout.split() == ["alice", "hash"]
    assert token_command("rm", "alice", "--file", "tokens").returncode == 0
    assert file.read_text() == ""


def test_config_option_selects_the_token_file(token_command, tmp_path):
    (tmp_path / "named.toml").write_text(f'[server]\ntoken_file = "{tmp_path}/named"\n')
    (tmp_path / "state.toml").write_text(f'[server]\nstate_dir = "{tmp_path}/state"\n')
    for config, file in (("named.toml", tmp_path / "named"), ("state.toml", tmp_path / "state" / "tokens")):
        made = token_command("new", "alice", "--config", config)
        assert made.returncode == 0 and file.read_text().startswith("alice:sha256:"), made.stderr
        assert token_command("ls", "--config", config).stdout.split() == ["alice", "hash"]
    (tmp_path / "open.toml").write_text("[server]\nno_auth = true\n")
    for config, words in (("open.toml", "no_auth"), ("none.toml", "none.toml")):
        refused = token_command("new", "alice", "--config", config)
        assert refused.returncode == 1 and words in refused.stderr and refused.stdout == ""
    assert token_command("ls", "--config", "named.toml", "--file", "named").returncode not in (0, 1)


def test_default_token_file_is_in_the_state_directory(token_command, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root's is that of the machine")
    assert token_command("new", "a").returncode == 0
    assert (tmp_path / "s/cella/tokens").stat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "s/cella").stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["new", "old"], 1, "has a token already"),
        (["new", "a b"], 1, "is not a name"),
        (["new", "sha256"], 1, "is not a name"),
        (["rm", "nobody"], 1, "has no client 'nobody'"),
        (["new"], 2, "NAME is required"),
        ([], 2, "subcommand is required"),
    ],
)
def test_refused_changes_leave_the_file_unchanged(token_command, tmp_path, arguments, status, words):
    file = tmp_path / "tokens"
    file.write_text("# mine\nold:secret\n")
    file.chmod(0o600)
    ended = token_command(*arguments, *(["--file", "tokens"] if arguments else []))
    assert ended.returncode == status and words in ended.stderr and ended.stdout == ""
    assert "secret" not in ended.stderr
    assert file.read_text() == "# mine\nold:secret\n"


def test_rejects_token_file_readable_by_others(token_command, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("old:secret\n")
    file.chmod(0o644)
    for arguments in (["new", "a"], ["ls"], ["rm", "old"]):
        ended = token_command(*arguments, "--file", "tokens")
        assert ended.returncode == 1 and "chmod 600" in ended.stderr
    assert file.read_text() == "old:secret\n"


def test_token_that_could_not_be_printed_is_not_stored(cella, environment, tmp_path):
    with open("/dev/full", "w") as full:
        ended = subprocess.run([cella.binary, "token", "new", "a", "--file", tmp_path / "tokens"], env=environment,
                               stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1 and "could not be shown" in ended.stderr
    assert (tmp_path / "tokens").read_text() == ""


def test_concurrent_changes_are_all_kept(token_command, tmp_path):
    names = [f"client{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: token_command("new", name, "--file", "tokens"), names))
    assert all(each.returncode == 0 for each in made), [each.stderr for each in made]
    assert sorted(line.split(":")[0] for line in (tmp_path / "tokens").read_text().splitlines()) == sorted(names)
    assert [each.name for each in tmp_path.iterdir()] == ["tokens"]
