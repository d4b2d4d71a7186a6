"""Operations that nobody finished, over two servers: what an operator is shown, and what becomes of a decision."""

import concurrent.futures
import json
import os
import pathlib
import subprocess

import pytest

from support.caller import expect_failure
from support.waiting import outcome

import grpc
from once.v1 import admin_service_pb2, types_pb2
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import operator_service_pb2 as operator_pb2

BINARY_DIR = pathlib.Path(os.environ.get("ONCE_BINARY_DIR", "build/dev"))
ONCECTL = os.environ.get("ONCECTL", str(BINARY_DIR / "client" / "cli" / "oncectl"))
Attempt = operator_pb2.LoggedAttempt


@pytest.fixture
def operator(tenant):
    tenant.apply_policies('policies { handler: "pay.*" expired_lease: EXPIRED_LEASE_IN_DOUBT }')
    made = tenant.operator()
    yield made
    made.close()


def lapsed(caller, event_id: bytes, handler: str = "pay.out"):
    """A claim whose holder fell silent; once others are told that it is in doubt."""
    claim = caller.granted(handler, event_id, lease=0.1, consumer="worker-1").claim
    # A call that waits is logged as what it met first.
    assert outcome(caller.begin(handler, event_id, wait=5)) == "in_doubt"
    assert outcome(caller.begin(handler, event_id)) == "in_doubt"
    return claim


@pytest.mark.scenario("A2", "B13")
class TestADoubt:
    def test_is_shown_with_all_that_a_person_needs(self, tenant, operator):
        delivery = types_pb2.Delivery(reference="offset 17", source=types_pb2.DELIVERY_SOURCE_REDELIVERY)
        claim = tenant.a.granted("pay.out", b"e", lease=0.1, consumer="worker-1", handler_version="v7", delivery=delivery).claim
        assert outcome(tenant.b.begin("pay.out", b"e", wait=5)) == "in_doubt"
        assert outcome(tenant.b.begin("pay.out", b"e")) == "in_doubt"
        shown = operator.operation("pay.out", b"e")
        assert shown.state == types_pb2.OPERATION_STATE_IN_DOUBT
        assert shown.latest_claim.attempt_id == claim.attempt_id
        assert shown.latest_claim.fence == claim.fence
        assert (shown.latest_claim.consumer, shown.latest_claim.handler_version) == ("worker-1", "v7")
        assert shown.delivery_count == 3
        assert not shown.HasField("lease_remaining") and not shown.HasField("receipt")
        log = operator.log("pay.out", b"e").attempts
        assert [(entry.kind, entry.outcome) for entry in log] == [
            (Attempt.KIND_BEGIN, Attempt.OUTCOME_GRANTED), (Attempt.KIND_BEGIN, Attempt.OUTCOME_IN_PROGRESS),
            (Attempt.KIND_BEGIN, Attempt.OUTCOME_IN_DOUBT)]
        assert log[0].delivery == delivery
        assert log[0].attempt_id == claim.attempt_id != log[1].attempt_id

    def test_found_done_is_a_receipt_on_every_server(self, tenant, operator):
        claim = lapsed(tenant.a, b"e")
        made = operator.resolve("pay.out", b"e", claim, "DONE", "payment 4711 is in the bank's list", result=b"4711")
        assert made.completed.receipt.status == types_pb2.RECEIPT_STATUS_SUCCEEDED
        for caller in tenant.callers:
            told = caller.begin("pay.out", b"e").completed
            assert told.receipt.result == b"4711" and told.replayed
        assert operator.resolve("pay.out", b"e", claim, "DONE", "again", result=b"4711").completed.replayed
        # The silent one comes back after all.
        assert outcome(tenant.a.complete("pay.out", b"e", claim, b"mine")) == "conflict"
        assert outcome(tenant.a.renew("pay.out", b"e", claim)) == "claim_lost"

    def test_found_refused_is_a_final_refusal(self, tenant, operator):
        claim = lapsed(tenant.a, b"e")
        operator.resolve("pay.out", b"e", claim, "REFUSED", result=b"no funds", content_type="text/plain")
        receipt = tenant.b.lookup("pay.out", b"e").completed.receipt
        assert (receipt.status, receipt.result, receipt.content_type) == (
            types_pb2.RECEIPT_STATUS_REJECTED, b"no funds", "text/plain")

    def test_found_not_done_may_run_and_the_silent_one_may_not(self, tenant, operator):
        claim = lapsed(tenant.a, b"e")
        assert outcome(operator.resolve("pay.out", b"e", claim, "NOT_DONE", "the bank has no such payment")) == "released"
        next_one = tenant.b.granted("pay.out", b"e")
        assert next_one.claim.fence > claim.fence
        assert not next_one.HasField("earlier_attempt")
        assert outcome(tenant.a.complete("pay.out", b"e", claim)) == "claim_lost"
        assert outcome(tenant.b.complete("pay.out", b"e", next_one.claim)) == "completed"
        # Whoever decided about the claim before is too late for this one.
        assert outcome(operator.resolve("pay.out", b"e", claim, "NOT_DONE")) == "claim_lost"

    def test_is_decided_once_by_however_many(self, tenant, operator):
        claim = lapsed(tenant.a, b"e")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: operator.resolve("pay.out", b"e", claim, "DONE", result=b"%d" % n), range(8)))
        told = [outcome(answer) for answer in answers]
        assert told.count("completed") == 1 and told.count("conflict") == 7
        winner = answers[told.index("completed")].completed.receipt.result
        assert tenant.b.begin("pay.out", b"e").completed.receipt.result == winner


