"""The contract's way through this package: both twins, against a private server."""

import asyncio

import cella
import cella.sync
from cella._values import decode_all

FIELDS = {
    "memory": "memory_limit", "timeout": "default_timeout", "pids": "pids_limit", "disk": "disk_limit",
    "output": "output_limit", "checkpoint": "checkpoint",
}
EXECUTORS = {
    "sandbox": cella.SandboxExecutor, "local": cella.LocalExecutor, "inprocess": cella.InProcessExecutor,
    "subprocess": cella.SubprocessExecutor, "container": cella.ContainerExecutor,
}


class PackageDriver:
    def __init__(self, twin, executor, capabilities):
        self.name = f"{twin}-{executor}"
        self.twin, self.executor = twin, executor
        self.capabilities = capabilities

    def open(self, settings, **fields):
        for key, value in settings.items():
            if key == "preload":
                fields["preload"] = value.split()
            elif key in FIELDS:
                fields[FIELDS[key]] = int(value) if key == "pids" else value
        if self.executor == "inprocess":
            # The application's own limits are those of its process.
            fields = {key: value for key, value in fields.items() if key == "default_timeout"}
        executor = EXECUTORS[self.executor](**fields)
        return (AsyncConversation if self.twin == "async" else Conversation)(executor)


class Conversation:
    """The methods that the contract asks for (see Session in the contract's drivers.py)."""

    def __init__(self, executor):
        self._session = self.make(executor)
        self.wait(self._session.open())

    def make(self, executor):
        return cella.sync.Session(executor)

    def wait(self, value):
        return value

    def each(self, stream):
        return stream

    def run(self, code, *, language, timeout=None, stdin=None, input=False, variables=None, replies=(), reactions=()):
        values = None if variables is None else decode_all(variables)
        if not (replies or reactions or input):
            options = {"language": language, "timeout": timeout, "stdin": stdin, "variables": values}
            return self.wait(self._session.run(code, **options)).document
        written, replies, reactions = "", list(replies), list(reactions)
        stream = self._session.stream(
            code, language=language, timeout=timeout, stdin=stdin, input=input, variables=values
        )
        for event in self.each(stream):
            if event.type == "input_request" and replies:
                self.wait(self._session.input(replies.pop(0)))
            elif event.type in ("stdout", "stderr"):
                written += event.text
                while reactions and reactions[0][0] in written:
                    self.wait(getattr(self._session, reactions.pop(0)[1])())
        return stream.result.document

    def operate(self, name, text):
        session = self._session
        try:
            if name in ("complete", "inspect"):
                return self.wait(getattr(session, name)(text))
            if name == "checkpoints":
                return {"checkpoints": self.wait(session.checkpoints())}
            if name in ("checkpoint", "rollback", "input"):
                self.wait(getattr(session, name)(text))
            elif name == "drop":
                self.wait(session.drop_checkpoint(text))
            else:
                self.wait({"reset": session.reset, "interrupt": session.interrupt, "cancel": session.cancel}[name]())
        except cella.ApiError as error:
            return {"error": {"code": error.code, "message": error.message}}
        return {"ok": True}

    def close(self):
        self._session.close()

    def abandon(self):
        self.close()


class AsyncConversation(Conversation):
    def __init__(self, executor):
        self._loop = asyncio.new_event_loop()
        super().__init__(executor)

    def make(self, executor):
        return cella.Session(executor)

    def wait(self, value):
        return self._loop.run_until_complete(value)

    def each(self, stream):
        async def following():
            return await stream.__anext__()

        while True:
            try:
                yield self.wait(following())
            except StopAsyncIteration:
                return

    def close(self):
        if not self._loop.is_closed():
            self.wait(self._session.aclose())
            self._loop.close()
