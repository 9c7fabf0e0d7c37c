from pip import main

cli = main  # as scripts of later versions of pip name it

__all__ = ["cli", "main"]
