"""once_model over real servers: two on one database, one on the embedded store; then over servers that are wrong on purpose.

A server whose decision function has one broken line (see CMakeLists.txt) must be found out, or the check proves nothing.
ONCE_MODEL names the program, ONCE_MUTANTS the folder of the broken servers.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "integration"))

import pytest

from support.caller import admin_service_pb2
from support.cluster import FAST_POLICIES, Cluster, DatabaseStore, SqliteStore
from support.databases import DatabaseServer

MODEL = os.environ["ONCE_MODEL"]
MUTANTS = sorted(pathlib.Path(os.environ.get("ONCE_MUTANTS", "/nonexistent")).glob("onced_mutant_*"))
SEED = int(os.environ.get("ONCE_SEED", "20"))
VIOLATION, NONE = 1, 0


def check(cluster: Cluster, seconds: int, seed: int = SEED) -> subprocess.CompletedProcess:
    tenant = cluster.new_tenant()
    token_file = cluster.folder / "token"
    token_file.write_text(tenant.token)
    admin_token_file = cluster.folder / "admin-token"
    admin_token_file.write_text(cluster.admin_token)
    operator_token_file = cluster.folder / "operator-token"
    operator_token_file.write_text(cluster.admin.create_credential(tenant.name, role=admin_service_pb2.ROLE_OPERATOR).token)
    servers = [f"--server={server.address}" for server in cluster.servers]
    run = subprocess.run([MODEL, *servers, f"--token-file={token_file}", f"--seconds={seconds}", f"--seed={seed}",
                          f"--tenant={tenant.name}", f"--admin-token-file={admin_token_file}",
                          f"--operator-token-file={operator_token_file}"],
                         capture_output=True, text=True, timeout=300)
    print(run.stdout, run.stderr)
    return run


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_promises_hold_over_two_servers_on_one_database(engine, tmp_path):
    reason = DatabaseServer.unavailable_because(engine)
    if reason:
        pytest.skip(reason)
    database = DatabaseServer(engine, tmp_path / "database")
    try:
        cluster = Cluster(DatabaseStore(database), tmp_path, flags=[FAST_POLICIES])
        assert check(cluster, seconds=10).returncode == NONE
        cluster.close()
    finally:
        database.stop()


def test_promises_hold_on_the_embedded_store(tmp_path):
    cluster = Cluster(SqliteStore(tmp_path), tmp_path, flags=[FAST_POLICIES])
    assert check(cluster, seconds=5).returncode == NONE
    cluster.close()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda path: path.name.removeprefix("onced_mutant_"))
def test_wrong_server_is_found_out(mutant, tmp_path):
    cluster = Cluster(SqliteStore(tmp_path), tmp_path, program=str(mutant), flags=[FAST_POLICIES])
    try:
        found = check(cluster, seconds=4)
        assert found.returncode == VIOLATION
        assert "VIOLATION" in found.stdout
    finally:
        cluster.kill()
