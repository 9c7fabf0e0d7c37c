# Made from _async/__init__.py by tools/make_sync.py: change that one.
"""Client and session. The synchronous twin is made from the asynchronous one by tools/make_sync.py."""
