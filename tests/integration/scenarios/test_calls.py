"""Deadlines, shutdown, hedging, tenants and metadata: rows D1–D3, D5, D6 and D9 of the catalogue."""

import base64
import collections
import re
import time

import pytest

from support import bare_http2
from support.caller import Caller, duration, expect_failure, failure_of
from support.tcp_gate import TcpGate
from support.waiting import eventually, outcome

import grpc
from once.v1 import admin_service_pb2, admin_service_pb2_grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

Code = grpc.StatusCode
BEGIN = "/once.v1.IdempotencyService/Begin"


@pytest.mark.scenario("D1")
def test_sigterm_with_500_waiting_calls_answers_all_of_them_and_exits_with_0(own_cluster):
    grace = 20
    cluster = own_cluster(flags=["--drain-delay=1s", f"--shutdown-grace={grace}s"])
    tenant = cluster.new_tenant()
    server = cluster.ends[-1]
    tenant.a.granted("h", b"held", consumer="owner")
    tenant.b.granted("h", b"known")
    waiting = [tenant.b.start(tenant.b.idempotency.Begin, tenant.b.begin_request("h", b"held", wait=60)) for _ in range(400)]
    waiting += [tenant.b.start(tenant.b.idempotency.Lookup, service_pb2.LookupRequest(
        handler="h", event_id=b"held", wait=duration(60))) for _ in range(100)]
    eventually(lambda: server.metrics().get("once_pipeline_waiters") == 500)

    start = time.monotonic()
    server.process.terminate()
    eventually(lambda: server.http_get("/readyz")[0] == 503)
    # Load balancers take their time to notice: calls are answered as before, and those that wait go on.
    assert tenant.b.granted("h", b"while draining").attempt_number == 1
    assert not any(call.done() for call in waiting)

    outcomes = collections.Counter(outcome(call.result()) for call in waiting)
    assert outcomes == {"in_progress": 500}
    assert server.wait() == 0
    assert time.monotonic() - start < grace
    # Nothing that was answered is lost, and a server that is left goes on.
    if server is not cluster.servers[0]:
        assert outcome(tenant.a.begin("h", b"while draining")) == "in_progress"


@pytest.mark.scenario("D1")
def test_sigterm_does_not_wait_for_connections_that_only_idle(own_cluster):
    """A client without calls may not read, so that it does not hear that the server goes."""
    cluster = own_cluster(servers=1, flags=["--shutdown-grace=5s"])
    tenant = cluster.new_tenant()
    tenant.a.granted("h", b"e")
    start = time.monotonic()
    cluster.servers[0].process.terminate()
    assert cluster.servers[0].wait() == 0
    assert time.monotonic() - start < 4


@pytest.mark.scenario("D2")
@pytest.mark.database
def test_calls_whose_deadline_passes_while_the_database_stands_still_never_start(own_cluster, database_server):
    with TcpGate("127.0.0.1", database_server.port) as gate:
        cluster = own_cluster(servers=1, ports=[gate.port], flags=["--committers=2"])
        tenant = cluster.new_tenant()
        tenant.a.granted("h", b"warm")
        stalled = time.monotonic()
        gate.stall()
        # Both committers are held in a transaction of a patient call.
        patient = [tenant.a.start(tenant.a.idempotency.Begin, tenant.a.begin_request("h", b"patient-%d" % n)) for n in range(20)]
        gate.wait_held(2)
        hasty = []
        for number in range(1000):
            request = tenant.a.begin_request("h", b"hasty-%d" % number)
            hasty.append(tenant.a.start(tenant.a.idempotency.Begin, request, deadline=0.05))
        failures = collections.Counter()
        for call in hasty:
            with pytest.raises(grpc.RpcError) as caught:
                call.result()
            failures[caught.value.code()] += 1
        assert failures == {Code.DEADLINE_EXCEEDED: 1000}
        assert not any(call.done() for call in patient)
        eventually(lambda: cluster.metric('once_calls_in_flight{method="Begin"') == len(patient))
        time.sleep(max(0, stalled + 5 - time.monotonic()))  # the five seconds of the scenario
        resumed = time.monotonic()
        gate.resume()
        assert {outcome(call.result()) for call in patient} == {"granted"}
        # No backlog: a later call does not wait for what nobody waits for any more.
        assert tenant.a.granted("h", b"later").attempt_number == 1
        assert time.monotonic() - resumed < 3
        assert sorted(row[0] for row in tenant.operations("event_id")) == sorted(
            ["warm", "later", *(f"patient-{n}" for n in range(20))])
        assert tenant.attempts("COUNT(*)") == [["22"]]


