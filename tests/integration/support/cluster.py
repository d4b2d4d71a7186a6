"""Several servers on one store, and tenants of their own for tests that share them."""

import contextlib
import itertools
import pathlib
import sqlite3

from . import onced as onced_program
from .caller import Caller, admin_service_pb2
from .databases import DatabaseServer
from .onced import Onced

# Policies are in force at once, as far as tests can tell.
FAST_POLICIES = "--policy-refresh-interval=20ms"
IN_DOUBT = 'policies { handler: "doubt.*" expired_lease: EXPIRED_LEASE_IN_DOUBT }'


class DatabaseStore:
    """A new database of a MariaDB or MySQL server."""

    def __init__(self, server: DatabaseServer):
        self.server = server
        self.database = server.new_database()

    def flags(self, port: int | None = None) -> list[str]:
        """Flags of onced; with `port`, through a gate that listens there."""
        flags = self.server.flags(self.database)
        return [flag.replace(f":{self.server.port}/", f":{port or self.server.port}/") for flag in flags]

    def rows(self, sql: str) -> list[list[str]]:
        answer = self.server.sql(f"USE {self.database}; {sql}")
        return [line.split("\t") for line in answer.splitlines()]

    def change(self, sql: str) -> None:
        """Behind the servers' backs."""
        self.server.sql(f"USE {self.database}; {sql}")


class SqliteStore:
    """A file, for one server process."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "once.db"

    def flags(self, port: int | None = None) -> list[str]:
        assert port is None, "there is no link to a file"
        return [f"--store=sqlite:{self.path}"]

    def rows(self, sql: str) -> list[list[str]]:
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)) as file:
            return [["NULL" if value is None else str(value) for value in row] for row in file.execute(sql)]

    def change(self, sql: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as file:
            file.execute(sql)
            file.commit()


Store = DatabaseStore | SqliteStore


class Tenant:
    """A tenant that nobody else uses, with a caller at each server."""

    def __init__(self, cluster: "Cluster", name: str):
        self.name = name
        self.cluster = cluster
        cluster.admin.create_tenant(name)
        self.token = cluster.admin.create_credential(name).token
        self.callers = [Caller(server.address, self.token) for server in cluster.ends]
        self.a, self.b = self.callers[0], self.callers[-1]

    def operator(self, patterns=()) -> Caller:
        """A caller of role operator at the last server. To be closed."""
        made = self.cluster.admin.create_credential(self.name, role=admin_service_pb2.ROLE_OPERATOR, patterns=patterns)
        return Caller(self.cluster.ends[-1].address, made.token)

    def apply_policies(self, text: str, **fields):
        """Applies policies and waits until every server goes by them."""
        made = self.cluster.admin.apply_policies(self.name, text, **fields)
        for server in self.cluster.servers:
            server.wait_for_policies()
        return made

    def close(self) -> None:
        for caller in self.callers:
            caller.close()

    def operations(self, columns: str, event_id: bytes | None = None) -> list[list[str]]:
        """Columns of this tenant's operations."""
        return self._rows("operation", columns, event_id)

    def attempts(self, columns: str, event_id: bytes | None = None) -> list[list[str]]:
        """Columns of this tenant's attempt log, oldest first."""
        return self._rows("attempt", columns, event_id, "ORDER BY logged_us")

    def _rows(self, table: str, columns: str, event_id: bytes | None, order: str = "") -> list[list[str]]:
        where = f"tenant_id = (SELECT tenant_id FROM tenant WHERE name = x'{self.name.encode().hex()}')"
        if event_id is not None:
            where += f" AND event_id = x'{event_id.hex()}'"
        return self.cluster.store.rows(f"SELECT {columns} FROM {table} WHERE {where} {order}")


class Cluster:
    """Servers on one store: as many as asked for, one on the embedded store. Each of `ends` is one to connect to: two at
    least, the same server twice where there is only one."""

    def __init__(self, store: Store, folder: pathlib.Path, servers: int = 2, flags=(), ports=(), env=({}, {}),
                 program: str = onced_program.PROGRAM):
        self.store = store
        self.folder = folder
        self._names = (f"tenant-{number}" for number in itertools.count(1))
        embedded = isinstance(store, SqliteStore)
        for command in ("migrate", "bootstrap"):
            made = onced_program.run(command, *store.flags())
            assert made.returncode == 0, made.stderr
        self.admin_token = made.stdout.strip()
        self.servers = []
        try:
            for number in range(1 if embedded else servers):
                port = ports[number] if number < len(ports) else None
                self.servers.append(Onced(folder / f"onced-{number}", *store.flags(port), *flags, env=env[number],
                                          wait=False, program=program))
            for server in self.servers:
                server.wait_until_serving()
        except BaseException:
            self.kill()
            raise
        self.ends = self.servers if len(self.servers) > 1 else self.servers * 2
        self.admin = Caller(self.servers[0].address, self.admin_token)

    def new_tenant(self) -> Tenant:
        return Tenant(self, next(self._names))

    def metric(self, prefix: str) -> float:
        """Sum over servers and series whose names start so."""
        return sum(value for server in self.servers for name, value in server.metrics().items() if name.startswith(prefix))

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def close(self) -> None:
        """All of them end well, or the test that used them is at fault."""
        self.admin.close()
        running = [server for server in self.servers if server.process.poll() is None]
        for server in running:
            server.process.terminate()
        try:
            codes = [server.wait(60) for server in running]
        finally:
            self.kill()
        assert codes == [0] * len(codes), "\n".join(server.log() for server in running)
