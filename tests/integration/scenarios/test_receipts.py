"""Receipts, content and what callers are told, over two servers: rows B1–B8, B12 and B13 of the catalogue."""

import hashlib
import json

import pytest

from support import onced as onced_program
from support.caller import duration, expect_failure, new_attempt
from support.cluster import IN_DOUBT
from support.stubs import ROOT
from support.waiting import eventually, outcome

import grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

Code = grpc.StatusCode
LAPSES = 0.1
RAW = types_pb2.DIGEST_SCHEME_RAW_SHA256
JCS = types_pb2.DIGEST_SCHEME_JSON_JCS_SHA256
LIMIT = 1 << 20  # of a result


def raw(data: bytes) -> types_pb2.Content:
    return types_pb2.Content(data=data, scheme=RAW)


def json_content(text: str | bytes) -> types_pb2.Content:
    return types_pb2.Content(data=text if isinstance(text, bytes) else text.encode(), scheme=JCS)


def digest_of(data: bytes, scheme=RAW) -> types_pb2.ContentDigest:
    return types_pb2.ContentDigest(scheme=scheme, sha256=hashlib.sha256(data).digest())


def assert_conflict(answer, first: bytes, state) -> types_pb2.Conflict:
    assert outcome(answer) == "conflict", answer
    assert answer.conflict.difference == types_pb2.Conflict.DIFFERENCE_DIGEST
    assert answer.conflict.first_digest == digest_of(first)
    assert answer.conflict.request_digest.sha256 != answer.conflict.first_digest.sha256
    assert answer.conflict.state == state
    assert answer.conflict.first_begin_time.ToMicroseconds() > 0
    return answer.conflict


