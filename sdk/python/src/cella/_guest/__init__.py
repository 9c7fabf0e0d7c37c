"""The runner's Python code, for the executor that runs code in this process. One source serves both.

A wheel carries it as `cella._guest.cella_runner`; in a checkout it is in runners/python.
"""

from __future__ import annotations

import os

if not os.path.isdir(os.path.join(__path__[0], "cella_runner")):
    _up = os.path.join(__path__[0], *[os.pardir] * 5, "runners", "python")
    if os.path.isdir(os.path.join(_up, "cella_runner")):
        __path__.append(os.path.abspath(_up))
