"""The consumers as programs, and what tests say to them. See python/drive.py for the lines that are exchanged."""

import base64
import contextlib
import dataclasses
import fcntl
import itertools
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import threading
import uuid

from support.stubs import BINARY_DIR, ROOT

HERE = pathlib.Path(__file__).parent
WIRE = HERE / "wire"
PROTOS = [*sorted((ROOT / "proto" / "once" / "v1").glob("*.proto")), *sorted(WIRE.rglob("*.proto"))]
PATIENCE = 60
SEND_ONCE = -3600  # as `give_up_after`: the time for repeats is over whatever wait was asked for


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def raw(text: str) -> bytes:
    return base64.b64decode(text)


def duration(seconds: float) -> dict:
    nanos = round(seconds * 1e9)
    return {"seconds": str(nanos // 10**9), "nanos": nanos % 10**9}


def seconds(shown: dict) -> float:
    return int(shown["seconds"]) + shown["nanos"] / 1e9


def new_attempt() -> bytes:
    return uuid.uuid4().bytes


# ---- getting ready what a user of the example gets ready ----


@contextlib.contextmanager
def _prepared(folder: pathlib.Path, sources: list[pathlib.Path]):
    """Yields whether `folder` has to be made (again). Several test programs may want it at once."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp, wanted = folder / "stamp", "\n".join(f"{path} {path.stat().st_mtime_ns}" for path in sources)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = not stamp.exists() or stamp.read_text() != wanted
        yield stale
        if stale:
            stamp.write_text(wanted)


def python_command(script: pathlib.Path = HERE / "python" / "drive.py") -> list[str]:
    folder = BINARY_DIR / "consumers" / "python"
    with _prepared(folder, PROTOS) as stale:
        if stale:
            subprocess.run(
                ["protoc", f"-I{ROOT / 'proto'}", f"-I{WIRE}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                 f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}", *map(str, PROTOS)],
                check=True,
            )
    return ["/usr/bin/env", f"PYTHONPATH={folder}", "/usr/bin/python3", str(script)]


class NodeUnavailable(Exception):
    """Why there is no Node consumer on this machine."""


def node_command() -> list[str]:
    folder = BINARY_DIR / "consumers" / "node"
    sources = [path for path in sorted((HERE / "node").iterdir()) if path.is_file()]
    with _prepared(folder, sources) as stale:
        if stale:
            for path in sources:
                shutil.copyfile(path, folder / path.name)
            _npm_ci(folder)
    return ["node", str(folder / "drive.mjs"), str(ROOT / "proto"), str(WIRE)]


def _npm_ci(folder: pathlib.Path) -> None:
    lock = (folder / "package-lock.json").read_text()
    installed = folder / "installed-lock.json"
    if installed.exists() and installed.read_text() == lock:
        return
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise NodeUnavailable(f"{program} is not installed")
    npm = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
    if npm.returncode != 0:
        raise NodeUnavailable(f"npm cannot install the pinned packages: {npm.stderr.strip()[-500:]}")
    installed.write_text(lock)


# ---- a program ----


class Program:
    """A process in which any number of consumers live. Thread-safe."""

    def __init__(self, language: str, command: list[str], log: pathlib.Path):
        self.language = language
        self.log = log
        self._ids = itertools.count(1)
        self._inboxes: dict[int, queue.SimpleQueue] = {}
        self._said = threading.Condition()
        environment = {**os.environ, "no_grpc_proxy": "127.0.0.1,localhost"}
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
        self._writing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            said = json.loads(line)
            with self._said:
                self._inboxes[said["id"]].put(said)
                self._said.notify_all()
        for inbox in list(self._inboxes.values()):
            inbox.put({"died": True})

    def send(self, command: dict) -> "Command":
        command = {"id": next(self._ids), **command}
        inbox = self._inboxes[command["id"]] = queue.SimpleQueue()
        self.write(command)
        return Command(self, command["id"], inbox)

    def wait_any(self, commands: list["Command"]) -> "Command":
        """The first of these that has something to say."""
        with self._said:
            assert self._said.wait_for(lambda: any(not command.inbox.empty() for command in commands), PATIENCE)
            return next(command for command in commands if not command.inbox.empty())

    def write(self, command: dict) -> None:
        with self._writing:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()

    def connect(self, server: str, token: str, name: str = "", handler_version: str = "", lease: float = 30,
                give_up_after: float = SEND_ONCE) -> "Consumer":
        """Without `give_up_after` a call is sent once, so that the test sees its error."""
        handle = f"consumer-{next(self._ids)}"
        self.send({"do": "connect", "as": handle, "server": server, "token": token, "name": name or self.language,
                   "handler_version": handler_version, "lease": lease, "give_up_after": give_up_after}).answer()
        return Consumer(self, handle, name or self.language)

    def kill(self) -> None:
        """As the machine would: without a word to anyone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class CallFailed(Exception):
    """The call ended with an error, as the consumer's language sees it."""

    def __init__(self, error: dict):
        super().__init__(f"{error['code']} {error['reason']}: {error['message']}")
        self.error = error
        self.code, self.message, self.repeatable = error["code"], error["message"], error["repeatable"]
        self.reason, self.domain, self.metadata = error["reason"], error["domain"], error["metadata"]
        self.retry_delay, self.field_violations = error["retry_delay"], error["field_violations"]


class WorkFailed(Exception):
    """The business function's exception came through."""

    def __init__(self, raised: dict):
        super().__init__(f"{raised['type']}: {raised['message']}")
        self.type, self.message = raised["type"], raised["message"]


class ProgramDied(Exception):
    """The consumer was killed before it answered."""


@dataclasses.dataclass
class Command:
    program: Program
    id: int
    inbox: queue.SimpleQueue

    def _next(self) -> dict:
        try:
            said = self.inbox.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"the {self.program.language} consumer said nothing; its log:\n{self.program.log.read_text()}")
        if "died" in said:
            raise ProgramDied(self.program.log.read_text())
        if "error" in said:
            raise CallFailed(said["error"])
        if "raised" in said:
            raise WorkFailed(said["raised"])
        return said

    def answer(self) -> dict:
        return self._next()["answer"]

    # ---- for `handle` ----

    def working(self) -> dict:
        """Waits until the business function runs; returns what it was told."""
        return self._next()["working"]

    def look_again(self) -> dict:
        """What the business function is told now."""
        self._tell({})
        return self.working()

    def succeed(self, result: bytes = b"", content_type: str = "") -> dict:
        self.tell_result(result, content_type)
        return self.answer()

    def reject(self, result: bytes = b"", content_type: str = "") -> dict:
        self.tell_result(result, content_type, rejected=True)
        return self.answer()

    def tell_result(self, result: bytes, content_type: str = "", rejected: bool = False) -> None:
        self._tell({"result": b64(result), "content_type": content_type, "rejected": rejected})

    def fail(self, kind: str = "Error", message: str = "broken", delay: float = 0) -> WorkFailed:
        self._tell({"raise": kind, "message": message, "delay": delay})
        try:
            answer = self.answer()
        except WorkFailed as failure:
            return failure
        raise AssertionError(f"the failure did not come through: {answer}")

    def _tell(self, what: dict) -> None:
        self.program.write({"id": self.id, "do": "answer", "with": what})


class Consumer:
    """A consumer in a program: a tenant's credential and a name. Calls take requests as JSON, with defaults that tests like."""

    def __init__(self, program: Program, handle: str, name: str):
        self.program = program
        self.name = name
        self._handle = handle

    def start(self, call: str, request: dict) -> Command:
        return self.program.send({"do": call, "as": self._handle, "request": request})

    def call(self, call: str, request: dict) -> dict:
        return self.start(call, request).answer()

    # ---- the calls ----

    def begin_request(self, handler: str, event_id: bytes, content: bytes = b"content", attempt: bytes | None = None,
                      lease: float | None = None, wait: float | None = None, **fields) -> dict:
        request = {"handler": handler, "event_id": b64(event_id), "attempt_id": b64(attempt or new_attempt()), "consumer": self.name}
        if "digest" not in fields and "content" not in fields:
            fields["content"] = {"data": b64(content), **({"scheme": fields.pop("scheme")} if "scheme" in fields else {})}
        if lease is not None:
            request["lease"] = duration(lease)
        if wait is not None:
            request["wait"] = duration(wait)
        return {**request, **fields}

    def begin(self, handler: str, event_id: bytes, *args, **fields) -> dict:
        return self.call("begin", self.begin_request(handler, event_id, *args, **fields))

    def granted(self, handler: str, event_id: bytes, *args, **fields) -> dict:
        answer = self.begin(handler, event_id, *args, **fields)
        assert answer["outcome"] == "granted", answer
        return answer["granted"]

    @staticmethod
    def claimed_request(handler: str, event_id: bytes, claim: dict, **fields) -> dict:
        return {"handler": handler, "event_id": b64(event_id), "attempt_id": claim["attempt_id"], "fence": claim["fence"], **fields}

    def complete_request(self, handler: str, event_id: bytes, claim: dict, result: bytes = b"result",
                         status: str = "RECEIPT_STATUS_SUCCEEDED", **fields) -> dict:
        return self.claimed_request(handler, event_id, claim, result=b64(result), status=status, **fields)

    def complete(self, *args, **fields) -> dict:
        return self.call("complete", self.complete_request(*args, **fields))

    def abandon(self, handler: str, event_id: bytes, claim: dict, mode: str = "MODE_RELEASE", **fields) -> dict:
        return self.call("abandon", self.claimed_request(handler, event_id, claim, mode=mode, **fields))

    def renew(self, handler: str, event_id: bytes, claim: dict, lease: float | None = None) -> dict:
        fields = {} if lease is None else {"lease": duration(lease)}
        return self.call("renew", self.claimed_request(handler, event_id, claim, **fields))

    def lookup(self, handler: str, event_id: bytes, wait: float | None = None, **fields) -> dict:
        if wait is not None:
            fields["wait"] = duration(wait)
        return self.call("lookup", {"handler": handler, "event_id": b64(event_id), **fields})

    def admin(self, method: str, request: dict) -> dict:
        """A call of once.v1.AdminService."""
        return self.program.send({"do": "admin", "as": self._handle, "method": method, "request": request}).answer()

    # ---- the loop ----

    def handle(self, handler: str, event_id: bytes, content: bytes = b"content", wait: float = 0, attempt: bytes | None = None,
               **fields) -> Command:
        delivery = {"handler": handler, "event_id": b64(event_id), "content": b64(content), **fields}
        if attempt is not None:
            delivery["attempt_id"] = b64(attempt)
        return self.program.send({"do": "handle", "as": self._handle, "delivery": delivery, "wait": wait})
