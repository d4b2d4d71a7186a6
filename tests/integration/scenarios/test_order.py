"""Order among the operations of an aggregate, over two servers: old versions that come late, work that must not overlap."""

import concurrent.futures
import threading

import pytest

from support.caller import expect_failure
from support.waiting import outcome

import grpc
from once.v1 import idempotency_service_pb2 as service_pb2, types_pb2


def at(version: int, aggregate: str = "account-1") -> dict:
    return {"aggregate": types_pb2.Aggregate(id=aggregate, version=version)}


@pytest.fixture
def guarded(tenant):
    tenant.apply_policies('policies { handler: "price.*" order { guard_versions: true } }')
    return tenant


@pytest.fixture
def one_at_a_time(tenant):
    tenant.apply_policies('policies { handler: "ledger.*" order { one_at_a_time: true } }')
    return tenant


def test_an_old_version_that_arrives_late_does_not_run(guarded):
    a, b = guarded.a, guarded.b
    five = a.granted("price.set", b"price-5", b"5", **at(5)).claim
    # While version 5 is under way, version 4 may run: nothing newer is done.
    four = b.granted("price.set", b"price-4", b"4", **at(4)).claim
    assert outcome(a.complete("price.set", b"price-5", five, b"five")) == "completed"

    for caller in (a, b):
        late = caller.begin("price.set", b"price-3", b"3", **at(3))
        assert outcome(late) == "stale"
        assert (late.stale.current.id, late.stale.current.version) == ("account-1", 5)
        assert late.stale.current_event_id == b"price-5"
        with expect_failure(grpc.StatusCode.NOT_FOUND, "OPERATION_NOT_FOUND"):
            caller.lookup("price.set", b"price-3")
    # The one that was granted may end, and does not move the aggregate back.
    assert outcome(b.complete("price.set", b"price-4", four)) == "completed"
    assert b.begin("price.set", b"price-5b", b"5", **at(5)).stale.current.version == 5
    # Duplicates get what they always got.
    assert b.begin("price.set", b"price-5", b"5", **at(5)).completed.receipt.result == b"five"
    assert outcome(b.begin("price.set", b"price-5", b"six", **at(5))) == "conflict"
    assert a.granted("price.set", b"price-6", b"6", **at(6))
    # Facts, and what was refused, are in the log.
    assert sorted(row[0] for row in guarded.attempts("outcome") if row[0] == "15") == ["15"] * 3


def test_batches_are_decided_as_single_calls_are(guarded):
    a = guarded.a
    a.complete("price.set", b"price-5", a.granted("price.set", b"price-5", **at(5)).claim)
    items = [a.begin_request("price.set", b"old", **at(4)), a.begin_request("price.set", b"new", **at(6)),
             a.begin_request("price.set", b"new", **at(6)), a.begin_request("price.set", b"none")]
    results = a.call(a.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=items)).results
    assert [outcome(result.response) for result in results[:3]] == ["stale", "granted", "in_progress"]
    assert "aggregate is not set" in results[3].error.message


def test_the_second_operation_of_an_aggregate_waits_for_the_first_on_another_server(one_at_a_time):
    a, b = one_at_a_time.a, one_at_a_time.b
    claim = a.granted("ledger.book", b"one", **at(1)).claim
    busy = b.begin("ledger.book", b"two", **at(2)).in_progress
    assert busy.reason == types_pb2.InProgress.REASON_AGGREGATE_BUSY
    assert busy.blocking_event_id == b"one"
    assert busy.lease_remaining.seconds > 0
    assert b.granted("ledger.book", b"elsewhere", **at(1, "account-2"))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(b.begin, "ledger.book", b"two", wait=20, **at(2))
        a.complete("ledger.book", b"one", claim)
        assert outcome(waiting.result(timeout=30)) == "granted"


def test_a_silent_attempt_keeps_its_aggregate_busy_until_its_outcome_is_known(one_at_a_time):
    a, b = one_at_a_time.a, one_at_a_time.b
    silent = a.granted("ledger.book", b"one", lease=0.1, **at(1)).claim
    busy = b.begin("ledger.book", b"two", wait=1, **at(2)).in_progress
    assert busy.blocking_event_id == b"one"
    assert busy.lease_remaining.ToMicroseconds() == 0
    taken = b.granted("ledger.book", b"one", **at(1))
    assert taken.earlier_attempt.fence == silent.fence
    assert outcome(b.complete("ledger.book", b"one", taken.claim)) == "completed"
    assert a.granted("ledger.book", b"two", **at(2))


@pytest.mark.scenario("A6")
def test_many_consumers_never_overlap_on_an_aggregate(one_at_a_time):
    """Forty events of two accounts, each delivered to both servers at once: every event runs once, and no two of an account at a time."""
    running = {"account-1": 0, "account-2": 0}
    lock, done, overlaps = threading.Lock(), [], []

    def consume(caller, number: int) -> str:
        account = f"account-{1 + number % 2}"
        event = b"event-%d" % number
        for _ in range(400):
            answer = caller.begin("ledger.book", event, wait=10, **at(number, account))
            match outcome(answer):
                case "granted":
                    break
                case "completed":
                    return "duplicate"
                case "in_progress":
                    continue
                case other:
                    return other
        with lock:
            running[account] += 1
            if running[account] > 1:
                overlaps.append(event)
        with lock:
            running[account] -= 1
            done.append(event)
        assert outcome(caller.complete("ledger.book", event, answer.granted.claim)) == "completed"
        return "fact"

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = [pool.submit(consume, caller, number) for number in range(40) for caller in one_at_a_time.callers]
        told = [result.result(timeout=120) for result in results]
    assert overlaps == []
    assert sorted(done) == sorted(b"event-%d" % number for number in range(40))
    assert told.count("fact") == 40
    assert set(told) <= {"fact", "duplicate"}