@pytest.mark.scenario("B1", "B13")
class TestOtherContentIsAConflict:
    def test_on_a_live_claim_for_everybody_and_for_the_holder_itself(self, tenant):
        claim = tenant.a.granted("h", b"e", b"one", consumer="owner").claim
        for end in tenant.callers:
            for attempt in (None, claim.attempt_id):
                told = assert_conflict(end.begin("h", b"e", b"two", attempt=attempt), b"one", types_pb2.OPERATION_STATE_CLAIMED)
                assert told.consumer == "owner"
                assert 20 < told.lease_remaining.ToMilliseconds() / 1000 <= 30
        assert outcome(tenant.b.complete("h", b"e", claim)) == "completed"

    def test_where_the_caller_would_have_waited(self, tenant):
        tenant.a.granted("h", b"e", b"one")
        assert_conflict(tenant.b.begin("h", b"e", b"two", wait=30), b"one", types_pb2.OPERATION_STATE_CLAIMED)

    def test_for_one_who_waited_while_the_identity_was_forgotten_and_used_again(self, tenant):
        claim = tenant.a.granted("h", b"e", b"one").claim
        waiting = tenant.b.start(tenant.b.idempotency.Begin, tenant.b.begin_request("h", b"e", b"one", wait=30))
        eventually(lambda: tenant.cluster.metric("once_pipeline_waiters") >= 1)
        tenant.a.call(tenant.a.idempotency.Abandon, service_pb2.AbandonRequest(
            handler="h", event_id=b"e", attempt_id=claim.attempt_id, fence=claim.fence, mode="MODE_FORGET"))
        after = tenant.a.begin("h", b"e", b"two")
        told = waiting.result()
        # Whoever was faster has the identity; the other is told that it is taken for something else.
        assert sorted([outcome(after), outcome(told)]) == ["conflict", "granted"]

    def test_on_a_completed_operation_also_from_the_server_that_completed_it(self, tenant):
        claim = tenant.a.granted("h", b"e", b"one").claim
        tenant.a.complete("h", b"e", claim)
        for end in tenant.callers:
            for _ in range(3):
                assert outcome(end.begin("h", b"e", b"one")) == "completed"
                assert_conflict(end.begin("h", b"e", b"two"), b"one", types_pb2.OPERATION_STATE_COMPLETED)

    def test_on_released_lapsed_and_doubtful_operations(self, tenant):
        tenant.apply_policies(IN_DOUBT)
        released = tenant.a.granted("h", b"released", b"one").claim
        tenant.a.abandon("h", b"released", released)
        tenant.a.granted("h", b"lapsed", b"one", lease=LAPSES)
        tenant.a.granted("doubt.h", b"doubtful", b"one", lease=LAPSES)
        eventually(lambda: outcome(tenant.b.lookup("h", b"lapsed")) == "unclaimed")
        eventually(lambda: outcome(tenant.b.lookup("doubt.h", b"doubtful")) == "in_doubt")
        assert_conflict(tenant.b.begin("h", b"released", b"two"), b"one", types_pb2.OPERATION_STATE_RELEASED)
        assert_conflict(tenant.b.begin("h", b"lapsed", b"two"), b"one", types_pb2.OPERATION_STATE_LAPSED)
        assert_conflict(tenant.b.begin("doubt.h", b"doubtful", b"two"), b"one", types_pb2.OPERATION_STATE_IN_DOUBT)

    def test_in_lookup_by_content_and_by_digest(self, tenant):
        tenant.a.granted("h", b"e", b"one")
        for end in tenant.callers:
            assert outcome(end.lookup("h", b"e", content=raw(b"one"))) == "in_progress"
            assert outcome(end.lookup("h", b"e", digest=digest_of(b"one"))) == "in_progress"
            assert_conflict(end.lookup("h", b"e", content=raw(b"two")), b"one", types_pb2.OPERATION_STATE_CLAIMED)
            assert_conflict(end.lookup("h", b"e", digest=digest_of(b"two")), b"one", types_pb2.OPERATION_STATE_CLAIMED)
            waits = end.lookup("h", b"e", digest=digest_of(b"two"), wait=30)
            assert_conflict(waits, b"one", types_pb2.OPERATION_STATE_CLAIMED)

    def test_within_a_batch_and_between_batches(self, tenant):
        first = tenant.a.call(tenant.a.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=[
            tenant.a.begin_request("h", b"e", b"one"), tenant.a.begin_request("h", b"e", b"two"),
            tenant.a.begin_request("h", b"e", b"one")]))
        answers = [result.response for result in first.results]
        assert outcome(answers[0]) == "granted"
        assert_conflict(answers[1], b"one", types_pb2.OPERATION_STATE_CLAIMED)
        assert outcome(answers[2]) == "in_progress"
        second = tenant.b.call(tenant.b.idempotency.BatchBegin, service_pb2.BatchBeginRequest(
            requests=[tenant.b.begin_request("h", b"e", b"two")]))
        assert_conflict(second.results[0].response, b"one", types_pb2.OPERATION_STATE_CLAIMED)

    def test_by_the_form_of_the_digest_whatever_the_digest_is(self, tenant):
        tenant.a.begin("h", b"e", json_content("1"))
        answer = tenant.b.begin("h", b"e", raw(b"1")).conflict
        assert answer.difference == types_pb2.Conflict.DIFFERENCE_DIGEST_SCHEME
        assert (answer.first_digest.scheme, answer.request_digest.scheme) == (JCS, RAW)
        assert answer.first_digest.sha256 == answer.request_digest.sha256

    def test_and_never_with_a_digest_that_the_caller_made_of_the_same_content(self, tenant):
        attempt = new_attempt()
        made = service_pb2.BeginRequest(handler="h", event_id=b"e", attempt_id=attempt, digest=digest_of(b"one"))
        assert outcome(tenant.a.call(tenant.a.idempotency.Begin, made)) == "granted"
        assert outcome(tenant.b.begin("h", b"e", b"one", attempt=attempt)) == "granted"


def first_digest(tenant, event_id: bytes, content: types_pb2.Content) -> types_pb2.ContentDigest:
    """The digest under which the content is kept, as others are told."""
    assert outcome(tenant.a.begin("h", event_id, content)) == "granted"
    return tenant.b.begin("h", event_id, content).in_progress.first_digest


@pytest.mark.scenario("B2")
class TestSpellings:
    EQUAL = ['{"b":[1,2],"a":"x"}', ' {\n "a" : "x",\t"b": [ 1 , 2 ] }\r\n', '{"\\u0061":"\\u0078","b":[1.0,2e0]}']

    def test_of_json_in_canonical_form_are_the_same(self, tenant):
        digests = [first_digest(tenant, b"%d" % i, json_content(text)).sha256 for i, text in enumerate(self.EQUAL)]
        assert set(digests) == {hashlib.sha256(b'{"a":"x","b":[1,2]}').digest()}
        other = first_digest(tenant, b"other", json_content('{"a":"x","b":[2,1]}'))
        assert other.sha256 not in digests

    def test_of_raw_content_are_different(self, tenant):
        assert outcome(tenant.a.begin("h", b"e", raw(self.EQUAL[0].encode()))) == "granted"
        for text in self.EQUAL[1:]:
            assert outcome(tenant.b.begin("h", b"e", raw(text.encode()))) == "conflict"


