"""The Python runner: keeps one session's state, runs its cells, and speaks the runner protocol (runners/README.md).

It lives in the same process as the code it runs. Nothing here is a protection against that code; all of it is care for
ordinary accidents: closed descriptors, replaced streams, reprs that raise, forks that come back.
"""
