"""AutoGen's JupyterCodeExecutor: the same cells in a real kernel, with ends that are real."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
import uuid
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autogen_core import CancellationToken, Component
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from pydantic import BaseModel
from typing_extensions import Self

from cella.config import SubprocessConfig, SubprocessExecutor
from cella.errors import ApiError

from ._blocks import quiet_pip
from ._environment import passed_on

if TYPE_CHECKING:
    from cella._async.session import Session

# The names under which Jupyter knows the interpreter that runs it.
_OWN_KERNELS = ("python3", "python")


@dataclass
class JupyterCodeResult(CodeResult):
    """The result of all blocks, and the files that their images and pages were written to."""

    output_files: list[Path]


class JupyterCodeExecutorConfig(BaseModel):
    """What a JupyterCodeExecutor is made of."""

    kernel_name: str = "python3"
    timeout: int = 60
    output_dir: str | None = None


def _dead_kernel() -> Exception:
    try:
        from nbclient.exceptions import DeadKernelError  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        return RuntimeError("Kernel died")
    return DeadKernelError("Kernel died")  # type: ignore[no-any-return,unused-ignore]


class JupyterCodeExecutor(CodeExecutor, Component[JupyterCodeExecutorConfig]):
    """Runs code blocks in a Jupyter kernel on this machine, without a jail: for code that you trust. A drop-in for
    AutoGen's executor of the same name, without nbclient.

    A time-out raises `asyncio.TimeoutError` and a cancelled token `asyncio.CancelledError`. Both stop the code, and the
    next block can run. A kernel that dies raises an error once; the next block gets a fresh kernel.

    Args:
        kernel_name: an installed kernel; "python3" is the interpreter that runs this program.
        timeout: seconds that one block may take; at least 1.
        output_dir: where images and pages are written; a temporary directory by default.
    """

    component_config_schema = JupyterCodeExecutorConfig
    component_provider_override = "cella.autogen.JupyterCodeExecutor"

    def __init__(
        self, kernel_name: str = "python3", timeout: int = 60, output_dir: Path | str | None = None
    ) -> None:
        if timeout < 1:
            raise ValueError("Timeout must be greater than or equal to 1.")
        self._output_dir = Path(tempfile.mkdtemp()) if output_dir is None else Path(output_dir)
        self._output_dir.mkdir(exist_ok=True, parents=True)
        self._kernel_name = kernel_name
        self._timeout = timeout
        self._session: Session | None = None

    @property
    def output_dir(self) -> Path:
        """Where images and pages are written."""
        if self._output_dir == Path("."):
            warnings.warn("Using the current directory as output_dir is deprecated", DeprecationWarning, stacklevel=2)
        return self._output_dir

    # AutoGen's base class has these only from 0.5 on.
    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts the kernel."""
        if self._session is not None:
            return
        from cella._async.session import Session

        own = self._kernel_name in _OWN_KERNELS
        in_venv = sys.prefix != sys.base_prefix
        config = SubprocessConfig(
            python_version=None if in_venv else sys.executable,
            venv_dir=sys.prefix if in_venv else None,
            allow_runtime_deps=False,
            system_packages=True,
            kernel=None if own else self._kernel_name,
            default_timeout=None,
            work_dir=os.getcwd(),
            env=passed_on(os.environ),
            memory_limit="1024t",
            pids_limit=4_000_000,
            disk_limit="1024t",
            cpu_time_limit="365d",
            output_limit="64m",
            best_effort=True,
        )
        session = Session(SubprocessExecutor(config))
        try:
            await session.open()
        except ApiError as error:
            await session.aclose()
            if "unknown kernel" in error.message:
                raise self._no_such_kernel() from error
            raise
        self._session = session

    def _no_such_kernel(self) -> Exception:
        try:
            from jupyter_client.kernelspec import (  # type: ignore[import-not-found,unused-ignore]
                NoSuchKernel,
            )
        except ModuleNotFoundError:
            return KeyError(self._kernel_name)
        return NoSuchKernel(self._kernel_name)  # type: ignore[no-any-return,unused-ignore]

    async def stop(self) -> None:
        """Ends the kernel and all that it started."""
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()

    async def restart(self) -> None:
        """A fresh kernel."""
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> JupyterCodeResult:
        """Runs the blocks in order, up to the first that fails."""
        outputs: list[str] = []
        files: list[Path] = []
        exit_code = 0
        for block in code_blocks:
            task = asyncio.create_task(self._execute(quiet_pip(block.code, block.language)))
            cancellation_token.link_future(task)
            # The task is cancelled at the limit, and with it its run.
            result = await asyncio.wait_for(task, self._timeout)
            exit_code = result.exit_code
            outputs.append(result.output)
            files.extend(result.output_files)
            if exit_code != 0:
                break
        return JupyterCodeResult(exit_code=exit_code, output="\n".join(outputs), output_files=files)

    async def _execute(self, code: str) -> JupyterCodeResult:
        if self._session is None:
            raise RuntimeError("Executor must be started before executing cells")
        outputs: list[str] = []
        files: list[Path] = []
        writing = ""  # the stream that the last output belongs to
        async with self._session.stream(code, timeout=self._timeout + 60) as stream:
            async for event in stream:
                if event.type in ("stdout", "stderr"):
                    # What is written to one stream in a row is one output, as in a notebook.
                    if writing == event.type:
                        outputs[-1] += event.text
                    else:
                        outputs.append(event.text)
                    writing = event.type
                    continue
                writing = ""
                if event.document.get("clear"):
                    outputs = []
                    for path in files:
                        path.unlink(missing_ok=True)
                    files = []
                elif event.type == "error":
                    outputs.append(str(event.document.get("traceback") or ""))
                elif event.type in ("display", "value"):
                    self._take(event.document.get("mime") or {}, outputs, files)
        result = stream.result
        if result is None:
            raise RuntimeError("the run ended without a result")
        if result.status == "timeout":
            raise asyncio.TimeoutError
        if result.state == "lost":
            raise _dead_kernel()
        return JupyterCodeResult(exit_code=result.exit_code, output="\n".join(outputs), output_files=files)

    def _take(self, mime: Mapping[str, str], outputs: list[str], files: list[Path]) -> None:
        for kind in _in_order(mime):
            content = mime[kind]
            if kind == "text/plain":
                outputs.append(content)
            elif kind == "image/png":
                files.append(self._write("png", base64.b64decode(content)))
            elif kind == "text/html":
                files.append(self._write("html", content.encode()))
            elif kind == "image/jpeg":
                pass  # AutoGen's leaves it out
            else:
                is_json = kind == "application/json" or kind.endswith("+json")
                outputs.append(json.dumps(json.loads(content) if is_json else content))

    def _write(self, extension: str, content: bytes) -> Path:
        path = self._output_dir / f"{uuid.uuid4().hex}.{extension}"
        path.write_bytes(content)
        return path.absolute()

    def _to_config(self) -> JupyterCodeExecutorConfig:
        return JupyterCodeExecutorConfig(
            kernel_name=self._kernel_name, timeout=self._timeout, output_dir=str(self.output_dir)
        )

    @classmethod
    def _from_config(cls, config: JupyterCodeExecutorConfig) -> Self:
        return cls(
            kernel_name=config.kernel_name,
            timeout=config.timeout,
            output_dir=Path(config.output_dir) if config.output_dir else None,
        )


def _in_order(kinds: Iterable[str]) -> list[str]:
    """Text first, as IPython sends it."""
    return sorted(kinds, key=lambda kind: kind != "text/plain")
