"""Client and session. The synchronous twin is made from the asynchronous one by tools/make_sync.py."""
