"""An executor through the HTTP API. The driver's server starts with the first session and serves all of its cases."""

import tempfile

from drivers import CommandLine, Driver, Session
from integration.server import Server
from support.cella import Cella

ANYTHING = {"memory": "64g", "timeout": "1h", "pids": 4096, "disk": "64g", "output": "1g"}


class Http(Driver):
    rolls_back = False

    def __init__(self, executor, capabilities, binary, environment, different=frozenset()):
        self.name = executor
        self.label = f"{executor}-http"
        self.capabilities = capabilities
        self.different = different
        self._cella = Cella(binary)
        self._environment = environment
        self._directory = self._server = None

    def _client(self):
        if self._server is None:
            self._directory = tempfile.TemporaryDirectory(prefix="cs-", dir="/tmp")
            config = {"allow": {"executors": [self.name], "runtime_deps": True}, "maxima": ANYTHING, "policy": {"executor": self.name}}
            config["policy"]["python"] = "/usr/bin/python3"
            self._server = Server(self._cella, self._environment, self._directory.name, config=config).wait_ready()
        return self._server.client()

    def open(self, settings):
        policy = {"executor": self.name}
        limits = {key: int(value) if key == "pids" else value for key, value in settings.items() if is_limit(key)}
        if limits:
            policy["limits"] = limits
        return _Conversation(self._client().open(**policy))

    def end(self):
        """After the last case: the server must end well, and nothing of it may stay."""
        if self._server is not None:
            try:
                self._server.stop()
            finally:
                self._server.release()
                self._directory.cleanup()


def is_limit(key):
    return key in CommandLine.FLAGS and key != "checkpoint"


class _Conversation(Session):
    def __init__(self, session):
        self._session = session
        self._open = True

    def run(self, code, *, language, timeout=None, stdin=None, input=False, variables=None, replies=(), reactions=()):
        more = {"language": language, "timeout": timeout, "stdin": stdin, "input": input or None, "variables": variables}
        more = {key: value for key, value in more.items() if value is not None}
        if not (replies or reactions):
            return self._session.run(code, **more)
        replies, reactions, written, run = list(replies), list(reactions), "", None
        with self._session.stream(code, **more) as events:
            for event in events:
                run = run or event.get("run")
                if event["type"] == "input_request" and replies:
                    reply = replies.pop(0)
                    answer = {"eof": True} if reply is None else {"text": reply}
                    self._session.client.post(self._session.path("input"), **answer).expect(200)
                elif event["type"] in ("stdout", "stderr"):
                    written += event["text"]
                    while reactions and reactions[0][0] in written:
                        self._react(reactions.pop(0)[1], run)
        return self._session.ended(run)

    def _react(self, operation, run):
        if operation == "cancel":
            self._session.cancel(run)
        else:
            self._session.client.post(self._session.path(operation)).expect(200)

    def operate(self, name, text):
        session = self._session
        if name in ("complete", "inspect"):
            answer = session.client.post(session.path(name), code=text)
        elif name == "input":
            answer = session.client.post(session.path(name), text=text)
        elif name == "checkpoints":
            answer = session.client.get(session.path(name))
        elif name == "checkpoint":
            answer = session.client.post(session.path("checkpoints"), name=text)
        elif name == "rollback":
            answer = session.client.post(session.path("checkpoints", text, "rollback"))
        elif name == "drop":
            answer = session.client.ask("DELETE", session.path("checkpoints", text))
        elif name == "cancel":
            return {"ok": True}  # names a run, and none is on
        else:
            answer = session.client.post(session.path(name))
        if answer.status >= 400:
            return answer.json()
        return {"ok": True, **(answer.json() if answer.body else {})}

    def close(self):
        self._open = False
        assert self._session.delete().status == 204

    def abandon(self):
        if self._open:
            self._session.delete()
