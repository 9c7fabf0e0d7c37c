"""What the package tells its user beside answers, on the logger `cella`."""

from __future__ import annotations


def tell(text: str) -> None:
    import logging

    logging.getLogger("cella").warning(text)
