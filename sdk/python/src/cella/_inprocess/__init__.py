"""Runs code in this process, in a thread of its own for each session. There is no isolation: for trusted code only."""
