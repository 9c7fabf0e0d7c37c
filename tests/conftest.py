"""Makes tests/ importable, and gives every suite the shared hooks and fixtures."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

pytest_plugins = ["support.fixtures"]
