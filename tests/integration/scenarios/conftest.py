"""Scenarios run over two servers on one database. On the embedded store there is one server, to which both callers go.

--once-engine says on which: mariadb (default), mysql or sqlite; ONCE_TEST_ENGINE in the environment means the same.
"""

import os

import pytest

from support.cluster import FAST_POLICIES, Cluster, DatabaseStore, SqliteStore
from support.databases import DatabaseServer
from support.tcp_gate import TcpGate


def pytest_addoption(parser):
    parser.addoption("--once-engine", choices=["mariadb", "mysql", "sqlite"],
                     default=os.environ.get("ONCE_TEST_ENGINE", "mariadb"))


def pytest_configure(config):
    config.addinivalue_line("markers", "scenario(*rows): the rows of the catalogue of failures that a test walks")
    config.addinivalue_line("markers", "database: needs a database server; nothing to see on the embedded store")


@pytest.fixture(scope="session")
def engine(request):
    return request.config.getoption("--once-engine", os.environ.get("ONCE_TEST_ENGINE", "mariadb"))


@pytest.fixture(autouse=True)
def _database_only(request, engine):
    if request.node.get_closest_marker("database") and engine == "sqlite":
        pytest.skip("needs a database server")


@pytest.fixture(scope="session")
def database_server(engine, tmp_path_factory):
    if engine == "sqlite":
        pytest.skip("needs a database server")
    reason = DatabaseServer.unavailable_because(engine)
    if reason:
        pytest.skip(f"{engine}: {reason}")
    server = DatabaseServer(engine, tmp_path_factory.mktemp("database"))
    yield server
    server.kill()  # nobody needs its data any more


@pytest.fixture(scope="session")
def new_store(engine, request, tmp_path_factory):
    """new_store() → an empty store."""
    if engine == "sqlite":
        return lambda: SqliteStore(tmp_path_factory.mktemp("store"))
    server = request.getfixturevalue("database_server")
    return lambda: DatabaseStore(server)


@pytest.fixture(scope="session")
def cluster(new_store, tmp_path_factory):
    """Servers that tests share; each has a tenant of its own."""
    made = Cluster(new_store(), tmp_path_factory.mktemp("cluster"), flags=[FAST_POLICIES])
    yield made
    made.close()


@pytest.fixture
def tenant(cluster):
    made = cluster.new_tenant()
    yield made
    made.close()


@pytest.fixture
def own_cluster(new_store, tmp_path_factory):
    """own_cluster(...) → Cluster, for tests that do something to their servers."""
    made = []

    def make(**options) -> Cluster:
        made.append(Cluster(new_store(), tmp_path_factory.mktemp("own"), **options))
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture
def gate(database_server):
    """Before the database server."""
    with TcpGate("127.0.0.1", database_server.port) as made:
        yield made
