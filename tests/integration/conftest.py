"""Fixtures for black-box tests: a database server per test program, everything else per test."""

import os
import pathlib
import sys

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # tests start programs while channels are open
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import pytest

from support import onced as onced_program
from support.caller import Caller
from support.databases import DatabaseServer
from support.onced import Onced

ENGINE = os.environ.get("ONCE_TEST_ENGINE", "mariadb")


@pytest.fixture(scope="session")
def database_server(tmp_path_factory):
    reason = DatabaseServer.unavailable_because(ENGINE)
    if reason:
        pytest.skip(f"{ENGINE}: {reason}")
    server = DatabaseServer(ENGINE, tmp_path_factory.mktemp("database"))
    yield server
    server.stop()


@pytest.fixture
def mysql_flags(database_server):
    """Flags that name a new, empty database."""
    return database_server.flags(database_server.new_database())


@pytest.fixture
def sqlite_flags(tmp_path):
    return [f"--store=sqlite:{tmp_path / 'once.db'}"]


@pytest.fixture(params=["sqlite", "mysql"])
def store_flags(request):
    """The test runs on the embedded store and on the database server."""
    return request.getfixturevalue(f"{request.param}_flags")


@pytest.fixture
def start(tmp_path):
    """start(*flags, ...) → Onced. Whatever still runs at the end is killed."""
    servers = []

    def start_one(*flags, **options) -> Onced:
        server = Onced(tmp_path / f"onced-{len(servers)}", *flags, **options)
        servers.append(server)
        return server

    yield start_one
    for server in servers:
        server.kill()


@pytest.fixture
def connect():
    """connect(server, token) → Caller."""
    callers = []

    def connect_one(server, token, **options) -> Caller:
        caller = Caller(server if isinstance(server, str) else server.address, token, **options)
        callers.append(caller)
        return caller

    yield connect_one
    for caller in callers:
        caller.close()


@pytest.fixture
def bootstrap():
    """bootstrap(store flags) → token of the first admin. Migrates before."""

    def make(store_flags) -> str:
        assert onced_program.run("migrate", *store_flags).returncode == 0
        made = onced_program.run("bootstrap", *store_flags)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    return make


class World:
    """A server with an admin and consumers of tenants."""

    def __init__(self, server: Onced, admin: Caller, connect, store_flags):
        self.server = server
        self.admin = admin
        self.store_flags = store_flags
        self._connect = connect
        self._tenants = set()

    def token(self, tenant: str = "acme", **fields) -> str:
        if tenant not in self._tenants:
            self.admin.create_tenant(tenant)
            self._tenants.add(tenant)
        return self.admin.create_credential(tenant, **fields).token

    def consumer(self, tenant: str = "acme", server: Onced | None = None, **fields) -> Caller:
        return self._connect(server or self.server, self.token(tenant, **fields))


@pytest.fixture
def world(store_flags, bootstrap, start, connect):
    """A running server on either store."""
    token = bootstrap(store_flags)
    server = start(*store_flags)
    return World(server, connect(server, token), connect, store_flags)


@pytest.fixture
def sqlite_world(sqlite_flags, bootstrap, start, connect):
    token = bootstrap(sqlite_flags)
    server = start(*sqlite_flags)
    return World(server, connect(server, token), connect, sqlite_flags)
