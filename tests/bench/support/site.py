"""Servers and tools around one database, and single measurements."""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import urllib.request

from support.database import Database
from support.processes import cpu_seconds, forget_peak, peak_megabytes, running, wait_for

QUIET = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# Contenders that speak with the database alone.
WITHOUT_SERVER = ("direct", "pipeline", "pipeline-duplicate")


@dataclasses.dataclass
class Programs:
    onced: str
    oncectl: str
    bench: str

    @staticmethod
    def of_build(build: pathlib.Path) -> "Programs":
        return Programs(str(build / "server/onced"), str(build / "client/cli/oncectl"), str(build / "tests/bench/once-bench"))

    def has_flag(self, flag: str) -> bool:
        return flag in subprocess.run([self.onced, "serve", "--help"], capture_output=True, text=True).stdout


@dataclasses.dataclass
class Server:
    pid: int
    addresses: list[str]
    target: list[str]  # what once-bench has to know to call it
    http: str = ""

    def waiters(self) -> int:
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as page:
            found = re.search(r"^once_pipeline_waiters(?:\{[^}]*\})? ([0-9.e+]+)$", page.read().decode(), re.MULTILINE)
        return int(float(found.group(1))) if found else 0


def together(servers: list[Server]) -> Server:
    """Several servers of one database as one target; callers are spread over them."""
    first = servers[0]
    addresses = [address for server in servers for address in server.addresses]
    target = [word for word in first.target if not word.startswith("--server=")]
    return Server(first.pid, addresses, target + [f"--server={address}" for address in addresses], first.http)


@dataclasses.dataclass
class Step:
    """What to measure: a contender of once-bench, its options, and whom it calls."""

    contender: str
    options: list[str]
    server: Server | None = None


class Site:
    """A schema with a tenant, and the servers on it; all end with `stack`."""

    def __init__(self, programs: Programs, database: Database, folder: pathlib.Path, stack: contextlib.ExitStack,
                 flags: list[str], schema: str = "once"):  # fmt: skip
        self.programs, self.database, self.folder, self.stack, self.flags, self.schema = programs, database, folder, stack, flags, schema
        self.token = folder / f"{schema}-token"
        self.started = 0
        database.sql(f"CREATE DATABASE {schema}")
        admin = folder / f"{schema}-admin"
        subprocess.run([programs.onced, "migrate", *self._uri()], **QUIET)
        subprocess.run([programs.onced, "bootstrap", *self._uri(), f"--output={admin}"], **QUIET)
        self.server = self.serve()
        ctl = [programs.oncectl, f"--server={self.server.addresses[0]}", f"--token-file={admin}", "--json"]
        subprocess.run([*ctl, "tenants", "create", "bench"], **QUIET)
        made = subprocess.run([*ctl, "credentials", "create", "bench", "--role=consumer"], check=True, capture_output=True, text=True)
        self.token.write_text(json.loads(made.stdout)["token"])

    def _uri(self) -> list[str]:
        database = self.database
        where = f"mysql://{database.user}@{database.host}:{database.port}/{self.schema}"
        return [f"--mysql-uri={where}", f"--mysql-password-file={database.password_file}"]

    def serve(self, *flags: str, stack: contextlib.ExitStack | None = None) -> Server:
        """One more onced on this schema; --server-flag flags come last, as they are the user's."""
        self.started += 1
        name = f"{self.schema}-onced-{self.started}"
        ports = self.folder / f"{name}.ports"
        command = [self.programs.onced, "serve", *self._uri(), "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", f"--ports-file={ports}"]
        process = (stack or self.stack).enter_context(running([*command, *flags, *self.flags], self.folder / f"{name}.log"))
        bound = json.loads(wait_for(ports, process, name))
        return Server(process.pid, [bound["grpc"]], [f"--server={bound['grpc']}", f"--token-file={self.token}"], bound["http"])

    def serve_tls(self) -> Server:
        cert, key = self.folder / f"{self.schema}-cert.pem", self.folder / f"{self.schema}-key.pem"
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2"]
        make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
        subprocess.run(make, **QUIET)
        server = self.serve(f"--tls-cert={cert}", f"--tls-key={key}")
        server.target.append(f"--ca={cert}")
        return server

    def serve_empty(self, answers: str = "empty") -> Server:
        """gRPC alone: its answers are empty, as large as those for completed operations ("receipts"), or do not come ("none")."""
        ports = self.folder / f"{answers}.ports"
        command = [self.programs.bench, "serve-empty", f"--answers={answers}", f"--ports-file={ports}"]
        process = self.stack.enter_context(running(command, self.folder / f"{answers}.log"))
        address = wait_for(ports, process, "the empty server")
        return Server(process.pid, [address], [f"--server={address}"])

    def command(self, step: Step) -> list[str]:
        if step.contender in WITHOUT_SERVER:
            database = self.database
            target = [f"--host={database.host}", f"--port={database.port}", f"--user={database.user}"]
            target += [f"--password-file={database.password_file}", f"--database={self.schema}"]
        else:
            target = (step.server or self.server).target
        return [self.programs.bench, step.contender, *target, *step.options]

    def measure(self, step: Step) -> dict:
        """One measurement with what it cost everybody."""
        pid = (step.server or self.server).pid
        forget_peak(pid)
        before = (self.database.counters(), cpu_seconds(self.database.pid), cpu_seconds(pid))
        run = subprocess.run(self.command(step), capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{step.contender} {step.options}: {run.stderr or run.stdout}")
        after = (self.database.counters(), cpu_seconds(self.database.pid), cpu_seconds(pid))
        result = json.loads(run.stdout)
        total = max(result["all_operations"], 1)  # with those of the warm-up, which cost, too, and are not timed
        per_cycle = {key: (after[0][key] - before[0][key]) / total for key in after[0]}
        own = step.contender in WITHOUT_SERVER
        return result | {
            # An autocommitted statement is no Com_commit.
            "commits_per_cycle": per_cycle["autocommits" if step.contender == "direct" else "commits"],
            "fsyncs_per_cycle": per_cycle["fsyncs"],
            "database_cpu": 1e4 * (after[1] - before[1]) / total,
            "server_cpu": 0.0 if own else 1e4 * (after[2] - before[2]) / total,
            "generator_cpu": 1e4 * result["generator_cpu_s"] / total,
            "server_peak_mb": 0.0 if own else peak_megabytes(pid),
        }

    def complete_events(self, count: int, server: Server | None = None) -> int:
        """Completes `count` events; returns the run that names them."""
        options = ["--callers=8", f"--cycles={(count + 63) // 64}", "--batch=64"]
        return self.measure(Step("batch", options, server))["run"]
