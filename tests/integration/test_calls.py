"""The calls of the contract, end to end, by a caller that has only the protos; on the embedded store and on a database."""

import concurrent.futures
import subprocess
import time

import pytest

from support.caller import Caller, expect_failure, new_attempt

import grpc
from once.v1 import admin_service_pb2
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

Code = grpc.StatusCode


def test_begin_complete_replay(world):
    consumer = world.consumer()
    granted = consumer.granted("points.grant", b"order-1", handler_version="v1", consumer="worker-1")
    assert granted.attempt_number == 1
    held = consumer.begin("points.grant", b"order-1").in_progress
    assert (held.consumer, held.reason) == ("worker-1", types_pb2.InProgress.REASON_HELD)

    completed = consumer.complete("points.grant", b"order-1", granted.claim, b"\x00result", content_type="application/x").completed
    assert not completed.replayed
    again = consumer.complete("points.grant", b"order-1", granted.claim, b"\x00result", content_type="application/x").completed
    assert again.replayed
    replay = consumer.begin("points.grant", b"order-1").completed
    assert replay.replayed
    assert replay.receipt == completed.receipt
    assert (replay.receipt.result, replay.receipt.content_type, replay.receipt.handler_version) == (b"\x00result", "application/x", "v1")
    assert consumer.lookup("points.grant", b"order-1").completed.receipt == completed.receipt


def test_other_content_is_a_conflict_on_every_path(world):
    consumer = world.consumer()
    claim = consumer.granted("h", b"e", b"one").claim
    assert consumer.begin("h", b"e", b"two").WhichOneof("outcome") == "conflict"
    assert consumer.begin("h", b"e", b"two", attempt=claim.attempt_id).WhichOneof("outcome") == "conflict"
    consumer.complete("h", b"e", claim)
    conflict = consumer.begin("h", b"e", b"two").conflict
    assert conflict.state == types_pb2.OPERATION_STATE_COMPLETED
    assert conflict.first_digest.sha256 != conflict.request_digest.sha256
    assert consumer.lookup("h", b"e", content=types_pb2.Content(data=b"two")).WhichOneof("outcome") == "conflict"
    batch = consumer.call(consumer.idempotency.BatchBegin, service_pb2.BatchBeginRequest(
        requests=[consumer.begin_request("h", b"e", b"two"), consumer.begin_request("h", b"e", b"one")]))
    assert [item.response.WhichOneof("outcome") for item in batch.results] == ["conflict", "completed"]


def test_a_lost_reply_is_repeated_safely(world):
    consumer = world.consumer()
    attempt = new_attempt()
    first = consumer.granted("h", b"e", attempt=attempt)
    second = consumer.granted("h", b"e", attempt=attempt)
    assert (first.claim.fence, first.attempt_number) == (second.claim.fence, second.attempt_number)


def test_a_dead_owner_is_told_to_the_next_one(world):
    consumer = world.consumer()
    dead = consumer.granted("h", b"e", lease=0.2, consumer="dead").claim
    time.sleep(0.3)
    taken = consumer.granted("h", b"e")
    assert taken.claim.fence > dead.fence
    assert taken.attempt_number == 2
    assert (taken.earlier_attempt.attempt_id, taken.earlier_attempt.consumer) == (dead.attempt_id, "dead")
    late = consumer.complete("h", b"e", dead)
    assert late.WhichOneof("outcome") == "claim_lost"
    assert consumer.renew("h", b"e", dead).WhichOneof("outcome") == "claim_lost"
    assert consumer.complete("h", b"e", taken.claim).completed.receipt.fence == taken.claim.fence


def test_handlers_in_doubt_are_not_run_twice(store_flags, bootstrap, start, connect):
    token = bootstrap(store_flags)
    server = start(*store_flags)
    admin = connect(server, token)
    admin.create_tenant("acme")
    admin.apply_policies("acme", 'policies { handler: "pay.*" expired_lease: EXPIRED_LEASE_IN_DOUBT }')
    server.wait_for_policies()
    consumer = connect(server, admin.create_credential("acme").token)
    dead = consumer.granted("pay.out", b"e", lease=0.2).claim
    consumer.granted("audit", b"e", lease=0.2)
    time.sleep(0.3)
    assert consumer.begin("pay.out", b"e").in_doubt.earlier_attempts[0].attempt_id == dead.attempt_id
    assert consumer.lookup("pay.out", b"e").WhichOneof("outcome") == "in_doubt"
    assert consumer.begin("audit", b"e").WhichOneof("outcome") == "granted"
    # Who found out says so: the late owner may still complete, nobody took over.
    assert consumer.complete("pay.out", b"e", dead).WhichOneof("outcome") == "completed"


