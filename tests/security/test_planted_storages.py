"""A storage whose index a guest has written, in a directory that an earlier command gave to it: SQLite reads it on the
host, with the rights of the caller."""

import shutil
import sqlite3
import sys

import pytest
from support.cella import PYTHON, run_bounded
from support.running import Run

pytestmark = pytest.mark.as_user

BOUND = 30

# The end of a rollback journal of several databases: the name of the file that SQLite removes when it has played the
# journal back. Without a page of its own such a journal changes nothing else.
PLANT = """
import os, struct, sys
index, victim = sys.argv[1], sys.argv[2].encode()
magic = bytes.fromhex("d9d505f920a163d7")
page = 4096
head = magic + struct.pack(">IIIII", 0, 1, os.path.getsize(index) // page, 512, page)
name = struct.pack(">I", (1 << 30) // page + 1) + victim + struct.pack(">II", len(victim), sum(victim)) + magic
open(index + "-journal", "wb").write(head.ljust(512, b"\\0") + name)
"""

ENDLESS = """
import sqlite3, sys
index = sqlite3.connect(sys.argv[1], isolation_level=None)
columns = [row[1] for row in index.execute("PRAGMA table_info(artifacts)")]
index.execute("DROP TABLE artifacts")
index.execute("CREATE VIEW artifacts AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT "
              + ", ".join(("'' || x AS " if name == "name" else "x AS ") + name for name in columns) + " FROM n")
index.execute("PRAGMA journal_mode = DELETE")
"""


@pytest.fixture
def run(cella, tmp_path):
    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    return Run(cella, {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"})


@pytest.fixture
def storage(run, tmp_path):
    """Of the caller, in a directory that a guest gets afterwards."""
    place = tmp_path / "project" / "data"
    saved = run.json("-c", "artifacts.save('a.txt', 'kept')", "--storage", place)
    assert saved["status"] == "ok", saved
    return place


def plant(run, storage, code, *words):
    """A guest writes to the index of the storage."""
    done = run.json("-c", code, "--python", PYTHON, "--workdir", storage.parent, "--", "data/.cella/index.db", *words)
    assert done["status"] == "ok", done


def test_index_that_names_another_file_does_not_have_it_removed(run, storage, tmp_path):
    victim = tmp_path / "precious"
    victim.write_text("precious")
    plant(run, storage, PLANT, str(victim))
    # The attack works: a program that opens a copy of the index with SQLite removes the file that the copy names.
    copy = tmp_path / "copy.db"
    shutil.copy(storage / ".cella" / "index.db", copy)
    other = tmp_path / "other"
    other.write_text("x")
    run_bounded([sys.executable, "-c", PLANT, str(copy), str(other)], env=run.environment)
    with sqlite3.connect(copy) as index:
        index.execute("SELECT count(*) FROM artifacts").fetchone()
    assert not other.exists()
    refused = run("-c", "print(artifacts.load('a.txt'))", "--storage", storage)
    assert victim.exists() and refused.exit_code == 126, refused.describe()
    refused = refused.stderr.decode()
    assert "index.db-journal" in refused and "remove it" in refused, refused
    (storage / ".cella" / "index.db-journal").unlink()
    assert run.json("-c", "print(artifacts.load('a.txt'))", "--storage", storage)["stdout"] == "kept\n"


def test_index_whose_tables_never_end_is_refused(run, storage):
    plant(run, storage, ENDLESS)
    with sqlite3.connect(storage / ".cella" / "index.db") as index:
        index.set_progress_handler(lambda: 1, 1_000_000)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            index.execute("SELECT count(*) FROM artifacts").fetchone()
    refused = run.rejected("-c", "print(artifacts.list())", "--storage", storage, timeout=BOUND)
    assert "index.db" in refused and "another program" in refused, refused
