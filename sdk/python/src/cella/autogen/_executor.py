"""What both command line executors have in common: AutoGen's rules for blocks, files, functions and results."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor
from typing_extensions import Self

from cella.result import Result

from ._blocks import SUPPORTED_LANGUAGES, NotInWorkspace, command_of, file_of, normal_language, quiet_pip, to_bytes
from ._cancellation import Cancelled
from ._code_files import CodeFiles
from ._functions import PROMPT_TEMPLATE, UserFunction, module_text, name_of, packages_of, prompt
from ._places import Place, Places
from ._results import CANCELLED, CommandLineCodeResult, exit_code_of, text_of
from ._temporary import TemporaryDirectory


class _Call:
    """One call of execute_code_blocks, to be stopped by its token or by stop()."""

    def __init__(self, token: CancellationToken) -> None:
        self.loop = asyncio.get_running_loop()
        self.cancelled = Cancelled(token)
        # Not of asyncio: the executor may be stopped from another loop.
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()


class CommandLineExecutor(CodeExecutor):
    """Blocks become files of the working directory and run there, one after the other, each as a process of its own."""

    SUPPORTED_LANGUAGES: ClassVar[list[str]] = SUPPORTED_LANGUAGES
    FUNCTION_PROMPT_TEMPLATE: ClassVar[str] = PROMPT_TEMPLATE
    _PIP_FLAGS: ClassVar[Sequence[str]] = ()

    def __init__(
        self,
        timeout: float,
        work_dir: Path | str | None,
        functions: Sequence[UserFunction],
        functions_module: str,
        cleanup_temp_files: bool,
        virtual_env_context: SimpleNamespace | None,
    ) -> None:
        if timeout < 1:
            raise ValueError("Timeout must be greater than or equal to 1.")
        if not functions_module.isidentifier():
            raise ValueError("Module name must be a valid Python identifier")
        self._timeout = timeout
        self._functions = list(functions)
        self._functions_module = functions_module
        self._functions_are_ready = not self._functions
        self._set_up: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._cleanup_temp_files = cleanup_temp_files
        self._virtual_env_context = virtual_env_context
        self._temp_dir: TemporaryDirectory | None = None
        self._calls: set[_Call] = set()
        self._places = Places()
        self._work_dir = None if work_dir is None else Path(work_dir)
        if self._work_dir is not None:
            if self._work_dir.resolve() == Path.cwd().resolve():
                warnings.warn(
                    "Using the current directory as work_dir is deprecated.", DeprecationWarning, stacklevel=3
                )
            self._work_dir.mkdir(exist_ok=True)

    @property
    def timeout(self) -> float:
        """Seconds that one block may take."""
        return self._timeout

    @property
    def work_dir(self) -> Path:
        """Where code and its files are. Without one of the caller's it is temporary, until stop()."""
        if self._work_dir is not None:
            return self._work_dir
        if self._temp_dir is None:
            self._temp_dir = TemporaryDirectory("cella-")
        return Path(self._temp_dir.path)

    @property
    def functions(self) -> list[str]:
        """The names of the user's functions."""
        return [name_of(each) for each in self._functions]

    @property
    def functions_module(self) -> str:
        """The module that the user's functions are imported from."""
        return self._functions_module

    @property
    def cleanup_temp_files(self) -> bool:
        """Whether the files of the code are removed after each call."""
        return self._cleanup_temp_files

    def format_functions_for_prompt(self, prompt_template: str = PROMPT_TEMPLATE) -> str:
        """The user's functions for a model; the template has `$module_name` and `$functions`."""
        return prompt(self._functions, self._functions_module, prompt_template)

    # AutoGen's base class has these only from 0.5 on.
    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Makes the temporary directory. Everything else comes with the first call."""
        _ = self.work_dir

    async def stop(self) -> None:
        """Ends what is on, then removes what is temporary."""
        await self._end_calls()
        self._forget_temporary()

    async def _end_calls(self) -> None:
        """And what they left behind."""
        for call in list(self._calls):
            # In a loop that was closed in the middle of it, nothing goes on and nothing will end.
            if not call.loop.is_closed():
                call.cancelled.tell()
                await asyncio.wrap_future(call.ended)
        await self._places.close()

    def _forget_temporary(self) -> None:
        if self._temp_dir is not None:
            self._temp_dir.remove()
            self._temp_dir = None
            # The module of the user's functions was there.
            self._functions_are_ready = not self._functions

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CommandLineCodeResult:
        """Runs the blocks in order, up to the first that fails. A cancelled token ends them: exit code 125, with what
        was written so far."""
        with self._called(cancellation_token) as call:
            if not self._functions_are_ready:
                async with self._set_up.setdefault(call.loop, asyncio.Lock()):
                    if not self._functions_are_ready:
                        await self._set_up_functions(call)
            return await self._execute(code_blocks, call)

    @contextlib.contextmanager
    def _called(self, token: CancellationToken) -> Iterator[_Call]:
        call = _Call(token)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)
            call.ended.set_result(None)

    async def _execute(self, blocks: Sequence[CodeBlock], call: _Call) -> CommandLineCodeResult:
        root = self.work_dir.resolve()
        files = CodeFiles(root)
        output, exit_code = "", 0
        try:
            async with contextlib.AsyncExitStack() as stack:
                place: Place | None = None
                for block in blocks:
                    language = normal_language(block.language)
                    if language not in self.SUPPORTED_LANGUAGES:
                        output, exit_code = f"{output}\nunknown language {language}", 1
                        break
                    code = quiet_pip(block.code, language)
                    try:
                        relative = file_of(code, language, root)
                        files.write(relative, to_bytes(code))
                    except NotInWorkspace:
                        return CommandLineCodeResult(1, "Filename is not in the workspace", None)
                    command = [*self._command(language), self._seen(root, relative)]
                    if call.cancelled.is_set():
                        output, exit_code = output + "\nCancelled", CANCELLED
                        break
                    if place is None:
                        place = await stack.enter_async_context(self._places.one(self._policy(root)))
                    program = str(relative) if language == "python" else None
                    result = await place.run(
                        command, self._seen(root), self._timeout, call.cancelled, self._exports(), program
                    )
                    output, exit_code = output + text_of(result), exit_code_of(result)
                    if exit_code != 0:
                        break
            return CommandLineCodeResult(exit_code, output, files.first)
        finally:
            for failure in files.release(remove=self._cleanup_temp_files):
                logging.error(f"Failed to delete temporary file {failure}")  # in AutoGen's words

    async def _set_up_functions(self, call: _Call) -> None:
        root = self.work_dir.resolve()
        text = module_text(self._functions)
        module = CodeFiles(root)
        module.write(Path(f"{self._functions_module}.py"), to_bytes(text))
        module.release(remove=False)
        packages = packages_of(self._functions)
        if packages:
            await self._install(packages, root, call)
        loaded = await self._execute([CodeBlock(code=text, language="python")], call)
        if loaded.exit_code != 0:
            raise ValueError(f"Functions failed to load: {loaded.output}")
        self._functions_are_ready = True

    async def _pip(self, words: Sequence[str], root: Path, policy: dict[str, Any], call: _Call) -> Result:
        command = [self._python(), *self._PIP_FLAGS, "-m", "pip", "--disable-pip-version-check", *words]
        async with self._places.one(policy) as place:
            result = await place.run(command, self._seen(root), self._timeout, call.cancelled, self._exports())
        if result.status == "timeout":
            raise ValueError("Pip install timed out")
        if result.status == "cancelled":
            raise ValueError("Pip install was cancelled")
        return result

    async def _pip_install(self, words: Sequence[str], root: Path, policy: dict[str, Any], call: _Call) -> None:
        result = await self._pip(["install", *words], root, policy, call)
        if exit_code_of(result) != 0:
            raise ValueError(f"Pip install failed. {result.stdout}, {result.stderr}")

    @abstractmethod
    async def _install(self, packages: Sequence[str], root: Path, call: _Call) -> None:
        """Makes packages importable for the code."""

    @abstractmethod
    def _policy(self, root: Path) -> dict[str, Any]:
        """Of the session that a call's blocks run in."""

    @abstractmethod
    def _python(self) -> str:
        """The interpreter, as the code sees it."""

    @abstractmethod
    def _seen(self, root: Path, relative: Path | None = None) -> str:
        """The working directory, or a file in it, as the code sees it."""

    def _command(self, language: str) -> list[str]:
        """What runs a file of this language."""
        return command_of(language, self._python(), self._search_path())

    def _exports(self) -> Mapping[str, str]:
        """Variables that do not fit into the policy."""
        return {}

    def _search_path(self) -> str:
        """Where programs are looked for."""
        return os.environ.get("PATH", os.defpath)

