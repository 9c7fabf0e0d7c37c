"""HTTP/1.1 over a Unix socket with as little work as possible, so that the client does not measure itself."""

import json
import socket


class Refused(Exception):
    """An answer that was not hoped for."""


def request(method, path, document=None, accept=None):
    """The bytes of a request, to be made once and sent often."""
    body = b"" if document is None else json.dumps(document).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    if accept:
        head += f"Accept: {accept}\r\n"
    return head.encode() + b"\r\n" + body


def _length(head):
    begin = head.find(b"\r\nContent-Length: ")
    return 0 if begin < 0 else int(head[begin + 18 : head.index(b"\r\n", begin + 18)])


class Wire:
    """One connection. Requests are answered in turn; `feed` is for a loop that waits for many, `ask` waits itself."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(address))
        self._pending = b""

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def feed(self):
        """Reads once. (status, body) when an answer is whole, else nothing."""
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._pending += chunk
        end = self._pending.find(b"\r\n\r\n")
        if end < 0:
            return None
        whole = end + 4 + _length(self._pending[: end + 2])
        if len(self._pending) < whole:
            return None
        answer = int(self._pending[9:12]), self._pending[end + 4 : whole]
        self._pending = self._pending[whole:]
        return answer

    def ask(self, data):
        self.send(data)
        while (answer := self.feed()) is None:
            pass
        return answer

    def expect(self, data, *statuses):
        """The body, of an answer that must have one of these statuses."""
        status, body = self.ask(data)
        if status not in statuses:
            words = body[:500].decode(errors="replace")
            raise Refused(f"{data.split(b' HTTP', 1)[0].decode()}: {status} {words}")
        return body

    def follow(self, data, text):
        """Begins a stream and reads until it has said this; it stays open."""
        self.send(data)
        seen = b""
        while text not in seen or len(seen) < 12:
            chunk = self.socket.recv(1 << 16)
            seen += chunk
            if not chunk or (len(seen) >= 12 and seen[9:12] not in (b"200", b"101")):
                raise Refused(f"no stream: {seen[:500].decode(errors='replace')}")
