"""A TCP gate before a MySQL or MariaDB server: forwards, and breaks the link at a chosen moment of a chosen transaction.

    gate = TcpGate("127.0.0.1", 3306)  # statements=False: before any other server, without knowing the protocol
    cut = gate.cut(Moment.AFTER_COMMIT, markers=event_markers(b"event-1"))
    ...                               # onced, with --mysql-uri through gate.port, handles event-1
    cut.wait()                        # it happened
    with gate.stalled(): ...          # nothing moves, nothing is refused

It knows of the protocol that a packet is 3 bytes of length (little endian), a sequence number and the payload, and that a
statement is a packet with sequence number 0 and payload 0x03 + text, or 0x17 + the values of a prepared one. That is enough as long as nobody encrypts or compresses.

Thread-safe. Threads: one that accepts, two for each link; all end with close().
"""

import contextlib
import enum
import socket
import threading

_STATEMENTS = (0x03, 0x17)
_HEADER = 4


class Moment(enum.Enum):
    """Where a link is cut. The database has the transaction in those marked "committed" and in no other."""

    IN_STATEMENT = "half of the transaction's first statement is forwarded"
    BEFORE_COMMIT = "COMMIT is not forwarded"
    IN_COMMIT = "half of the COMMIT packet is forwarded"
    AFTER_COMMIT = "COMMIT is forwarded and answered, the answer is kept back (committed)"
    IN_ANSWER = "half of the answer to COMMIT is handed on (committed)"

    @property
    def committed(self) -> bool:
        return self in (Moment.AFTER_COMMIT, Moment.IN_ANSWER)


def event_markers(event_id: bytes) -> tuple[bytes, bytes]:
    """How onced's statements name an event id: in their text, or as a value that is bound."""
    return b"x'" + event_id.hex().encode() + b"'", bytes([len(event_id)]) + event_id


class Cut:
    """An order to cut links. Made by TcpGate.cut()."""

    def __init__(self, moment: Moment, markers: tuple[bytes, ...], times: int, then_refuse: bool):
        self.moment = moment
        self.markers = markers
        self.then_refuse = then_refuse
        self._left = times
        self._done = threading.Semaphore(0)
        self._lock = threading.Lock()

    def marks(self, statement: bytes) -> bool:
        return any(marker in statement for marker in self.markers)

    def take(self) -> bool:
        with self._lock:
            if self._left == 0:
                return False
            self._left -= 1
            return True

    def report(self) -> None:
        self._done.release()

    def wait(self, timeout: float = 20) -> None:
        """Until one more cut has happened."""
        assert self._done.acquire(timeout=timeout), f"no link was cut ({self.moment.value}) within {timeout} s"


