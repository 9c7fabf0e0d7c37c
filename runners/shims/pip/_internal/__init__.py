"""Scripts that pip itself has installed import this."""

from pip import main

__all__ = ["main"]
