"""A TCP link between a consumer and a server that a test can break: it forwards bytes and knows nothing of what they mean.

    link = Link(server.address)
    link.hold_answers()      # what the server says does not arrive,
    link.cut()               # and never will: the connection is gone; the next one works
    link.lead_to(other.address)   # as a balancer would

Thread-safe. Threads: one that accepts, two for each connection; all end with close().
"""

import contextlib
import socket
import threading


class Link:
    def __init__(self, target: str):
        self.lead_to(target)
        self._changed = threading.Condition()
        self._holding = False
        self._connections: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, target: str) -> None:
        """Where later connections go."""
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))

    def hold_answers(self) -> None:
        with self._changed:
            self._holding = True

    def cut(self) -> None:
        """What is held is lost; later connections are whole."""
        with self._changed:
            connections, self._connections, self._holding = self._connections, [], False
            for pair in connections:
                self._close(*pair)
            self._changed.notify_all()

    def close(self) -> None:
        # A listener that is only closed does not wake accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    @staticmethod
    def _close(*sides: socket.socket) -> None:
        for side in sides:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:  # the server is down: so is the link
                client.close()
            else:
                with self._changed:
                    self._connections.append((client, server))
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if answers:
                    self._hold(source)
                sink.sendall(data)
        self._close(source, sink)

    def _hold(self, source: socket.socket) -> None:
        with self._changed:
            if self._holding:
                self._changed.wait_for(lambda: not self._holding)
                if all(server is not source for _, server in self._connections):
                    raise OSError("cut")