@pytest.mark.scenario("B3")
@pytest.mark.parametrize("name", [path.stem for path in sorted((ROOT / "tests/vectors/jcs/input").glob("*.json"))])
def test_vectors_of_rfc_8785_have_the_digest_of_their_canonical_form(tenant, name):
    document = (ROOT / f"tests/vectors/jcs/input/{name}.json").read_bytes()
    canonical = (ROOT / f"tests/vectors/jcs/output/{name}.json").read_bytes()
    digest = first_digest(tenant, b"e", json_content(document))
    assert digest == digest_of(canonical, JCS)
    assert outcome(tenant.b.begin("h", b"e", json_content(canonical))) == "in_progress"


@pytest.mark.scenario("B4")
class TestNumbersAndBrokenJson:
    @pytest.mark.parametrize("texts", [
        ("1", "1.0", "1e0", "10e-1", " 1"), ("9007199254740992", "9007199254740992.0", "9.007199254740992e15"),
        ("0", "-0", "0.0", "-0e5"), ("1e21", "1000000000000000000000.0"), ("0.000001", "1e-6"),
    ])
    def test_equal_numbers_are_equal(self, tenant, texts):
        assert len({first_digest(tenant, b"%d" % i, json_content(text)).sha256 for i, text in enumerate(texts)}) == 1

    REFUSED = {
        "integer_that_would_change": ('{"a":[0,9007199254740993]}', "/a/1"),
        "duplicate_names": ('{"a":{"b":1,"\\u0062":2}}', "/a/b"),
        "lone_surrogate": ('{"a":["\\ud800"]}', "/a/0"),
        "invalid_utf8": (b'{"a":"\xff"}', "/a"),
        "nan": ('{"a":NaN}', "/a"),
        "infinity": ('{"a":1e999}', "/a"),
        "half_a_document": ('{"a":[1,2', None),
        "two_documents": ("{} {}", None),
        "empty": ("", None),
        "10000_levels": ("[" * 10_000 + "]" * 10_000, None),
        "1000000_open_brackets": ("[" * 1_000_000, None),
    }

    @pytest.mark.parametrize("content, pointer", REFUSED.values(), ids=REFUSED.keys())
    def test_what_is_no_i_json_is_refused_with_the_place(self, tenant, content, pointer):
        with expect_failure(Code.INVALID_ARGUMENT, "CONTENT_NOT_CANONICAL") as failure:
            tenant.a.begin("h", b"e", json_content(content))
        assert failure[0].fields and failure[0].fields[0].startswith("content")
        assert 0 <= int(failure[0].metadata["offset"]) <= len(content)
        if pointer is not None:
            assert failure[0].metadata["pointer"] == pointer
            assert pointer in failure[0].message
        assert len(failure[0].message) < 2000
        # The raw form takes anything; the refused content has left nothing in its way.
        data = content if isinstance(content, bytes) else content.encode()
        assert outcome(tenant.b.begin("h", b"e", raw(data))) == "granted"


