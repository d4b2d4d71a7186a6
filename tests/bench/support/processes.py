"""Processes of a benchmark: started, waited for, ended, and what they use."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _status_megabytes(pid: int, field: str) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def peak_megabytes(pid: int) -> float:
    return _status_megabytes(pid, "VmHWM")


def resident_megabytes(pid: int) -> float:
    return _status_megabytes(pid, "VmRSS")


def forget_peak(pid: int) -> None:
    """The peak counts from now on."""
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def wait_for(file: pathlib.Path, process: subprocess.Popen, what: str) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and file.read_text().strip():
            return file.read_text().strip()
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"{what} did not start")


@contextlib.contextmanager
def running(command: list[str], log: pathlib.Path):
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
