"""A TCP proxy between a client and a server, whose connections a test can cut."""

import contextlib
import socket
import threading


class Proxy:
    def __init__(self, target):
        host, _, port = target.partition("://")[2].rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs, self.accepted = [], 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._pairs.append((near, far))
            self.accepted += 1
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._copy, args=(source, sink), daemon=True)
                thread.start()
                self._threads.append(thread)

    @staticmethod
    def _copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Ends every connection that is open now."""
        for pair in self._pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
        for pair in self._pairs:
            for each in pair:
                each.close()