def test_a_live_claim_is_its_holders(tenant, operator):
    claim = tenant.a.granted("pay.out", b"e", consumer="worker-1").claim
    told = operator.resolve("pay.out", b"e", claim, "DONE", result=b"x")
    assert told.in_progress.consumer == "worker-1"
    assert operator.operation("pay.out", b"e").state == types_pb2.OPERATION_STATE_CLAIMED
    assert operator.operation("pay.out", b"e").lease_remaining.seconds > 0
    assert outcome(tenant.a.complete("pay.out", b"e", claim)) == "completed"
    shown = operator.operation("pay.out", b"e")
    assert shown.receipt.result_size == 6 and shown.receipt.result == b"" and shown.receipt.result_omitted


def test_those_who_wait_are_told(tenant, operator):
    """A waiter that came while the claim was live, behind one that may not run: both are told of the decision."""
    tenant.apply_policies('policies { handler: "pay.*" expired_lease: EXPIRED_LEASE_IN_DOUBT order { one_at_a_time: true } }')
    aggregate = {"aggregate": types_pb2.Aggregate(id="account-1", version=1)}
    claim = tenant.a.granted("pay.out", b"one", lease=0.1, **aggregate).claim
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tenant.a.begin, "pay.out", b"two", wait=20, **aggregate)
        assert outcome(tenant.b.begin("pay.out", b"one", wait=5, **aggregate)) == "in_doubt"
        operator.resolve("pay.out", b"one", claim, "DONE")
        assert outcome(waiting.result(timeout=30)) == "granted"


def test_every_decision_is_in_the_audit(cluster, tenant, operator):
    claim = lapsed(tenant.a, b"order-1")
    operator.resolve("pay.out", b"order-1", claim, "DONE", "payment 4711 is in the bank's list", result=b"hush")
    record = cluster.admin.audit(tenant.name).records[0]
    assert record.action == admin_service_pb2.AUDIT_ACTION_RESOLVE
    assert record.subject == "pay.out order-1"
    assert record.reason == "payment 4711 is in the bank's list"
    assert json.loads(record.before)["state"] == "CLAIMED"
    assert json.loads(record.after)["status"] == "SUCCEEDED"
    assert "hush" not in record.before + record.after
    entry = operator.log("pay.out", b"order-1").attempts[-1]
    assert (entry.kind, entry.outcome) == (Attempt.KIND_RESOLVE, Attempt.OUTCOME_FOUND_DONE)
    assert entry.note == "payment 4711 is in the bank's list"


