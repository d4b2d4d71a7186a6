"""Claims, leases and fences over two servers: rows A1–A10 and A13 of the catalogue."""

import collections
import concurrent.futures
import os
import signal
import subprocess
import sys
import time

import pytest

from support.caller import Caller, duration, expect_failure, new_attempt
from support.cluster import IN_DOUBT
from support.tcp_gate import TcpGate
from support.waiting import eventually, outcome

import grpc
from google.protobuf.duration_pb2 import Duration
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

Code = grpc.StatusCode
LAPSES = 0.1  # the shortest lease
COMPLETE, CLAIM_LOST = 2, 9  # numbers in the attempt log

REFUSED_LEASES = {
    "negative": (Duration(seconds=-1), "100ms"),
    "just_negative": (Duration(nanos=-1), "100ms"),
    "1ms": (Duration(nanos=1_000_000), "100ms"),
    "under_the_minimum": (Duration(nanos=99_999_999), "100ms"),
    "over_the_maximum": (Duration(seconds=86400, nanos=1), "24h"),
    "2^63-1": (Duration(seconds=2**63 - 1), "24h"),
    "-2^63": (Duration(seconds=-(2**63)), "100ms"),
}


def take_over(caller, handler, event_id, **fields) -> types_pb2.Granted:
    """Granted as soon as the holder's lease is over."""
    return caller.granted(handler, event_id, wait=30, **fields)


@pytest.mark.scenario("A1")
class TestLeases:
    @pytest.mark.parametrize("lease", [None, 0])
    def test_no_lease_means_the_default(self, tenant, lease):
        claim = tenant.a.granted("h", b"e", lease=lease).claim
        assert 29 < claim.lease_remaining.ToMilliseconds() / 1000 <= 30
        assert tenant.operations("lease_expires_us - claimed_us") == [["30000000"]]

    @pytest.mark.parametrize("lease", [0.1, 86400])
    def test_the_limits_themselves_are_accepted(self, tenant, lease):
        assert tenant.a.granted("h", b"e", lease=lease).claim.lease_remaining.ToMicroseconds() <= lease * 1e6
        assert tenant.operations("lease_expires_us - claimed_us") == [[str(round(lease * 1e6))]]

    @pytest.mark.parametrize("lease, limit", REFUSED_LEASES.values(), ids=REFUSED_LEASES.keys())
    def test_beyond_the_limits_is_refused_and_leaves_no_row(self, tenant, lease, limit):
        request = tenant.a.begin_request("h", b"e")
        request.lease.CopyFrom(lease)
        with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
            tenant.a.call(tenant.a.idempotency.Begin, request)
        assert (failure[0].metadata["field"], failure[0].metadata["limit"]) == ("lease", limit)
        assert limit in failure[0].message

        batch = tenant.b.call(tenant.b.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=[request]))
        assert (batch.results[0].error.reason, batch.results[0].error.metadata["limit"]) == ("INVALID_FIELD", limit)
        assert tenant.operations("*") == []

        claim = tenant.a.granted("h", b"held").claim
        before = tenant.operations("lease_expires_us")
        renew = service_pb2.RenewRequest(handler="h", event_id=b"held", attempt_id=claim.attempt_id, fence=claim.fence)
        renew.lease.CopyFrom(lease)
        with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
            tenant.a.call(tenant.a.idempotency.Renew, renew)
        assert failure[0].metadata["limit"] == limit
        assert tenant.operations("lease_expires_us") == before


