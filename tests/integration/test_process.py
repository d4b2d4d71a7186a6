"""Onced as a process: flags, exit codes, start, stop, health, first credentials."""

import os
import signal
import socket
import stat
import time

import pytest

from support.onced import run

import grpc


# ---- flags ----


def test_version_and_help_succeed():
    assert run("version").stdout.startswith("onced ")
    help_text = run("serve", "--help")
    assert help_text.returncode == 0
    assert "--mysql-uri" in help_text.stdout


def test_all_problems_are_listed_at_once_and_nothing_starts(sqlite_flags):
    ended = run("serve", *sqlite_flags, "--committers=0", "--max-wait=forever", "--listen=0.0.0.0:7447", "--nonsense=1",
                env={"ONCED_READERS": "many"})
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert sorted(ended.stderr.splitlines()) == [
        "onced: --committers=0: must be 1 to 256",
        "onced: --max-wait=forever: must be a duration with its unit, such as 500ms, 30s or 5m",
        "onced: --nonsense: there is no such flag",
        "onced: --readers=many (ONCED_READERS): must be a whole number",
    ]


def test_plaintext_beyond_loopback_is_refused_unless_asked_for(sqlite_flags, start, tmp_path):
    refused = run("serve", *sqlite_flags, "--listen=0.0.0.0:0")
    assert refused.returncode == 2
    assert "--insecure-plaintext" in refused.stderr

    assert run("migrate", *sqlite_flags).returncode == 0
    server = start(*sqlite_flags, "--listen=0.0.0.0:0", "--insecure-plaintext")
    assert server.records("WARNING: gRPC without TLS: bearer tokens cross the network in the clear")


def test_flags_come_from_the_environment_and_from_a_file(sqlite_flags, start, tmp_path):
    flagfile = tmp_path / "flags"
    flagfile.write_text(f"# where the data lies\n{sqlite_flags[0].removeprefix('--')}\nmigrate\nshutdown-grace=1s\n")
    server = start(f"--flagfile={flagfile}", env={"ONCED_SHUTDOWN_GRACE": "9s", "ONCED_PORT": "tcp://10.0.0.1:7447"})
    assert [record["message"] for record in server.records() if "ONCED_PORT" in record["message"]]
    assert server.stop() == 0
    assert 8 < server.records("shutting down")[0]["grace_seconds"] <= 9


def test_a_password_in_the_uri_is_refused_and_not_printed():
    ended = run("serve", "--mysql-uri=mysql://once:hunter2@127.0.0.1/once")
    assert ended.returncode == 2
    assert "--mysql-uri" in ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr


# ---- start ----


def test_a_store_without_tables_is_refused_with_the_way_out(store_flags):
    ended = run("serve", *store_flags, "--listen=127.0.0.1:0", "--http-listen=")
    assert ended.returncode == 1
    assert "migrate" in ended.stderr


def test_migrate_may_be_repeated(store_flags):
    first, second = run("migrate", *store_flags), run("migrate", *store_flags)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "schema step applied" in first.stderr
    assert "schema step applied" not in second.stderr


def test_two_servers_may_migrate_at_once(mysql_flags, start):
    servers = [start(*mysql_flags, "--migrate", wait=False) for _ in range(2)]
    for server in servers:
        server.wait_until_serving()
    assert [server.stop() for server in servers] == [0, 0]


def test_a_file_store_belongs_to_one_process(sqlite_flags, start):
    start(*sqlite_flags, "--migrate")
    second = run("serve", *sqlite_flags, "--listen=127.0.0.1:0", "--http-listen=")
    assert second.returncode == 1
    assert "failed" in second.stderr


def test_a_taken_port_is_named(sqlite_flags, tmp_path):
    assert run("migrate", *sqlite_flags).returncode == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        grpc_taken = run("serve", *sqlite_flags, f"--listen={address}", "--http-listen=")
        http_taken = run("serve", *sqlite_flags, "--listen=127.0.0.1:0", f"--http-listen={address}")
    assert grpc_taken.returncode == http_taken.returncode == 1
    assert address in grpc_taken.stderr
    assert address in http_taken.stderr


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_database_that_is_down_is_waited_for(database_server, start):
    database = database_server.new_database()
    database_server.stop()
    try:
        server = start(*database_server.flags(database), "--migrate", wait=False)
        server.wait_until_http()
        assert server.http_get("/healthz")[0] == 200
        status, why = server.http_get("/readyz")
        assert (status, "waiting for the database" in why) == (503, True)
    finally:
        database_server.start()
    server.wait_until_serving()
    server.wait_until_ready(True)
    assert server.records("waiting for the database")
    assert server.stop() == 0


def test_the_wait_for_the_database_has_an_end(tmp_path):
    password = tmp_path / "password"
    password.write_text("s3cret-word\n")
    ended = run("serve", f"--mysql-uri=mysql://once@127.0.0.1:{unused_port()}/once", f"--mysql-password-file={password}",
                "--startup-timeout=1s", "--listen=127.0.0.1:0", "--http-listen=")
    assert ended.returncode == 1
    assert "--startup-timeout=1s" in ended.stderr
    assert "s3cret-word" not in ended.stderr


def test_a_signal_ends_the_wait_for_the_database(start):
    server = start(f"--mysql-uri=mysql://once@127.0.0.1:{unused_port()}/once", wait=False)
    server.wait_until_http()
    assert server.stop() == 0


