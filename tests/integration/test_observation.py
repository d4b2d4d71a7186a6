"""Metrics and logs: what is documented is there, what is secret is not."""

import json
import re

import pytest

from support.caller import expect_failure, new_attempt
from support.stubs import ROOT

import grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2


def busy(world) -> None:
    """Calls of many kinds."""
    consumer = world.consumer()
    claim = consumer.granted("orders", b"done").claim
    consumer.complete("orders", b"done", claim)
    assert consumer.begin("orders", b"done").completed.replayed
    consumer.begin("orders", b"done", b"other content")
    consumer.lookup("orders", b"done")
    with expect_failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        consumer.begin("orders", b"")
    consumer.call(consumer.idempotency.BatchBegin, service_pb2.BatchBeginRequest(
        requests=[consumer.begin_request("orders", b"b1"), consumer.begin_request("orders", b"")]))


def test_metrics_count_calls_by_outcome_and_reason(world):
    busy(world)
    metrics = world.server.metrics()
    assert metrics['once_calls_total{method="Begin",outcome="granted"}'] == 1
    assert metrics['once_calls_total{method="Begin",outcome="conflict"}'] == 1
    assert metrics['once_calls_total{method="Begin",outcome="INVALID_FIELD"}'] == 1
    assert metrics['once_batch_items_total{method="BatchBegin",outcome="granted"}'] == 1
    assert metrics['once_batch_items_total{method="BatchBegin",outcome="INVALID_FIELD"}'] == 1
    assert metrics['once_calls_in_flight{method="Begin"}'] == 0
    assert metrics['once_tenant_calls_total{tenant="acme"}'] > 5
    assert metrics["once_ready"] == 1
    assert metrics['once_store_sessions{kind="write"}'] >= 1


def test_every_metric_is_documented_with_its_labels(world):
    busy(world)
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    documented = {
        name: set(filter(None, labels.split(", ")))
        for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \| ", page, re.M)
    }
    for series in world.server.metrics():
        name, _, labels = series.partition("{")
        labels = set(re.findall(r'(\w+)="', labels)) - {"le"}
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert documented[name if name in documented else base] == labels, series


def test_one_record_per_call_says_what_people_search_for(sqlite_world):
    consumer = sqlite_world.consumer()
    attempt = new_attempt()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    consumer.metadata.append(("traceparent", f"00-{trace}-00f067aa0ba902b7-01"))
    consumer.granted("orders", b"evt-1", attempt=attempt)
    sqlite_world.server.stop()
    records = [record for record in sqlite_world.server.records("call") if record.get("attempt_id") == attempt.hex()]
    assert len(records) == 1
    record = records[0]
    assert (record["method"], record["outcome"], record["tenant"], record["handler"]) == ("Begin", "granted", "acme", "orders")
    assert record["trace_id"] == trace
    assert record["latency_ms"] > 0
    assert record["level"] == "info"


def test_logs_hold_neither_contents_nor_results_nor_secrets(database_server, start, bootstrap, connect):
    flags = database_server.flags(database_server.new_database())
    admin_token = bootstrap(flags)
    server = start(*flags, "--log-level=debug")
    admin = connect(server, admin_token)
    admin.create_tenant("acme")
    token = admin.create_credential("acme").token
    consumer = connect(server, token)

    content, result = b"CONTENT-do-not-log", b"RESULT-do-not-log"
    claim = consumer.granted("orders", b"e", content).claim
    consumer.complete("orders", b"e", claim, result)
    consumer.begin("orders", b"e", content)
    consumer.begin("orders", b"e", content + b"2")
    bad_json = types_pb2.Content(data=b'{"a":1,"CONTENT-do-not-log":', scheme=types_pb2.DIGEST_SCHEME_JSON_JCS_SHA256)
    with expect_failure(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_NOT_CANONICAL"):
        consumer.begin("orders", b"j", bad_json)
    with expect_failure(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"):
        connect(server, "once_0123456789abcdef_TOKEN-do-not-log").begin("orders", b"e")
    server.stop()

    log = server.log()
    for secret in ("do-not-log", admin_token, token, token.rsplit("_", 1)[1][:20], database_server.password):
        assert secret not in log
    for line in log.splitlines():
        json.loads(line)


def test_hostile_names_stay_inside_their_record(sqlite_world):
    consumer = sqlite_world.consumer()
    consumer.granted("orders", b'"}\n{"level":"error","message":"forged"}\xff\x00', consumer="a\nb\x1b[31m")
    sqlite_world.server.stop()
    assert not sqlite_world.server.records("forged")
    assert len(sqlite_world.server.records("call")) == 3  # CreateTenant, CreateCredential, Begin


@pytest.mark.parametrize("which, expected", [("all", 2), ("problems", 1), ("none", 0)])
def test_which_calls_are_logged_is_a_setting(sqlite_world, start, connect, which, expected):
    token = sqlite_world.token()
    sqlite_world.server.stop()
    server = start(*sqlite_world.store_flags, f"--log-calls={which}")
    consumer = connect(server, token)
    consumer.granted("orders", b"e")
    with expect_failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        consumer.begin("orders", b"")
    server.stop()
    assert len(server.records("call")) == expected