@pytest.mark.scenario("D3")
class TestADeadlineWithoutCancel:
    """The caller's header is all that the server hears of the deadline."""

    @staticmethod
    def send(tenant, message, timeout: bytes) -> bare_http2.Answer:
        return bare_http2.call(tenant.cluster.ends[-1].address, BEGIN, message.SerializeToString(), [
            (b"authorization", b"Bearer " + tenant.token.encode()), (b"grpc-timeout", timeout)])

    def test_ends_a_wait_with_what_is_known(self, tenant):
        tenant.a.granted("h", b"e")
        answer = self.send(tenant, tenant.a.begin_request("h", b"e", wait=30), b"1S")
        assert answer.ended == "trailers"
        assert answer.seconds < 5
        if answer.has_status(0):
            assert outcome(service_pb2.BeginResponse.FromString(answer.body)) == "in_progress"
        else:
            assert answer.has_status(Code.DEADLINE_EXCEEDED.value[0])
        eventually(lambda: tenant.cluster.metric("once_pipeline_waiters") == 0)

    def test_that_ends_at_once_leaves_no_half_of_a_call(self, tenant):
        """gRPC rounds a nanosecond up to a millisecond, in which a transaction may start; then it is whole."""
        request = tenant.a.begin_request("h", b"e")
        answer = self.send(tenant, request, b"1n")
        assert answer.ended in ("trailers", "reset")
        repeated = tenant.a.call(tenant.a.idempotency.Begin, request)
        assert repeated.granted.attempt_number == 1
        assert tenant.operations("COUNT(*)") == [["1"]]

    @pytest.mark.database
    def test_passes_for_a_call_that_stands_in_the_queue(self, own_cluster, database_server):
        with TcpGate("127.0.0.1", database_server.port) as gate:
            cluster = own_cluster(servers=1, ports=[gate.port], flags=["--committers=2"])
            tenant = cluster.new_tenant()
            tenant.a.granted("h", b"warm")
            with gate.stalled():
                patient = [tenant.a.start(tenant.a.idempotency.Begin, tenant.a.begin_request("h", b"patient-%d" % n))
                           for n in range(20)]
                gate.wait_held(2)
                answer = self.send(tenant, tenant.a.begin_request("h", b"queued"), b"300m")
                assert answer.ended in ("trailers", "reset")
                assert not answer.has_status(0)
                assert 0.25 < answer.seconds < 5
            assert {outcome(call.result()) for call in patient} == {"granted"}
            assert tenant.operations("*", b"queued") == []


@pytest.mark.scenario("D5")
def test_hedged_begins_are_one_attempt_with_one_grant(tenant):
    for number in range(50):
        event_id = b"e-%d" % number
        request = tenant.a.begin_request("h", event_id)
        hedges = [end.start(end.idempotency.Begin, request) for end in (tenant.a, tenant.b, tenant.a)]
        answers = [hedge.result() for hedge in hedges]
        assert [outcome(answer) for answer in answers] == ["granted"] * 3
        assert len({(a.granted.claim.fence, a.granted.claim.attempt_id, a.granted.attempt_number) for a in answers}) == 1
    assert tenant.operations("COUNT(*), SUM(claims), SUM(deliveries)") == [["50", "50", "150"]]


def _every_method(caller: Caller, handler: str, event_id: bytes, claim: types_pb2.Claim) -> dict:
    """A request for each method of IdempotencyService about one operation."""
    names = {"handler": handler, "event_id": event_id}
    own = {**names, "attempt_id": claim.attempt_id, "fence": claim.fence}
    complete = service_pb2.CompleteRequest(**own, status=types_pb2.RECEIPT_STATUS_SUCCEEDED, result=b"stolen")
    begin = caller.begin_request(handler, event_id, b"other content", attempt=claim.attempt_id)
    renew = service_pb2.RenewRequest(**own)
    service = caller.idempotency
    return {
        "Complete": (service.Complete, complete),
        "Abandon": (service.Abandon, service_pb2.AbandonRequest(**own, mode="MODE_RELEASE")),
        "Renew": (service.Renew, renew),
        "Lookup": (service.Lookup, service_pb2.LookupRequest(**names)),
        "BatchComplete": (service.BatchComplete, service_pb2.BatchCompleteRequest(requests=[complete])),
        "BatchRenew": (service.BatchRenew, service_pb2.BatchRenewRequest(requests=[renew])),
        "Begin": (service.Begin, begin),
        "BatchBegin": (service.BatchBegin, service_pb2.BatchBeginRequest(requests=[begin])),
    }