@pytest.mark.scenario("A2")
class TestALapsedLease:
    def test_is_taken_over_with_a_higher_fence_and_the_earlier_attempt_shown(self, tenant):
        dead = tenant.a.granted("h", b"e", lease=LAPSES, consumer="dead", handler_version="v1").claim
        granted = take_over(tenant.b, "h", b"e")
        assert granted.claim.fence > dead.fence
        assert granted.attempt_number == 2
        earlier = granted.earlier_attempt
        assert (earlier.attempt_id, earlier.fence) == (dead.attempt_id, dead.fence)
        assert (earlier.consumer, earlier.handler_version) == ("dead", "v1")
        assert earlier.lease_expire_time == dead.lease_expire_time

    def test_is_in_doubt_where_the_policy_forbids_a_second_run(self, tenant):
        tenant.apply_policies(IN_DOUBT)
        dead = tenant.a.granted("doubt.pay", b"e", lease=LAPSES, consumer="dead").claim
        answer = tenant.b.begin("doubt.pay", b"e", wait=30)
        assert outcome(answer) == "in_doubt"
        assert answer.in_doubt.earlier_attempt_count == 1
        assert [(e.attempt_id, e.fence, e.consumer) for e in answer.in_doubt.earlier_attempts] == [
            (dead.attempt_id, dead.fence, "dead")]
        assert answer.in_doubt.resolution
        assert outcome(tenant.a.lookup("doubt.pay", b"e")) == "in_doubt"
        assert tenant.operations("claims") == [["1"]]
        # With what it was told, the caller ends the doubt.
        found = types_pb2.Claim(attempt_id=dead.attempt_id, fence=dead.fence)
        assert outcome(tenant.b.complete("doubt.pay", b"e", found, b"found done")) == "completed"
        assert tenant.a.begin("doubt.pay", b"e").completed.receipt.result == b"found done"

    def test_is_given_to_who_probes_where_the_policy_asks_for_it(self, tenant):
        tenant.apply_policies('policies { handler: "probe.*" expired_lease: EXPIRED_LEASE_PROBE }')
        dead = tenant.a.granted("probe.pay", b"e", lease=LAPSES, consumer="dead").claim
        answer = tenant.b.begin("probe.pay", b"e", wait=30)
        assert outcome(answer) == "in_doubt"
        assert answer.in_doubt.probe_allowed
        assert "can_probe" in answer.in_doubt.resolution
        assert outcome(tenant.a.lookup("probe.pay", b"e")) == "in_doubt"
        # In a batch as by itself: the item that cannot probe is told, the one that can is granted.
        items = [tenant.b.begin_request("probe.pay", b"e"), tenant.b.begin_request("probe.pay", b"e", can_probe=True)]
        told, given = tenant.b.call(tenant.b.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=items)).results
        assert outcome(told.response) == "in_doubt"
        granted = given.response.granted
        assert (granted.recovery, granted.attempt_number) == (True, 2)
        assert granted.earlier_attempt.attempt_id == dead.attempt_id
        # A repeat is the same answer, on another server and under another policy.
        tenant.apply_policies(IN_DOUBT)
        again = tenant.a.call(tenant.a.idempotency.Begin, items[1]).granted
        assert (again.recovery, again.claim.fence, again.attempt_number) == (True, granted.claim.fence, 2)
        logged = [entry for (entry,) in tenant.attempts("outcome")]
        assert [logged.count(entry) for entry in ("1", "14", "12")] == [1, 1, 1]  # granted, recovery, its repeat

    def test_says_recovery_of_claims_that_have_something_to_probe_only(self, tenant):
        assert not tenant.a.granted("h", b"new", can_probe=True).recovery
        tenant.a.granted("h", b"lapsed", lease=LAPSES)
        assert take_over(tenant.b, "h", b"lapsed", can_probe=True).recovery


@pytest.mark.scenario("A3")
def test_slow_owner_that_was_taken_over_cannot_complete(tenant):
    slow = tenant.a.granted("h", b"e", lease=LAPSES, consumer="slow").claim
    fast = take_over(tenant.b, "h", b"e", consumer="fast").claim

    late = tenant.a.complete("h", b"e", slow, b"late")
    assert outcome(late) == "claim_lost"
    assert (late.claim_lost.consumer, late.claim_lost.fence) == ("fast", fast.fence)
    assert late.claim_lost.take_over_time.ToMicroseconds() > slow.lease_expire_time.ToMicroseconds()
    assert tenant.operations("status, result") == [["NULL", "NULL"]]

    stored = tenant.b.complete("h", b"e", fast, b"in time").completed
    assert not stored.replayed
    # Also after the receipt, and whatever the late result is.
    for result in (b"late", b"in time"):
        assert outcome(tenant.a.complete("h", b"e", slow, result)) == "claim_lost"
    assert tenant.a.begin("h", b"e").completed.receipt == stored.receipt
    assert stored.receipt.result == b"in time"

    refused = [slow.attempt_id.hex().upper(), str(COMPLETE), str(CLAIM_LOST)]
    assert tenant.attempts("HEX(attempt_id), kind, outcome", b"e").count(refused) == 3