def test_abandon_releases_or_forgets(world):
    consumer = world.consumer()
    claim = consumer.granted("h", b"released").claim
    assert consumer.abandon("h", b"released", claim).abandoned.mode == service_pb2.AbandonRequest.MODE_RELEASE
    assert consumer.lookup("h", b"released").unclaimed.state == types_pb2.OPERATION_STATE_RELEASED
    assert consumer.begin("h", b"released", b"other").WhichOneof("outcome") == "conflict"
    again = consumer.granted("h", b"released")
    assert (again.attempt_number, again.claim.fence > claim.fence) == (2, True)

    claim = consumer.granted("h", b"forgotten").claim
    consumer.abandon("h", b"forgotten", claim, service_pb2.AbandonRequest.MODE_FORGET)
    with expect_failure(Code.NOT_FOUND, "OPERATION_NOT_FOUND"):
        consumer.lookup("h", b"forgotten")
    fresh = consumer.granted("h", b"forgotten", b"other")
    assert (fresh.attempt_number, fresh.claim.fence > claim.fence) == (1, True)


def test_renew_extends_and_never_shortens(world):
    consumer = world.consumer()
    claim = consumer.granted("h", b"e", lease=5).claim
    longer = consumer.renew("h", b"e", claim, lease=60).claim
    assert longer.lease_remaining.seconds >= 55
    shorter = consumer.renew("h", b"e", claim, lease=1).claim
    assert shorter.lease_remaining.seconds >= 55


def test_a_waiter_gets_the_receipt_when_it_is_there(world):
    consumer = world.consumer()
    claim = consumer.granted("h", b"e").claim
    waiting = consumer.start(consumer.idempotency.Begin, consumer.begin_request("h", b"e", wait=30))
    looking = consumer.start(consumer.idempotency.Lookup, service_pb2.LookupRequest(
        handler="h", event_id=b"e", wait=consumer.begin_request("h", b"x", wait=30).wait))
    while world.server.metrics().get("once_pipeline_waiters") != 2:
        time.sleep(0.02)
    begun = time.monotonic()
    consumer.complete("h", b"e", claim, b"r")
    assert waiting.result().completed.receipt.result == b"r"
    assert looking.result().completed.receipt.result == b"r"
    assert time.monotonic() - begun < 5


def test_a_waiter_gives_up_in_time(world):
    consumer = world.consumer()
    consumer.granted("h", b"e")
    begun = time.monotonic()
    answer = consumer.begin("h", b"e", wait=1)
    assert answer.WhichOneof("outcome") == "in_progress"
    assert 0.9 < time.monotonic() - begun < 10


def test_batches_answer_per_item(world):
    consumer = world.consumer()
    done = consumer.granted("h", b"done").claim
    consumer.complete("h", b"done", done)
    same = consumer.begin_request("h", b"twice")
    other = consumer.begin_request("h", b"twice")
    answer = consumer.call(consumer.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=[
        consumer.begin_request("h", b"new"), consumer.begin_request("h", b"done"), consumer.begin_request("h", b"x" * 256), same, other,
    ]))
    outcomes = [item.response.WhichOneof("outcome") or item.error.reason for item in answer.results]
    assert outcomes == ["granted", "completed", "INVALID_FIELD", "granted", "in_progress"]
    error = answer.results[2].error
    assert ("requests[2].event_id" in error.message, "255" in error.message) == (True, True)

    claims = [(b"new", answer.results[0].response.granted.claim), (b"twice", answer.results[3].response.granted.claim)]
    renewed = consumer.call(consumer.idempotency.BatchRenew, service_pb2.BatchRenewRequest(requests=[
        service_pb2.RenewRequest(handler="h", event_id=event, attempt_id=claim.attempt_id, fence=claim.fence) for event, claim in claims]))
    assert [item.response.WhichOneof("outcome") for item in renewed.results] == ["claim", "claim"]
    completed = consumer.call(consumer.idempotency.BatchComplete, service_pb2.BatchCompleteRequest(requests=[
        service_pb2.CompleteRequest(handler="h", event_id=event, attempt_id=claim.attempt_id, fence=claim.fence,
                                    status=types_pb2.RECEIPT_STATUS_SUCCEEDED, result=event) for event, claim in claims]))
    assert [item.response.completed.receipt.result for item in completed.results] == [b"new", b"twice"]