def _told(method, request, caller: Caller) -> str:
    """Everything that the caller can read, without the numbers that differ from call to call."""
    try:
        text = str(caller.call(method, request))
    except grpc.RpcError as error:
        text = str(failure_of(error))
    return re.sub(r"\d+", "N", re.sub(r" *nanos: \d+\n", "", text))


@pytest.mark.scenario("D6")
class TestAnotherTenant:
    @pytest.mark.parametrize("state", ["claimed", "completed", "rejected", "released"])
    def test_gets_from_every_method_what_it_would_get_if_the_first_did_not_exist(self, cluster, tenant, state):
        claim = tenant.a.granted("h", b"e", b"content", lease=600, consumer="first-tenant").claim
        if state in ("completed", "rejected"):
            status = types_pb2.RECEIPT_STATUS_SUCCEEDED if state == "completed" else types_pb2.RECEIPT_STATUS_REJECTED
            tenant.a.complete("h", b"e", claim, b"secret", status=status)
        elif state == "released":
            tenant.a.abandon("h", b"e", claim)
        before = tenant.operations("HEX(digest), state, HEX(attempt_id), fence, lease_expires_us, claims, deliveries")

        stranger, control = cluster.new_tenant(), cluster.new_tenant()
        # The same questions about something that nobody has: the answers must not differ in anything.
        asked = _every_method(stranger.b, "h", b"e", claim)
        about_nothing = _every_method(control.b, "h", b"f", claim)
        assert set(asked) == {method.name for method in service_pb2.DESCRIPTOR.services_by_name["IdempotencyService"].methods}
        for name, (method, request) in asked.items():
            told = _told(method, request, stranger.b)
            assert told == _told(*about_nothing[name], control.b), name
            assert "first-tenant" not in told and "secret" not in told
        assert before == tenant.operations(
            "HEX(digest), state, HEX(attempt_id), fence, lease_expires_us, claims, deliveries")
        stranger.close()
        control.close()

    def test_is_not_delayed_by_waiters_of_the_first(self, cluster, tenant):
        tenant.a.granted("h", b"e")
        waiting = [tenant.b.start(tenant.b.idempotency.Begin, tenant.b.begin_request("h", b"e", wait=2)) for _ in range(200)]
        stranger = cluster.new_tenant()
        mine = stranger.b.granted("h", b"e")
        assert mine.attempt_number == 1
        stranger.b.complete("h", b"e", mine.claim, b"mine")
        assert not any(call.done() for call in waiting)
        assert {outcome(call.result()) for call in waiting} == {"in_progress"}
        stranger.close()

    def test_cannot_be_had_by_asking_for_it(self, tenant):
        """There is no field for a tenant: the credential is the only way to say it. Nor do consumers administrate."""
        for message in service_pb2.DESCRIPTOR.message_types_by_name.values():
            assert not any("tenant" in field.name for field in message.fields)
        for name, request in (("CreateTenant", admin_service_pb2.CreateTenantRequest(name="x")),
                              ("ListTenants", admin_service_pb2.ListTenantsRequest()),
                              ("ListCredentials", admin_service_pb2.ListCredentialsRequest(tenant=tenant.name)),
                              ("CreateCredential", admin_service_pb2.CreateCredentialRequest(
                                  tenant=tenant.name, role=admin_service_pb2.ROLE_CONSUMER)),
                              ("RotateCredential", admin_service_pb2.RotateCredentialRequest(credential_id="0" * 16)),
                              ("RevokeCredential", admin_service_pb2.RevokeCredentialRequest(credential_id="0" * 16))):
            with expect_failure(Code.PERMISSION_DENIED, "PERMISSION_DENIED") as failure:
                tenant.a.call(getattr(tenant.a.admin, name), request)
            assert tenant.name not in failure[0].message


