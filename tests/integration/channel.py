"""The client's side of the WebSocket of a session, without the Python package."""

import base64
import json
import os
import struct

from server import raw_connection


class Channel:
    """The client's side of RFC 6455, for text messages."""

    def __init__(self, client, session):
        self.kept = []
        self.connection = raw_connection(client.address)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {session.path('channel')} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}",
            *(f"{name}: {value}" for name, value in client.headers.items()), "", "",
        ]
        self.connection.sendall("\r\n".join(lines).encode())
        self.stream = self.connection.makefile("rb")
        self.status = int(self.stream.readline().split()[1])
        while self.stream.readline() not in (b"\r\n", b""):
            pass

    def send(self, **message):
        payload, mask = json.dumps(message).encode(), os.urandom(4)
        size = len(payload)
        if size < 126:
            head = bytes([0x81, 0x80 | size])
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x81, 0x80 | 126, size)
        else:
            head = struct.pack(">BBQ", 0x81, 0x80 | 127, size)
        self.connection.sendall(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)))

    def receive(self):
        while True:
            opcode, size = self.stream.read(2)
            if size >= 126:
                size = int.from_bytes(self.stream.read(2 if size == 126 else 8), "big")
            payload = self.stream.read(size)
            if opcode & 0x0F == 1:
                return json.loads(payload)

    def until(self, **wanted):
        """The next message that has these keys with these values. Others are kept: a call may come before the word that
        its run was accepted."""
        for at, message in enumerate(self.kept):
            if all(message.get(key) == value for key, value in wanted.items()):
                return self.kept.pop(at)
        while True:
            message = self.receive()
            if all(message.get(key) == value for key, value in wanted.items()):
                return message
            self.kept.append(message)

    def finished(self):
        while True:
            if self.receive().get("event", {}).get("type") == "finished":
                return

    def close(self):
        self.stream.close()
        self.connection.close()
