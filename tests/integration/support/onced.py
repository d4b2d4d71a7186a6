"""The program under test, as a process."""

import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request

from .stubs import BINARY_DIR

PROGRAM = os.environ.get("ONCED", str(BINARY_DIR / "server" / "onced"))
START_SECONDS = 60


def run(*args: str, env: dict | None = None, **options) -> subprocess.CompletedProcess:
    """A command that ends by itself."""
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120,
                          env={**clean_environment(), **(env or {})}, **options)


def clean_environment() -> dict:
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCED_")}


class Onced:
    """A server on free ports. Its output goes to files in `folder`."""

    def __init__(self, folder: pathlib.Path, *args: str, env: dict | None = None, wait: bool = True, command: str = "serve",
                 program: str = PROGRAM):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ports_file = folder / "ports.json"
        self.ports_file.unlink(missing_ok=True)
        self.log_file = folder / "log"
        self.output_file = folder / "output"
        arguments = [program, command, "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", f"--ports-file={self.ports_file}",
                     "--log-format=json", *map(str, args)]
        with open(self.log_file, "ab") as log, open(self.output_file, "ab") as output:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=log,
                                            env={**clean_environment(), **(env or {})})
        if wait:
            self.wait_until_serving()

    def wait_until_serving(self) -> None:
        self._poll(self.ports_file.exists, "serving")
        ports = json.loads(self.ports_file.read_text())
        self.address = ports["grpc"]
        self.http = ports["http"]

    def wait_until_http(self) -> None:
        """For a server that does not serve yet."""
        self._poll(lambda: self.records("HTTP answers"), "answering HTTP")
        self.http = self.records("HTTP answers")[-1]["http"]

    def _poll(self, done, what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not done():
            if self.process.poll() is not None:
                raise AssertionError(f"onced ended with {self.process.returncode} before {what}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"onced was not {what} in time:\n{self.log()}")
            time.sleep(0.02)

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def records(self, message: str | None = None) -> list[dict]:
        """Log records, whole lines only."""
        lines = self.log().split("\n")[:-1]
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if message in (None, record["message"])]

    def output(self) -> str:
        return self.output_file.read_text()

    def http_get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=30) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[str, float]:
        """Values by series, as written: 'once_calls_total{method="Begin",outcome="granted"}'."""
        status, text = self.http_get("/metrics")
        assert status == 200
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def wait_until_ready(self, ready: bool, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while (self.http_get("/readyz")[0] == 200) != ready:
            assert time.monotonic() < deadline, f"readiness did not become {ready}"
            time.sleep(0.05)

    def wait_for_policies(self, seconds: float = 30) -> None:
        """Until what was applied before this call is in force here: two reads have ended, so one has begun since."""
        reads = 'once_policy_reads_total{result="ok"}'
        goal = self.metrics()[reads] + 2
        deadline = time.monotonic() + seconds
        while self.metrics()[reads] < goal:
            assert time.monotonic() < deadline, "the policies were not read in time"
            time.sleep(0.01)

    def send(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 60) -> int:
        return self.process.wait(seconds)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
