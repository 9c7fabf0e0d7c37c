from pip import main

__all__ = ["main"]
