"""Just enough HTTP/2 to send a gRPC request as no well-behaved library would, and to see what comes back.

Header fields are sent as literals without Huffman coding (RFC 7541, 6.2.2), so that any bytes can be sent. Of the answer only
frames are understood, and of its header fields only whether some bytes occur: servers on gRPC's C++ library do not use Huffman
coding either. One request per connection.
"""

import dataclasses
import socket
import struct
import time

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_STREAM = 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _integer(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out, value = [most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def _field(name: bytes, value: bytes) -> bytes:
    return b"\0" + _integer(len(name), 7) + name + _integer(len(value), 7) + value


@dataclasses.dataclass
class Answer:
    headers: bytes = b""  # undecoded header blocks
    body: bytes = b""  # without gRPC's length
    ended: str = ""  # "trailers", "reset", "goaway" or "closed"
    seconds: float = 0

    def has_status(self, code: int) -> bool:
        """Whether the trailers say so."""
        number = str(code).encode()
        return b"grpc-status" + bytes([len(number)]) + number in self.headers


def call(address: str, method: str, message: bytes, fields=(), timeout: float = 30) -> Answer:
    """Sends one unary request and never anything after it but acknowledgements: no cancel, no reset, no end of connection.
    `method`: "/once.v1.IdempotencyService/Begin". `fields`: pairs of bytes, after the ones that gRPC needs."""
    block = b"".join(_field(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", address.encode()),
        (b"te", b"trailers"), (b"content-type", b"application/grpc"), *fields))
    # In frames of at most 16 KiB.
    blocks = [block[i : i + 16384] for i in range(0, len(block), 16384)]
    request = _frame(_HEADERS, _END_HEADERS if len(blocks) == 1 else 0, _STREAM, blocks[0])
    for i, more in enumerate(blocks[1:], 2):
        request += _frame(9, _END_HEADERS if i == len(blocks) else 0, _STREAM, more)  # CONTINUATION
    request += _frame(_DATA, _END_STREAM, _STREAM, b"\0" + struct.pack(">I", len(message)) + message)

    host, port = address.rsplit(":", 1)
    answer, start = Answer(), time.monotonic()
    with socket.create_connection((host, int(port)), timeout=timeout) as link:
        link.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + request)
        data = b""
        while not answer.ended:
            try:
                more = link.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                answer.ended = "closed"
            data += more
            data = _read_frames(link, data, answer)
    answer.seconds = time.monotonic() - start
    answer.body = answer.body[5:]
    return answer


def _read_frames(link: socket.socket, data: bytes, answer: Answer) -> bytes:
    while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
        kind, flags, payload, data = data[3], data[4], data[9:size], data[size:]
        if kind == _SETTINGS and not flags & _ACK:
            link.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            link.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _DATA:
            answer.body += payload
        elif kind == _HEADERS:
            answer.headers += payload
        elif kind == _RST_STREAM:
            answer.ended = answer.ended or "reset"
        elif kind == _GOAWAY:
            answer.ended = answer.ended or "goaway"
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            answer.ended = "trailers"
    return data