@pytest.mark.scenario("B5")
class TestSizesOfResults:
    @pytest.mark.parametrize("size", [0, 1, 512, 513, LIMIT])
    def test_up_to_the_limit_come_back_byte_for_byte(self, tenant, size):
        result = bytes(range(256)) * (size // 256) + b"\0" * (size % 256)
        claim = tenant.a.granted("h", b"e").claim
        stored = tenant.a.complete("h", b"e", claim, result, content_type="application/octet-stream").completed.receipt
        for end in tenant.callers:
            for answer in (end.begin("h", b"e"), end.lookup("h", b"e"), end.complete(
                    "h", b"e", claim, result, content_type="application/octet-stream")):
                assert answer.completed.receipt == stored
                assert (answer.completed.receipt.result, answer.completed.receipt.result_size) == (result, size)

    def test_beyond_the_limit_is_refused_and_the_claim_stays(self, tenant):
        claim = tenant.a.granted("h", b"e").claim
        with expect_failure(Code.INVALID_ARGUMENT, "RESULT_TOO_LARGE") as failure:
            tenant.a.complete("h", b"e", claim, b"x" * (LIMIT + 1))
        assert (failure[0].metadata["limit"], failure[0].metadata["size"]) == (str(LIMIT), str(LIMIT + 1))
        assert str(LIMIT) in failure[0].message and str(LIMIT + 1) in failure[0].message
        assert failure[0].fields == ["result"]

        batch = tenant.b.call(tenant.b.idempotency.BatchComplete, service_pb2.BatchCompleteRequest(requests=[
            service_pb2.CompleteRequest(handler="h", event_id=b"e", attempt_id=claim.attempt_id, fence=claim.fence,
                                        status=types_pb2.RECEIPT_STATUS_SUCCEEDED, result=b"x" * (LIMIT + 1))]))
        error = batch.results[0].error
        assert (error.code, error.reason) == (Code.INVALID_ARGUMENT.value[0], "RESULT_TOO_LARGE")
        assert (error.metadata["limit"], error.metadata["size"]) == (str(LIMIT), str(LIMIT + 1))

        # Nobody else runs it, and the owner can still say something smaller.
        assert outcome(tenant.b.begin("h", b"e")) == "in_progress"
        assert not tenant.b.complete("h", b"e", claim, b"see the order's page").completed.replayed
        assert tenant.operations("claims") == [["1"]]

    @pytest.mark.database
    def test_limit_that_the_database_cannot_take_keeps_the_server_from_starting(self, new_store):
        store = new_store()
        packet = int(store.server.sql("SELECT @@global.max_allowed_packet"))
        assert onced_program.run("migrate", *store.flags()).returncode == 0
        limit = min(packet, 64 << 20)
        refused = onced_program.run("serve", *store.flags(), "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--startup-timeout=0",
                                    f"--max-result-bytes={limit}", f"--max-message-bytes={2 * limit}")
        assert refused.returncode == 1
        assert "max_allowed_packet" in refused.stderr and str(packet) in refused.stderr


@pytest.mark.scenario("B6")
def test_final_refusal_is_replayed_with_its_first_time(tenant):
    claim = tenant.a.granted("h", b"e", handler_version="v7").claim
    stored = tenant.a.complete("h", b"e", claim, b"account closed", status=types_pb2.RECEIPT_STATUS_REJECTED).completed
    assert not stored.replayed
    for end in (tenant.b, tenant.a, tenant.b):
        answer = end.begin("h", b"e").completed
        assert answer.replayed
        assert answer.receipt == stored.receipt
        assert (answer.receipt.status, answer.receipt.handler_version) == (types_pb2.RECEIPT_STATUS_REJECTED, "v7")
        assert answer.receipt.complete_time.ToMicroseconds() > 0


@pytest.mark.scenario("B7")
def test_callers_can_tell_every_state_apart(tenant):
    def told(event_id: bytes, handler: str = "h") -> tuple:
        answer = tenant.b.begin(handler, event_id, b"content")
        kind = outcome(answer)
        if kind == "completed":
            return kind, types_pb2.ReceiptStatus.Name(answer.completed.receipt.status), answer.completed.replayed
        if kind == "granted":
            return kind, answer.granted.attempt_number, answer.granted.HasField("earlier_attempt")
        if kind == "in_progress":
            return kind, types_pb2.InProgress.Reason.Name(answer.in_progress.reason)
        return (kind,)

    for event_id, status in ((b"completed", types_pb2.RECEIPT_STATUS_SUCCEEDED), (b"rejected", types_pb2.RECEIPT_STATUS_REJECTED)):
        tenant.a.complete("h", event_id, tenant.a.granted("h", event_id).claim, status=status)
    tenant.a.granted("h", b"in progress")
    tenant.a.abandon("h", b"released", tenant.a.granted("h", b"released").claim)
    tenant.a.abandon("h", b"delayed", tenant.a.granted("h", b"delayed").claim, retry_delay=duration(600))
    tenant.a.granted("h", b"lapsed", lease=LAPSES)
    tenant.apply_policies(IN_DOUBT)
    tenant.a.granted("doubt.h", b"in doubt", lease=LAPSES)
    eventually(lambda: outcome(tenant.b.lookup("doubt.h", b"in doubt")) == "in_doubt")
    eventually(lambda: outcome(tenant.b.lookup("h", b"lapsed")) == "unclaimed")

    outcomes = {
        b"completed": ("completed", "RECEIPT_STATUS_SUCCEEDED", True),
        b"rejected": ("completed", "RECEIPT_STATUS_REJECTED", True),
        b"in progress": ("in_progress", "REASON_HELD"),
        b"delayed": ("in_progress", "REASON_DELAYED"),
        b"released": ("granted", 2, False),
        b"lapsed": ("granted", 2, True),
        b"new": ("granted", 1, False),
    }
    assert {event_id: told(event_id) for event_id in outcomes} == outcomes
    assert told(b"in doubt", "doubt.h") == ("in_doubt",)
    assert outcome(tenant.b.begin("h", b"completed", b"other content")) == "conflict"


@pytest.mark.scenario("B8", "C6")
class TestEventIds:
    ACCEPTED = [b"0193a5b2-7c1e-7f00-8000-0242ac120002", b"ab" * 32, b"x", b"\0", b"\0\0", b"a\0b", b"a\0c", b"y" * 255,
                b"z" * 254 + b"\0", b"a/b:c", b"/", b":", b" ", b"  ", b"x ", b" x", b"X", b"\xff\xfe", "é".encode(),
                "e\u0301".encode(), "É".encode(), "ß".encode(), b"ss", b"%", b"_", b"'; DROP TABLE operation; --", b"\\", b"\n"]

    def test_of_any_bytes_are_kept_apart(self, tenant):
        claims = [tenant.callers[i % 2].granted("h", event_id, b"%d" % i).claim for i, event_id in enumerate(self.ACCEPTED)]
        for i, event_id in enumerate(self.ACCEPTED):
            assert outcome(tenant.b.begin("h", event_id, b"%d" % i)) == "in_progress"
            tenant.a.complete("h", event_id, claims[i], b"result of %d" % i)
        for i, event_id in enumerate(self.ACCEPTED):
            assert tenant.b.lookup("h", event_id).completed.receipt.result == b"result of %d" % i
        assert tenant.operations("COUNT(*)") == [[str(len(self.ACCEPTED))]]

    @pytest.mark.parametrize("event_id", [b"", b"e" * 256], ids=["empty", "256 bytes"])
    def test_that_cannot_be_kept_are_refused_by_every_call(self, tenant, event_id):
        claim = types_pb2.Claim(attempt_id=new_attempt(), fence=1)
        service = tenant.a.idempotency
        calls = [lambda: tenant.a.begin("h", event_id), lambda: tenant.a.complete("h", event_id, claim),
                 lambda: tenant.a.abandon("h", event_id, claim), lambda: tenant.a.renew("h", event_id, claim),
                 lambda: tenant.a.lookup("h", event_id)]
        for call in calls:
            with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
                call()
            assert (failure[0].metadata["field"], failure[0].metadata["limit"]) == ("event_id", "255")
        batch = tenant.a.call(service.BatchBegin, service_pb2.BatchBeginRequest(
            requests=[tenant.a.begin_request("h", event_id), tenant.a.begin_request("h", b"neighbour")]))
        assert batch.results[0].error.reason == "INVALID_FIELD"
        assert outcome(batch.results[1].response) == "granted"
        assert tenant.operations("COUNT(*)") == [["1"]]


@pytest.mark.scenario("B12")
def test_receipt_stays_the_first_result_whatever_happens_to_the_business_later(tenant):
    """Points on an account: each operation's receipt names the balance of its own time."""
    balance, receipts = 0, {}
    for number in range(20):
        end = tenant.callers[number % 2]
        event_id = b"grant-%d" % number
        claim = end.granted("points.grant", event_id).claim
        balance += number
        result = json.dumps({"points": number, "balance": balance}).encode()
        receipts[event_id] = end.complete("points.grant", event_id, claim, result).completed.receipt
    for event_id, receipt in receipts.items():
        for end in tenant.callers:
            assert end.begin("points.grant", event_id).completed.receipt == receipt
            assert end.lookup("points.grant", event_id).completed.receipt == receipt


@pytest.mark.scenario("B13")
def test_who_is_refused_is_told_what_a_person_needs(tenant):
    tenant.a.granted("h", b"e", b"one", lease=600, consumer="worker-7", handler_version="v3")
    for end in tenant.callers:
        told = end.begin("h", b"e", b"one").in_progress
        assert (told.consumer, told.handler_version, told.attempt_number) == ("worker-7", "v3", 1)
        assert told.reason == types_pb2.InProgress.REASON_HELD
        assert 500 < told.lease_remaining.ToMilliseconds() / 1000 <= 600
        assert 0 < told.suggested_wait.ToMicroseconds() <= told.lease_remaining.ToMicroseconds()
        assert told.begin_time.ToMicroseconds() > 0
        assert told.first_digest == digest_of(b"one")