def test_the_log_comes_in_pages_of_its_operation_alone(tenant, operator):
    for _ in range(5):
        tenant.a.begin("pay.out", b"e")
    tenant.a.begin("pay.out", b"e2")
    first = operator.log("pay.out", b"e", page_size=3)
    rest = operator.log("pay.out", b"e", page_size=3, page_token=first.next_page_token)
    assert (len(first.attempts), len(rest.attempts), rest.next_page_token) == (3, 2, "")
    assert len({entry.attempt_id for entry in [*first.attempts, *rest.attempts]}) == 5
    with expect_failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
        operator.log("pay.out", b"e2", page_token=first.next_page_token)
    assert failure[0].fields == ["page_token"]


def test_a_forgotten_operation_leaves_its_log(tenant, operator):
    tenant.a.abandon("pay.out", b"e", tenant.a.granted("pay.out", b"e").claim, mode=service_pb2.AbandonRequest.MODE_FORGET)
    with expect_failure(grpc.StatusCode.NOT_FOUND, "OPERATION_NOT_FOUND"):
        operator.operation("pay.out", b"e")
    assert [entry.outcome for entry in operator.log("pay.out", b"e").attempts] == [
        Attempt.OUTCOME_GRANTED, Attempt.OUTCOME_FORGOTTEN]


@pytest.mark.scenario("B10")
class TestAReset:
    def test_lets_it_run_again_and_keeps_the_receipt(self, cluster, tenant, operator):
        first = tenant.a.granted("pay.out", b"e").claim
        tenant.a.complete("pay.out", b"e", first, b"first")
        receipt = operator.operation("pay.out", b"e").receipt
        assert outcome(operator.reset("pay.out", b"e", receipt.fence, "OPS-7: paid to a closed account")) == "released"
        # The server that reset it answers by it at once; so does every Begin that goes to the database.
        assert outcome(operator.reset("pay.out", b"e", receipt.fence, "again")) == "released"
        assert outcome(tenant.a.begin("pay.out", b"e", b"other content")) == "conflict"
        second = tenant.a.granted("pay.out", b"e").claim
        assert second.fence > first.fence
        assert outcome(tenant.b.complete("pay.out", b"e", first, b"first")) == "claim_lost"
        tenant.b.complete("pay.out", b"e", second, b"second")
        assert tenant.b.begin("pay.out", b"e").completed.receipt.result == b"second"
        shown = operator.operation("pay.out", b"e")
        assert [(past.receipt.result, past.reason) for past in shown.past_receipts] == [
            (b"first", "OPS-7: paid to a closed account")]
        assert shown.receipt.fence == second.fence
        assert outcome(operator.reset("pay.out", b"e", first.fence)) == "claim_lost"
        records = [r for r in cluster.admin.audit(tenant.name).records if r.action == admin_service_pb2.AUDIT_ACTION_RESET]
        assert [(r.subject, r.reason) for r in records] == [("pay.out e", "OPS-7: paid to a closed account")]
        assert "first" not in records[0].before + records[0].after

    def test_is_seen_by_the_server_that_made_it_in_every_call(self, tenant, operator):
        """Receipts in the memory of the server, of duplicates that are answered from it, do not outlive the reset."""
        tenant.apply_policies('policies { handler: "busy.*" attempt_log: ATTEMPT_LOG_MODE_BUFFERED }')
        server = tenant.b  # the one that the operator calls
        claim = server.granted("busy.h", b"e").claim
        server.complete("busy.h", b"e", claim)
        assert server.begin("busy.h", b"e").completed.replayed
        operator.reset("busy.h", b"e", claim.fence)
        assert outcome(server.lookup("busy.h", b"e")) == "unclaimed"
        assert server.granted("busy.h", b"e").claim.fence > claim.fence

    def test_needs_something_that_is_completed_and_a_reason(self, tenant, operator):
        claim = tenant.a.granted("pay.out", b"e").claim
        assert outcome(operator.reset("pay.out", b"e", claim.fence)) == "in_progress"
        with expect_failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
            operator.reset("pay.out", b"e", claim.fence, reason="")
        assert failure[0].fields == ["reason"]
        with expect_failure(grpc.StatusCode.NOT_FOUND, "OPERATION_NOT_FOUND"):
            operator.reset("pay.out", b"nobody's", 1)