class _Link:
    """One connection through the gate."""

    def __init__(self, gate: "TcpGate", client: socket.socket, number: int):
        self.gate = gate
        self.number = number
        self.client = client
        self.server = socket.create_connection(gate.target, timeout=10)
        for side in (self.client, self.server):
            side.settimeout(None)
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.transaction = []  # statements since the last COMMIT or ROLLBACK
        self.answer_cut = None  # a cut that waits for the answer to a COMMIT

    def start(self) -> None:
        for pump in (self._pump_up, self._pump_down):
            threading.Thread(target=self._run, args=(pump,), daemon=True).start()

    def close(self) -> None:
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _run(self, pump) -> None:
        with contextlib.suppress(OSError):
            pump()
        self.close()
        self.gate._forget(self)

    def _pump_up(self) -> None:
        if not self.gate.statements:
            while data := self.client.recv(1 << 16):
                self.gate._pass("up")
                self.server.sendall(data)
            return
        pending = b""
        while data := self.client.recv(1 << 16):
            pending += data
            while (size := _packet_size(pending)) and len(pending) >= size:
                packet, pending = pending[:size], pending[size:]
                self.gate._pass("up")
                if not self._send_up(packet):
                    return

    def _send_up(self, packet: bytes) -> bool:
        """False where the link is to be cut."""
        is_statement = packet[3] == 0 and packet[_HEADER] in _STATEMENTS
        text = packet[_HEADER + 1 :] if is_statement else b""
        if not is_statement:
            self.server.sendall(packet)
            return True
        self.gate.on_statement(self.number, text)
        ends = text in (b"COMMIT", b"ROLLBACK")
        cut = self.gate._cut_for(text, self.transaction)
        if ends:
            self.transaction.clear()
        else:
            self.transaction.append(text)
        if cut is None:
            self.server.sendall(packet)
            return True
        if cut.moment.committed:
            self.answer_cut = cut
            self.server.sendall(packet)
            return True
        if cut.moment in (Moment.IN_STATEMENT, Moment.IN_COMMIT):
            self.server.sendall(packet[: len(packet) // 2])
        self._cut(cut)
        return False

    def _pump_down(self) -> None:
        while data := self.server.recv(1 << 16):
            self.gate._pass("down")
            if self.answer_cut is None:
                self.client.sendall(data)
                continue
            # The whole answer first: then it is certain that the database has committed.
            while (size := _packet_size(data)) == 0 or len(data) < size:
                data += self.server.recv(1 << 16)
            if self.answer_cut.moment is Moment.IN_ANSWER:
                self.client.sendall(data[: len(data) // 2])
            self._cut(self.answer_cut)
            return

    def _cut(self, cut: Cut) -> None:
        if cut.then_refuse:
            self.gate.refuse()
        self.close()
        cut.report()


def _packet_size(data: bytes) -> int:
    """With its header; 0 where that is not there yet."""
    return int.from_bytes(data[:3], "little") + _HEADER if len(data) >= _HEADER else 0


class TcpGate:
    def __init__(self, host: str, port: int, statements: bool = True):
        self.target = (host, port)
        self.statements = statements
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._links: list[_Link] = []
        self._cuts: list[Cut] = []
        self._stalled: set[str] = set()
        self._held: list[str] = []  # directions of pumps that have something and may not pass it
        self._open = True
        self._refusing = False
        self.connections = 0  # so far
        self.on_statement = lambda link, text: None  # called with the link's number, from 1, and each statement's text
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what a test does ----

    def cut(self, moment: Moment, markers: tuple[bytes, ...], times: int = 1, then_refuse: bool = False) -> Cut:
        """Cuts the next `times` links at `moment` of a transaction in which a statement contains one of `markers`. With
        `then_refuse` the gate is closed for new connections in the same moment."""
        order = Cut(moment, markers, times, then_refuse)
        with self._lock:
            self._cuts.append(order)
        return order

    def stall(self, *directions: str) -> None:
        """Nothing is forwarded any more ("up": to the server, "down": from it; default both) until resume(). Connections stay."""
        with self._changed:
            self._stalled = set(directions or ("up", "down"))

    def resume(self) -> None:
        with self._changed:
            self._stalled = set()
            self._changed.notify_all()

    @contextlib.contextmanager
    def stalled(self, *directions: str):
        self.stall(*directions)
        try:
            yield self
        finally:
            self.resume()

    def wait_held(self, links: int, direction: str = "up", timeout: float = 20) -> None:
        """Until so many links have something to forward that the stall keeps back."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._held.count(direction) >= links, timeout)
            assert reached, f"only {self._held.count(direction)} of {links} links wait to send {direction}"

    def refuse(self) -> None:
        """New connections are closed at once, until admit()."""
        with self._lock:
            self._refusing = True

    def admit(self) -> None:
        with self._lock:
            self._refusing = False

    def cut_all(self) -> None:
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def close(self) -> None:
        self.resume()
        with self._lock:
            self._open = False
        # A listener that is only closed does not wake accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        self.cut_all()
        with self._changed:
            self._changed.wait_for(lambda: not self._links, timeout=10)

    # ---- what links ask ----

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                wanted = self._open and not self._refusing
                self.connections += 1
                number = self.connections
            if not wanted:
                client.close()
                continue
            try:
                link = _Link(self, client, number)
            except OSError:  # the server is down: so is the gate
                client.close()
                continue
            with self._lock:
                self._links.append(link)
            link.start()

    def _forget(self, link: _Link) -> None:
        with self._changed:
            if link in self._links:
                self._links.remove(link)
            self._changed.notify_all()

    def _pass(self, direction: str) -> None:
        """Blocks while the gate is stalled in this direction."""
        with self._changed:
            if direction not in self._stalled:
                return
            self._held.append(direction)
            self._changed.notify_all()
            self._changed.wait_for(lambda: direction not in self._stalled)
            self._held.remove(direction)

    def _cut_for(self, statement: bytes, transaction: list[bytes]) -> Cut | None:
        with self._lock:
            for cut in self._cuts:
                if cut.moment is Moment.IN_STATEMENT:
                    hit = cut.marks(statement)
                else:
                    hit = statement == b"COMMIT" and any(cut.marks(earlier) for earlier in transaction)
                if hit and cut.take():
                    return cut
        return None
