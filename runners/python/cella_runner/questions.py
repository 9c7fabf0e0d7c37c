"""input_request and its reply.

Any thread may ask while a run is on (asyncio.to_thread(input), say), but between runs only the main loop reads the
socket: a thread that waits for an answer when its run ends gives up, and close() waits until it has.
"""

import threading

from .channel import Channel

POLL_SECONDS = 0.05


class Questions:
    def __init__(self, channel: Channel):
        self._channel = channel
        self._lock = threading.Lock()
        self._waiting = 0
        self.open = False

    def ask(self, prompt: str, password: bool):
        """The answer, or None where there is none."""
        if not self.open or not self._channel.is_owner():
            return None
        self._waiting += 1
        try:
            with self._lock:
                self._channel.send({"type": "input_request", "prompt": prompt, "password": password})
                while self.open:
                    if self._channel.readable(POLL_SECONDS):
                        frame = self._receive()
                        if frame.get("type") == "interrupt":
                            self._channel.interrupted = frame.get("run")
                        if frame.get("type") == "input_reply":
                            return None if frame.get("eof") else str(frame.get("text", ""))
            return None
        finally:
            self._waiting -= 1

    def _receive(self):
        holding = self._channel.interrupts.hold()
        try:
            frame = self._channel.receive()
        finally:
            if holding:
                self._channel.interrupts.release()
        return {"type": "input_reply", "eof": True} if frame is None else frame

    def close(self):
        self.open = False
        if self._waiting:
            with self._lock:
                pass