@pytest.mark.scenario("D9")
class TestMetadata:
    @staticmethod
    def begin(tenant, *fields) -> bare_http2.Answer:
        message = tenant.a.begin_request("h", b"e").SerializeToString()
        return bare_http2.call(tenant.cluster.ends[-1].address, BEGIN, message, fields)

    @pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b"Bearer   "])
    def test_scheme_in_any_case_is_accepted(self, tenant, scheme):
        answer = self.begin(tenant, (b"authorization", scheme + tenant.token.encode()))
        assert (answer.ended, answer.has_status(0)) == ("trailers", True)
        assert outcome(service_pb2.BeginResponse.FromString(answer.body)) == "granted"

    ODD = {
        "none": lambda token: [],
        "empty": lambda token: [(b"authorization", b"")],
        "no_scheme": lambda token: [(b"authorization", token)],
        "scheme_only": lambda token: [(b"authorization", b"Bearer ")],
        "basic": lambda token: [(b"authorization", b"Basic " + token)],
        "twice": lambda token: [(b"authorization", b"Bearer " + token)] * 2,
        "two_in_one": lambda token: [(b"authorization", b"Bearer " + token + b", Bearer " + token)],
        "other_header": lambda token: [(b"x-authorization", b"Bearer " + token)],
        "binary_header": lambda token: [(b"authorization-bin", base64.b64encode(b"Bearer " + token))],
        "non_ascii": lambda token: [(b"authorization", b"Bearer " + token + b"\xc3\xa9\xff")],
        "token_in_other_case": lambda token: [(b"authorization", b"Bearer " + token.upper())],
        "token_cut_off": lambda token: [(b"authorization", b"Bearer " + token[:-1])],
        "token_and_more": lambda token: [(b"authorization", b"Bearer " + token + b"0")],
        "8_kib": lambda token: [(b"authorization", b"Bearer " + token + b"x" * (8192 - 7 - len(token)))],
        "10_kib": lambda token: [(b"authorization", b"Bearer " + token + b"x" * 10240)],
        "format_string": lambda token: [(b"authorization", b"Bearer %s%n{}{0}")],
    }

    @pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
    def test_that_names_nobody_is_unauthenticated(self, tenant, make):
        answer = self.begin(tenant, *make(tenant.token.encode()))
        assert answer.ended == "trailers", answer
        assert answer.has_status(Code.UNAUTHENTICATED.value[0]), answer
        assert tenant.token.encode() not in answer.headers
        assert tenant.operations("*") == []

    # Not for HTTP/2: the transport refuses them with a status, a reset or the end of the connection.
    BROKEN = {
        "binary_header_that_is_text": lambda token: [(b"authorization-bin", b"Bearer " + token)],
        "upper_case_name": lambda token: [(b"Authorization", b"Bearer " + token)],
        "nul_in_value": lambda token: [(b"authorization", b"Bearer " + token + b"\0")],
        "line_end_in_value": lambda token: [(b"authorization", b"Bearer " + token + b"\r\nx: y")],
        "100_kib": lambda token: [(b"authorization", b"Bearer " + token + b"x" * 102400)],
        "1000_fields": lambda token: [(b"x-%d" % n, b"y" * 50) for n in range(1000)],
    }

    @pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN.keys())
    def test_that_is_broken_is_refused_and_leaves_the_server_well(self, tenant, make):
        answer = self.begin(tenant, *make(tenant.token.encode()))
        assert answer.ended
        assert not answer.has_status(0), answer
        assert tenant.operations("*") == []
        assert tenant.b.granted("h", b"after").attempt_number == 1

    def test_of_any_other_name_has_no_effect(self, tenant):
        answer = self.begin(tenant, (b"authorization", b"Bearer " + tenant.token.encode()), (b"x-tenant", b"other"),
                            (b"tenant", b"other"), (b"grpc-accept-encoding", b"zip"), (b"traceparent", b"00-zz\xff"),
                            (b"user-agent", b"\xc3\xa9" * 100))
        assert answer.has_status(0), answer
        assert tenant.operations("COUNT(*)") == [["1"]]

    def test_refused_callers_learn_nothing_about_why(self, tenant):
        token = tenant.token
        wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
        unknown = "once_" + "0" * 16 + token[token.rindex("_"):]
        messages = set()
        for bad in (wrong, unknown, "once_x_y", "x"):
            caller = Caller(tenant.cluster.ends[0].address, bad)
            with expect_failure(Code.UNAUTHENTICATED, "UNAUTHENTICATED") as failure:
                caller.begin("h", b"e")
            messages.add((failure[0].message, tuple(failure[0].metadata.items())))
            caller.close()
        assert len(messages) == 1