@pytest.mark.parametrize("size", [0, 1, 512, 513, 1 << 20])
def test_results_come_back_byte_for_byte(world, size):
    consumer = world.consumer()
    result = bytes(n * 7 % 256 for n in range(min(size, 4096))) * (size // min(size, 4096) if size else 0)
    claim = consumer.granted("h", b"e").claim
    consumer.complete("h", b"e", claim, result)
    assert consumer.begin("h", b"e").completed.receipt.result == result


def test_a_result_that_is_too_large_keeps_the_claim(world):
    consumer = world.consumer()
    claim = consumer.granted("h", b"e").claim
    with expect_failure(Code.INVALID_ARGUMENT, "RESULT_TOO_LARGE") as failure:
        consumer.complete("h", b"e", claim, b"x" * ((1 << 20) + 1))
    assert failure[0].metadata["limit"] == str(1 << 20)
    assert failure[0].metadata["size"] == str((1 << 20) + 1)
    assert consumer.complete("h", b"e", claim, b"smaller").WhichOneof("outcome") == "completed"


def test_event_ids_are_bytes(world):
    """C6, B8: no collation, no folding, no trimming, no normalisation."""
    consumer = world.consumer()
    event_ids = [b"A", b"a", b"x", b"x ", b"x\x00", b"\x00", b"a\x00b", b"\xff\xfe", b"/", b":", b"e" * 255,
                 "\u00e9".encode(), "e\u0301".encode()]
    for event_id in event_ids:
        assert consumer.granted("h", event_id).attempt_number == 1


def test_tenants_do_not_meet(world):
    ours, theirs = world.consumer("acme"), world.consumer("globex")
    claim = ours.granted("h", b"e", b"ours").claim
    assert theirs.granted("h", b"e", b"theirs").attempt_number == 1
    ours.granted("h", b"only ours")
    with expect_failure(Code.NOT_FOUND, "OPERATION_NOT_FOUND"):
        theirs.lookup("h", b"only ours")
    assert theirs.complete("h", b"e", claim).WhichOneof("outcome") == "claim_lost"
    assert ours.complete("h", b"e", claim).WhichOneof("outcome") == "completed"


def test_credentials_reach_their_handlers_only(world):
    consumer = world.consumer(patterns=["orders.*", "audit"])
    consumer.granted("orders.paid", b"e")
    consumer.granted("audit", b"e")
    for handler in ("orders", "auditor", "billing"):
        with expect_failure(Code.PERMISSION_DENIED, "PERMISSION_DENIED") as failure:
            consumer.begin(handler, b"e")
        assert failure[0].metadata["handler"] == handler


def test_roles_do_not_mix(world):
    with expect_failure(Code.PERMISSION_DENIED, "PERMISSION_DENIED"):
        world.admin.begin("h", b"e")
    with expect_failure(Code.PERMISSION_DENIED, "PERMISSION_DENIED"):
        world.consumer().create_tenant("mine")


def test_every_method_asks_for_a_credential(world):
    from once.v1 import admin_service_pb2 as admin_pb2

    anonymous = world._connect(world.server, None)
    for module, stub in ((service_pb2, anonymous.idempotency), (admin_pb2, anonymous.admin)):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                request = getattr(module, method.input_type.name)()
                with expect_failure(Code.UNAUTHENTICATED, "UNAUTHENTICATED"):
                    anonymous.call(getattr(stub, method.name), request)


def test_a_revoked_credential_is_refused_within_the_documented_time(world):
    admin = world.admin
    world.token()
    made = admin.create_credential("acme")
    consumer = world._connect(world.server, made.token)
    consumer.granted("h", b"e1")
    rotated = admin.call(admin.admin.RotateCredential, admin_service_pb2.RotateCredentialRequest(
        credential_id=made.credential.credential_id))
    admin.call(admin.admin.RevokeCredential, admin_service_pb2.RevokeCredentialRequest(credential_id=made.credential.credential_id))
    world._connect(world.server, rotated.token).granted("h", b"e2")
    deadline = time.monotonic() + 8
    while True:
        try:
            consumer.begin("h", b"e1")
        except grpc.RpcError as error:
            assert error.code() == Code.UNAUTHENTICATED
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_errors_name_field_limit_and_value(world):
    consumer = world.consumer()
    with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
        consumer.begin("h", b"x" * 256)
    assert failure[0].fields == ["event_id"]
    assert ("256" in failure[0].message, "255" in failure[0].message) == (True, True)
    with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
        consumer.begin("h", b"e", lease=24 * 3600 + 1)
    assert failure[0].fields == ["lease"]


def test_200_callers_of_one_key_over_two_servers(mysql_flags, bootstrap, start, connect):
    """A6, a few rounds; the long form is a fault test."""
    token = bootstrap(mysql_flags)
    servers = [start(*mysql_flags) for _ in range(2)]
    admin = connect(servers[0], token)
    admin.create_tenant("acme")
    consumer_token = admin.create_credential("acme").token
    callers = [connect(servers[n % 2], consumer_token) for n in range(4)]
    for round_number in range(5):
        event = b"round-%d" % round_number
        calls = [callers[n % 4].start(callers[n % 4].idempotency.Begin, callers[n % 4].begin_request("h", event)) for n in range(200)]
        outcomes = [call.result().WhichOneof("outcome") for call in calls]
        assert outcomes.count("granted") == 1
        assert outcomes.count("in_progress") == 199


def test_completion_on_another_server_wakes_a_waiter(mysql_flags, bootstrap, start, connect):
    token = bootstrap(mysql_flags)
    first, second = start(*mysql_flags), start(*mysql_flags)
    admin = connect(first, token)
    admin.create_tenant("acme")
    consumer_token = admin.create_credential("acme").token
    one, two = connect(first, consumer_token), connect(second, consumer_token)
    claim = one.granted("h", b"e").claim
    waiting = two.start(two.idempotency.Begin, two.begin_request("h", b"e", wait=30))
    while second.metrics().get("once_pipeline_waiters") != 1:
        time.sleep(0.02)
    one.complete("h", b"e", claim, b"r")
    assert waiting.result(timeout=10).completed.receipt.result == b"r"


def test_tls_and_client_certificates(sqlite_flags, bootstrap, start, tmp_path):
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=tmp_path)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2", "-subj", "/CN=ca",
            "-addext", "keyUsage=critical,keyCertSign", "-keyout", "ca-key.pem", "-out", "ca.pem")
    (tmp_path / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-subj", f"/CN={name}",
                "-keyout", f"{name}-key.pem", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2",
                "-extfile", "san", "-out", f"{name}.pem")
    token = bootstrap(sqlite_flags)
    server = start(*sqlite_flags, f"--tls-cert={tmp_path}/server.pem", f"--tls-key={tmp_path}/server-key.pem",
                   f"--tls-client-ca={tmp_path}/ca.pem", "--tls-client-auth=require", "--listen=0.0.0.0:0")
    address = server.address.replace("0.0.0.0", "127.0.0.1")
    ca, key, cert = ((tmp_path / name).read_bytes() for name in ("ca.pem", "client-key.pem", "client.pem"))
    with_certificate = Caller(address, token, grpc.ssl_channel_credentials(ca, key, cert))
    with_certificate.create_tenant("acme")
    for stranger in (Caller(address, token, grpc.ssl_channel_credentials(ca)), Caller(address, token)):
        with pytest.raises(grpc.RpcError) as refused:
            stranger.create_tenant("other")
        assert refused.value.code() == Code.UNAVAILABLE
        stranger.close()
    with_certificate.close()


def health(caller: Caller, service: str = "") -> int:
    """grpc.health.v1.Health/Check, with the messages written by hand: field 1 of the request, field 1 of the response."""
    request = b"\n" + bytes([len(service)]) + service.encode() if service else b""
    answer = caller.channel.unary_unary("/grpc.health.v1.Health/Check", lambda b: b, lambda b: b)(request, timeout=10)
    return answer[1] if answer else 0


def test_the_standard_health_service_needs_no_credential(sqlite_world):
    anonymous = sqlite_world._connect(sqlite_world.server, None)
    assert health(anonymous) == 1
    assert health(anonymous, "once.v1.IdempotencyService") == 1


@pytest.mark.parametrize("on", [False, True])
def test_reflection_is_a_choice(sqlite_flags, start, connect, on):
    server = start(*sqlite_flags, "--migrate", *(["--reflection"] if on else []))
    caller = connect(server, None)
    stream = caller.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", lambda b: b, lambda b: b)
    list_services = b"\x3a\x00"
    try:
        answer = b"".join(stream(iter([list_services]), timeout=10))
    except grpc.RpcError as error:
        assert error.code() == Code.UNIMPLEMENTED
        assert not on
    else:
        assert on
        assert b"once.v1.IdempotencyService" in answer