# ---- stop ----


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_exit_code_0(sqlite_flags, start, number):
    server = start(*sqlite_flags, "--migrate")
    assert server.stop(number) == 0
    assert server.records("stopped")


def test_a_second_signal_ends_the_server_at_once(sqlite_flags, start):
    server = start(*sqlite_flags, "--migrate", "--drain-delay=20s")
    server.send(signal.SIGTERM)
    server.wait_until_ready(False)
    begun = time.monotonic()
    assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    assert time.monotonic() - begun < 10


def test_during_the_drain_delay_calls_are_still_answered(sqlite_world):
    server = sqlite_world.server
    assert server.stop() == 0
    server = type(server)(server.folder, *sqlite_world.store_flags, "--drain-delay=2s")
    try:
        consumer = sqlite_world._connect(server, None)
        server.send(signal.SIGTERM)
        server.wait_until_ready(False)
        with pytest.raises(grpc.RpcError) as refused:
            consumer.begin("h", b"e")
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED  # answered, not refused for draining
        assert server.wait() == 0
    finally:
        server.kill()


# ---- health ----


def test_health_command_follows_readiness(sqlite_flags, start):
    server = start(*sqlite_flags, "--migrate", "--drain-delay=20s")
    ready = run("health", f"--http-listen={server.http}")
    assert (ready.returncode, ready.stdout) == (0, "ready: serving\n")
    server.send(signal.SIGTERM)
    server.wait_until_ready(False)
    assert run("health", f"--http-listen={server.http}").returncode == 1
    server.kill()
    assert run("health", f"--http-listen={server.http}").returncode == 1


def test_readiness_follows_the_database(database_server, start, bootstrap, connect):
    flags = database_server.flags(database_server.new_database())
    token = bootstrap(flags)
    server = start(*flags, "--retry-window=1s")
    admin = connect(server, token)
    admin.create_tenant("acme")
    consumer = connect(server, admin.create_credential("acme").token)
    consumer.granted("h", b"before")
    database_server.stop()
    try:
        with pytest.raises(grpc.RpcError) as down:
            consumer.begin("h", b"while down")
        assert down.value.code() == grpc.StatusCode.UNAVAILABLE
        server.wait_until_ready(False)
        assert server.http_get("/healthz")[0] == 200
    finally:
        database_server.start()
    deadline = time.monotonic() + 30
    while True:  # C9: back in seconds without a restart
        try:
            consumer.granted("h", b"after")
            break
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            assert time.monotonic() < deadline
            time.sleep(0.1)
    server.wait_until_ready(True)


# ---- first credentials ----


def test_bootstrap_prints_the_token_once_and_refuses_the_second_time(store_flags, start, connect):
    assert run("migrate", *store_flags).returncode == 0
    first = run("bootstrap", *store_flags)
    assert first.returncode == 0
    token = first.stdout.strip()
    assert token not in first.stderr
    second = run("bootstrap", *store_flags)
    assert (second.returncode, second.stdout) == (1, "")
    assert "active admin credential exists" in second.stderr
    connect(start(*store_flags), token).create_tenant("acme")


def test_bootstrap_writes_a_private_file(sqlite_flags, start, connect, tmp_path):
    assert run("migrate", *sqlite_flags).returncode == 0
    output = tmp_path / "token"
    made = run("bootstrap", *sqlite_flags, f"--output={output}")
    assert (made.returncode, made.stdout) == (0, "")
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert output.read_text().strip() not in made.stderr
    connect(start(*sqlite_flags), output.read_text().strip()).create_tenant("acme")


def test_bootstrap_that_cannot_write_makes_no_credential(sqlite_flags, tmp_path):
    assert run("migrate", *sqlite_flags).returncode == 0
    output = tmp_path / "token"
    output.write_text("keep me")
    refused = run("bootstrap", *sqlite_flags, f"--output={output}")
    assert refused.returncode == 1
    assert output.read_text() == "keep me"
    assert run("bootstrap", *sqlite_flags).returncode == 0


def test_refused_bootstrap_leaves_no_file(sqlite_flags, tmp_path):
    assert run("migrate", *sqlite_flags).returncode == 0
    assert run("bootstrap", *sqlite_flags).returncode == 0
    output = tmp_path / "token"
    assert run("bootstrap", *sqlite_flags, f"--output={output}").returncode == 1
    assert not output.exists()


# ---- dev ----


def test_dev_needs_nothing_and_keeps_its_credential(start, connect, tmp_path):
    data = tmp_path / "data"
    server = start(f"--data-dir={data}", command="dev")
    token = (data / "credential").read_text().strip()
    assert stat.S_IMODE((data / "credential").stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert server.address in server.output()
    assert token not in server.output() + server.log()
    connect(server, token).granted("h", b"e")
    connect(server, (data / "admin-credential").read_text().strip()).create_tenant("acme")
    assert server.stop() == 0

    server = start(f"--data-dir={data}", command="dev")
    assert (data / "credential").read_text().strip() == token
    assert connect(server, token).begin("h", b"e").WhichOneof("outcome") == "in_progress"
    assert server.stop() == 0

    for file in data.glob("once.db*"):
        file.unlink()
    server = start(f"--data-dir={data}", command="dev")
    fresh = (data / "credential").read_text().strip()
    assert fresh != token
    connect(server, fresh).granted("h", b"e")


def test_dev_listens_on_loopback_only(tmp_path):
    ended = run("dev", f"--data-dir={tmp_path}", "--listen=0.0.0.0:0")
    assert ended.returncode == 2
    assert "loopback" in ended.stderr