@pytest.mark.scenario("A4")
def test_slow_owner_that_was_taken_over_cannot_renew(tenant):
    slow = tenant.a.granted("h", b"e", lease=LAPSES).claim
    fast = take_over(tenant.b, "h", b"e", consumer="fast").claim
    before = tenant.operations("HEX(attempt_id), fence, lease_expires_us")

    lost = tenant.a.renew("h", b"e", slow, lease=3600).claim_lost
    assert (lost.consumer, lost.fence, lost.state) == ("fast", fast.fence, types_pb2.OPERATION_STATE_CLAIMED)
    assert lost.take_over_time.ToMicroseconds() > 0
    assert tenant.operations("HEX(attempt_id), fence, lease_expires_us") == before


@pytest.mark.scenario("A5")
class TestALostReply:
    def test_repeated_begin_gets_the_same_claim_from_either_server(self, tenant):
        attempt = new_attempt()
        answers = [caller.granted("h", b"e", attempt=attempt) for caller in (tenant.a, tenant.b, tenant.b, tenant.a)]
        assert {(g.claim.fence, g.attempt_number, g.HasField("earlier_attempt")) for g in answers} == {
            (answers[0].claim.fence, 1, False)}

    def test_reply_cut_on_the_way_is_made_up_for_by_the_other_server(self, tenant):
        host, port = tenant.cluster.servers[0].address.rsplit(":", 1)
        attempt = new_attempt()
        with TcpGate(host, int(port), statements=False) as link:
            caller = Caller(f"127.0.0.1:{link.port}", tenant.token)
            caller.granted("h", b"warm")
            link.stall("down")
            lost = caller.start(caller.idempotency.Begin, caller.begin_request("h", b"e", attempt=attempt))
            link.wait_held(1, "down")
            eventually(lambda: tenant.operations("fence", b"e"))
            link.cut_all()
            link.resume()
            with expect_failure(Code.UNAVAILABLE, ""):
                lost.result()
            caller.close()
        granted = tenant.b.granted("h", b"e", attempt=attempt)
        assert granted.attempt_number == 1
        assert tenant.operations("fence, claims", b"e") == [[str(granted.claim.fence), "1"]]

    def test_repeated_begin_of_a_take_over_still_shows_the_earlier_attempt(self, tenant):
        tenant.a.granted("h", b"e", lease=LAPSES)
        attempt = new_attempt()
        first = take_over(tenant.b, "h", b"e", attempt=attempt)
        second = tenant.a.granted("h", b"e", attempt=attempt)
        assert (first.claim.fence, first.attempt_number, first.earlier_attempt) == (
            second.claim.fence, second.attempt_number, second.earlier_attempt)


