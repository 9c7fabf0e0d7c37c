"""How a run ended, in AutoGen's words."""

from __future__ import annotations

from dataclasses import dataclass

from autogen_core.code_executor import CodeResult

from cella.result import Result

TIMEOUT = 124
CANCELLED = 125


@dataclass
class CommandLineCodeResult(CodeResult):
    """The result of all blocks. `code_file` is the file of the first one."""

    code_file: str | None


def exit_code_of(result: Result) -> int:
    """A signal is negative, as with Python's subprocess; what was ended from outside has AutoGen's codes."""
    if result.status == "timeout":
        return TIMEOUT
    if result.status == "cancelled":
        return CANCELLED
    if result.status in ("crashed", "limit") and result.signal is not None:
        return -result.signal
    return result.exit_code


def text_of(result: Result) -> str:
    """What the block wrote, errors first as with AutoGen; then why it ended, unless it ended by itself."""
    written = result.stderr + result.stdout
    if result.status == "timeout":
        return written + "\nTimeout"
    if result.status == "cancelled":
        return written + "\nCancelled"
    if result.status in ("oom", "limit", "rejected") and result.error is not None:
        return f"{written}\n{result.error.message}"
    return written
