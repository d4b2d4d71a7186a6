"""Stubs for Python, generated from proto/ at test time: the way a user without our client makes them."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY_DIR = pathlib.Path(os.environ.get("ONCE_BINARY_DIR", ROOT / "build" / "dev"))


def generate() -> pathlib.Path:
    """Generates where the protos are newer than what is there; several test programs may do so at once."""
    folder = BINARY_DIR / "python_stubs"
    protos = sorted((ROOT / "proto").rglob("*.proto"))
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "stamp"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(proto.stat().st_mtime for proto in protos)
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            subprocess.run(
                ["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                 f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}", *map(str, protos)],
                check=True,
            )
            stamp.touch()
    return folder


sys.path.insert(0, str(generate()))