def _mixed_round(tenant, event_id: bytes, callers: int) -> collections.Counter:
    """As many Begins as `callers` at once: single calls and batches of ten, over both servers."""
    calls = []
    for number in range(callers // 2):
        end = tenant.callers[number % len(tenant.callers)]
        calls.append(end.start(end.idempotency.Begin, end.begin_request("h", event_id)))
    for number in range(callers // 20):
        end = tenant.callers[number % len(tenant.callers)]
        requests = [end.begin_request("h", event_id) for _ in range(10)]
        calls.append(end.start(end.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=requests)))
    counts = collections.Counter()
    claim = None
    for call in calls:
        answer = call.result()
        for item in [answer] if isinstance(answer, service_pb2.BeginResponse) else [r.response for r in answer.results]:
            counts[outcome(item)] += 1
            if outcome(item) == "granted":
                claim = item.granted.claim
    assert outcome(tenant.b.complete("h", event_id, claim, event_id)) == "completed"
    return counts


@pytest.mark.scenario("A6")
def test_one_of_200_parallel_begins_is_granted_in_each_of_50_rounds(tenant):
    for number in range(50):
        event_id = b"round-%d" % number
        counts = _mixed_round(tenant, event_id, callers=200)
        assert counts == {"granted": 1, "in_progress": 199}, f"round {number}: {counts}"
        assert tenant.a.begin("h", event_id).completed.receipt.result == event_id
    assert tenant.operations("COUNT(*), SUM(claims), SUM(deliveries)") == [["50", "50", str(50 * 201)]]


@pytest.mark.scenario("A7")
class TestWaiting:
    def test_waiter_at_another_server_gets_the_receipt_when_the_owner_completes(self, tenant):
        claim = tenant.a.granted("h", b"e").claim
        waiting = tenant.b.start(tenant.b.idempotency.Begin, tenant.b.begin_request("h", b"e", wait=30))
        looking = tenant.b.start(tenant.b.idempotency.Lookup, service_pb2.LookupRequest(
            handler="h", event_id=b"e", wait=duration(30)))
        eventually(lambda: tenant.cluster.metric("once_pipeline_waiters") >= 2)
        assert not waiting.done() and not looking.done()
        stored = tenant.a.complete("h", b"e", claim, b"result").completed.receipt
        completed = time.monotonic()
        answer = waiting.result().completed
        assert (answer.receipt, answer.replayed) == (stored, True)
        assert looking.result().completed.receipt == stored
        # The slowest poll is half a second; the rest is for a busy machine.
        assert time.monotonic() - completed < 3

    def test_waiter_is_told_who_holds_it_when_its_time_is_over(self, tenant):
        tenant.a.granted("h", b"e", consumer="owner")
        start = time.monotonic()
        answer = tenant.b.begin("h", b"e", wait=0.5)
        took = time.monotonic() - start
        assert outcome(answer) == "in_progress"
        assert (answer.in_progress.consumer, answer.in_progress.reason) == ("owner", types_pb2.InProgress.REASON_HELD)
        assert 25 < answer.in_progress.lease_remaining.ToMilliseconds() / 1000 < 29.6
        assert 0.5 <= took < 5

    def test_waiter_with_an_earlier_deadline_is_answered_before_it(self, tenant):
        tenant.a.granted("h", b"e")
        assert outcome(tenant.b.begin("h", b"e", wait=30, deadline=1)) == "in_progress"

    def test_waiter_is_granted_when_the_owner_gives_back(self, tenant):
        claim = tenant.a.granted("h", b"e").claim
        waiting = tenant.b.start(tenant.b.idempotency.Begin, tenant.b.begin_request("h", b"e", wait=30))
        eventually(lambda: tenant.cluster.metric("once_pipeline_waiters") >= 1)
        tenant.a.abandon("h", b"e", claim)
        granted = waiting.result().granted
        assert granted.attempt_number == 2
        assert not granted.HasField("earlier_attempt")

    def test_only_one_of_many_waiters_is_granted(self, tenant):
        claim = tenant.a.granted("h", b"e").claim
        waiting = [end.start(end.idempotency.Begin, end.begin_request("h", b"e", wait=30))
                   for end in tenant.callers for _ in range(20)]
        eventually(lambda: tenant.cluster.metric("once_pipeline_waiters") >= 40)
        tenant.a.abandon("h", b"e", claim)
        done, _ = concurrent.futures.wait([_as_future(call) for call in waiting], return_when="FIRST_COMPLETED")
        winner = done.pop().result()
        assert outcome(winner) == "granted"
        tenant.b.complete("h", b"e", winner.granted.claim, b"done")
        outcomes = collections.Counter(outcome(call.result()) for call in waiting)
        assert outcomes == {"granted": 1, "completed": 39}


def _as_future(call) -> concurrent.futures.Future:
    future = concurrent.futures.Future()
    call.add_done_callback(lambda ended: future.set_result(ended.result()))
    return future


def _threads(server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


@pytest.mark.scenario("A8")
def test_2000_waiters_on_a_key_cost_no_thread_no_connection_and_nobody_elses_time(own_cluster):
    waiters = 2000
    cluster = own_cluster(servers=1, flags=[f"--max-waiters-per-tenant={waiters}"])
    server = cluster.servers[0]
    tenant, other = cluster.new_tenant(), cluster.new_tenant()
    claim = tenant.a.granted("h", b"hot").claim
    for number in range(20):  # whatever is made on first use is there
        other.a.granted("h", b"warm-%d" % number)
    tenant.a.begin("h", b"hot", wait=0.2)
    threads, sessions = _threads(server), cluster.metric("once_store_sessions{")

    waiting = [tenant.a.start(tenant.a.idempotency.Begin, tenant.a.begin_request("h", b"hot", wait=60))
               for _ in range(waiters)]
    eventually(lambda: cluster.metric("once_pipeline_waiters") == waiters)
    assert cluster.metric("once_store_sessions{") == sessions
    assert _threads(server) <= threads + 2  # gRPC may start pollers of its own, but not with the waiters

    # One more of this tenant is one too many; for others there is room.
    with expect_failure(Code.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED") as failure:
        tenant.a.begin("h", b"hot", wait=60)
    assert failure[0].metadata["limit"] == str(waiters)
    assert failure[0].retry_delay > 0
    other.a.granted("h", b"hot")
    assert outcome(other.a.begin("h", b"hot", wait=0.2)) == "in_progress"

    slowest = 0.0
    for number in range(100):
        start = time.monotonic()
        (tenant if number % 2 else other).a.granted("h", b"unrelated-%d" % number)
        slowest = max(slowest, time.monotonic() - start)
    assert slowest < 1

    tenant.a.complete("h", b"hot", claim, b"done")
    assert {call.result().completed.receipt.result for call in waiting} == {b"done"}
    eventually(lambda: cluster.metric("once_pipeline_waiters") == 0)


@pytest.mark.scenario("A9")
class TestAFailedHandler:
    @pytest.mark.parametrize("mode, attempt_number", [("MODE_RELEASE", 2), ("MODE_FORGET", 1)])
    def test_that_says_so_frees_the_operation_at_once(self, tenant, mode, attempt_number):
        claim = tenant.a.granted("h", b"e", lease=3600).claim
        abandoned = tenant.a.abandon("h", b"e", claim, mode=service_pb2.AbandonRequest.Mode.Value(mode), reason="no stock")
        assert outcome(abandoned) == "abandoned"
        granted = tenant.b.granted("h", b"e")
        assert granted.claim.fence > claim.fence
        assert granted.attempt_number == attempt_number
        assert not granted.HasField("earlier_attempt")
        assert tenant.operations("status") == [["NULL"]]

    def test_that_asks_for_a_delay_gets_it(self, tenant):
        claim = tenant.a.granted("h", b"e").claim
        tenant.a.abandon("h", b"e", claim, retry_delay=duration(0.3))
        delayed = tenant.b.begin("h", b"e").in_progress
        assert delayed.reason == types_pb2.InProgress.REASON_DELAYED
        assert 0 < delayed.lease_remaining.ToMilliseconds() <= 300
        assert not tenant.b.granted("h", b"e", wait=30).HasField("earlier_attempt")

    def test_that_is_killed_holds_it_no_longer_than_its_lease(self, tenant):
        start = time.monotonic()
        tenant.a.granted("h", b"e", lease=1)
        assert outcome(tenant.b.begin("h", b"e")) == "in_progress"
        granted = take_over(tenant.b, "h", b"e")
        assert granted.HasField("earlier_attempt")
        assert 1 <= time.monotonic() - start < 10


@pytest.mark.scenario("A10")
@pytest.mark.database
def test_no_transaction_is_open_while_a_handler_runs(tenant):
    claims = [end.granted("h", b"%d" % number).claim for number in range(20) for end in tenant.callers[:1]]
    looked = tenant.cluster.store.server.sql(
        "SELECT t.trx_id, t.trx_state, t.trx_started, p.COMMAND, p.INFO FROM information_schema.INNODB_TRX t "
        "JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id "
        f"WHERE p.DB = '{tenant.cluster.store.database}'", admin=True)
    assert looked == ""
    for number, claim in enumerate(claims):
        tenant.b.complete("h", b"%d" % number, claim)


_OWNERS = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from support.caller import Caller
folder = pathlib.Path(sys.argv[4])
caller = Caller(sys.argv[2], sys.argv[3])
for kept in sorted(folder.iterdir()):
    granted = caller.granted("h", kept.name.encode(), attempt=kept.read_bytes())
    print(kept.name, granted.claim.fence, granted.attempt_number, granted.HasField("earlier_attempt"), flush=True)
print("holding", flush=True)
time.sleep(600)
"""


@pytest.mark.scenario("A13")
def test_50_owners_killed_and_restarted_with_their_attempt_ids_hold_the_same_claims(tenant, tmp_path):
    for number in range(50):
        (tmp_path / f"owner-{number}").write_bytes(new_attempt())

    def run_and_kill(server) -> list[str]:
        owners = subprocess.Popen(
            [sys.executable, "-c", _OWNERS, os.path.dirname(os.path.dirname(__file__)), server.address, tenant.token, tmp_path],
            stdout=subprocess.PIPE, text=True)
        claims = []
        for line in owners.stdout:
            if line == "holding\n":
                break
            claims.append(line)
        owners.send_signal(signal.SIGKILL)
        owners.wait()
        owners.stdout.close()
        return claims

    first = run_and_kill(tenant.cluster.ends[0])
    assert len(first) == 50
    assert run_and_kill(tenant.cluster.ends[-1]) == first
    assert all(line.endswith(" 1 False\n") for line in first)
    assert tenant.operations("COUNT(*), SUM(claims)") == [["50", "50"]]