class TestOnly:
    """Who may look and decide."""

    def calls(self, caller, handler="pay.out", event_id=b"e"):
        claim = types_pb2.Claim(attempt_id=b"0123456789abcdef", fence=1)
        return [lambda: caller.operation(handler, event_id), lambda: caller.log(handler, event_id),
                lambda: caller.resolve(handler, event_id, claim, "NOT_DONE"), lambda: caller.reset(handler, event_id, 1)]

    def test_operators(self, cluster, tenant, operator):
        lapsed(tenant.a, b"e")
        for caller in (tenant.a, cluster.admin):
            for call in self.calls(caller):
                with expect_failure(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"):
                    call()

    def test_for_the_handlers_of_their_credential(self, tenant, operator):
        lapsed(tenant.a, b"e")
        other = tenant.operator(patterns=["points.*"])
        for call in self.calls(other):
            with expect_failure(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"):
                call()
        other.close()

    @pytest.mark.scenario("D6")
    def test_of_their_own_tenant(self, cluster, tenant, operator):
        claim = lapsed(tenant.a, b"e")
        stranger = cluster.new_tenant()
        other = stranger.operator()
        told = []
        # Whether the other tenant has the event, or its handler's name, changes nothing in what a stranger is told.
        for handler, event_id in (("pay.out", b"e"), ("pay.out", b"nobody's"), ("never.used", b"e")):
            for call in self.calls(other, handler, event_id):
                with expect_failure(grpc.StatusCode.NOT_FOUND, "OPERATION_NOT_FOUND") as failure:
                    call()
                told.append((failure[0].message, failure[0].metadata == {"handler": handler}))
        assert len(set(told)) == 1 and told[0][1]
        assert outcome(operator.resolve("pay.out", b"e", claim, "NOT_DONE")) == "released"
        other.close()
        stranger.close()


def test_the_guides_commands(cluster, tenant, operator, tmp_path):
    """docs/guides/doubt.md, step by step."""
    claim = lapsed(tenant.a, b"payout-2026-17")
    token_file = tmp_path / "token"
    token_file.write_text(operator.metadata[0][1].removeprefix("Bearer "))

    def oncectl(*arguments: str, code: int = 0) -> str:
        done = subprocess.run([ONCECTL, f"--server={cluster.servers[0].address}", f"--token-file={token_file}", *map(str, arguments)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    shown = json.loads(oncectl("--json", "operation", "show", "pay.out", "payout-2026-17"))
    assert shown["state"] == "IN_DOUBT"
    assert "in_doubt" in oncectl("operation", "attempts", "pay.out", "payout-2026-17")
    named = ["--attempt-id", shown["latest_claim"]["attempt_id"], "--fence", shown["latest_claim"]["fence"]]
    assert shown["latest_claim"]["fence"] == claim.fence
    evidence = ["--evidence", "OPS-913: payment 4711 is in the bank's list"]
    done = oncectl("operation", "resolve", "pay.out", "payout-2026-17", "done", *named, *evidence,
                   "--result-string", '{"payment": 4711}', "--content-type", "application/json")
    assert done.startswith("completed\n")
    assert "found_done" in oncectl("operation", "attempts", "pay.out", "payout-2026-17")
    oncectl("operation", "resolve", "pay.out", "payout-2026-17", "not-done", *named, *evidence, code=12)
