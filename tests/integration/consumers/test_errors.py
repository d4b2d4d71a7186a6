"""Every error that a caller can provoke, with all its details, as the stock libraries of both languages read them."""

import pytest
from driving import CallFailed, b64, duration, new_attempt

from support.tcp_gate import Moment, TcpGate, event_markers
from support.waiting import eventually

EVENT = b"event-1"
MIB = 1 << 20


def failure(command) -> CallFailed:
    """The error of a call that must fail; checks what holds for every error that the server makes."""
    with pytest.raises(CallFailed) as caught:
        command() if callable(command) else command.answer()
    error = caught.value
    assert error.domain == "once", error.error
    assert error.message
    assert error.metadata.get("field", "") in error.message
    if error.field_violations:
        assert error.field_violations == [{"field": error.metadata["field"], "description": error.message}]
    return error


def begin(**changes) -> dict:
    return {"handler": "h", "event_id": b64(EVENT), "attempt_id": b64(b"a" * 16), "content": {"data": ""}, **changes}


def claimed(**changes) -> dict:
    return {"handler": "h", "event_id": b64(EVENT), "attempt_id": b64(b"a" * 16), "fence": "1", **changes}


# call, request, field, metadata besides the field
INVALID = {
    "no handler": ("begin", begin(handler=""), "handler", {"size": "0", "limit": "128"}),
    "long handler": ("begin", begin(handler="h" * 129), "handler", {"size": "129", "limit": "128"}),
    "odd handler": ("begin", begin(handler="points grant"), "handler", {"offset": "6"}),
    "no event id": ("begin", begin(event_id=""), "event_id", {"size": "0", "limit": "255"}),
    "long event id": ("begin", begin(event_id=b64(b"e" * 256)), "event_id", {"size": "256", "limit": "255"}),
    "short attempt id": ("begin", begin(attempt_id=b64(b"a" * 15)), "attempt_id", {"size": "15", "limit": "16"}),
    "zero attempt id": ("begin", begin(attempt_id=b64(bytes(16))), "attempt_id", {}),
    "no payload": ("begin", {k: v for k, v in begin().items() if k != "content"}, "payload", {}),
    "large content": ("begin", begin(content={"data": b64(bytes(MIB + 1))}), "content.data",
                      {"size": str(MIB + 1), "limit": str(MIB)}),
    "unknown scheme": ("begin", begin(content={"data": "", "scheme": 77}), "content.scheme", {"value": "77"}),
    "digest without scheme": ("lookup", {"handler": "h", "event_id": b64(EVENT), "digest": {"sha256": b64(bytes(32))}},
                              "digest.scheme", {}),
    "short digest": ("lookup", {"handler": "h", "event_id": b64(EVENT), "digest": {"scheme": 1, "sha256": b64(bytes(31))}},
                     "digest.sha256", {"size": "31", "limit": "32"}),
    "negative lease": ("begin", begin(lease={"seconds": "-1", "nanos": 0}), "lease", {"value": "-1s", "limit": "100ms"}),
    "short lease": ("begin", begin(lease=duration(0.099)), "lease", {"value": "99ms", "limit": "100ms"}),
    "long lease": ("renew", claimed(lease=duration(86401)), "lease", {"value": "24h1s", "limit": "24h"}),
    "longest lease": ("begin", begin(lease={"seconds": str(2**63 - 1), "nanos": 999_999_999}), "lease", {}),
    "mixed signs": ("begin", begin(lease={"seconds": "1", "nanos": -1}), "lease", {}),
    "long wait": ("lookup", {"handler": "h", "event_id": b64(EVENT), "wait": duration(60.001)}, "wait",
                  {"value": "1m0.001s", "limit": "1m"}),
    "long consumer": ("begin", begin(consumer="c" * 129), "consumer", {"size": "129", "limit": "128"}),
    "long handler version": ("begin", begin(handler_version="v" * 65), "handler_version", {"size": "65", "limit": "64"}),
    "long reference": ("begin", begin(delivery={"reference": "r" * 256}), "delivery.reference", {"size": "256", "limit": "255"}),
    "unknown source": ("begin", begin(delivery={"source": 77}), "delivery.source", {"value": "77"}),
    "cause without event": ("begin", begin(causation={"handler": "h"}), "causation.event_id", {"size": "0", "limit": "255"}),
    "aggregate without id": ("begin", begin(aggregate={"version": "1"}), "aggregate.id", {"size": "0", "limit": "255"}),
    "least aggregate version": ("begin", begin(aggregate={"id": "order", "version": str(-(2**63))}), "aggregate.version",
                                {"value": str(-(2**63)), "limit": "0"}),
    "no fence": ("complete", claimed(fence="0", status="RECEIPT_STATUS_SUCCEEDED"), "fence", {"value": "0", "limit": "1"}),
    "least fence": ("renew", claimed(fence=str(-(2**63))), "fence", {"value": str(-(2**63)), "limit": "1"}),
    "no status": ("complete", claimed(), "status", {"value": "0"}),
    "long content type": ("complete", claimed(status=1, content_type="t" * 129), "content_type", {"size": "129", "limit": "128"}),
    "no mode": ("abandon", claimed(), "mode", {"value": "0"}),
    "delayed forget": ("abandon", claimed(mode="MODE_FORGET", retry_delay=duration(1)), "retry_delay", {}),
    "long retry delay": ("abandon", claimed(mode="MODE_RELEASE", retry_delay=duration(86401)), "retry_delay",
                         {"value": "24h1s", "limit": "24h"}),
    "long reason": ("abandon", claimed(mode="MODE_RELEASE", reason="r" * 256), "reason", {"size": "256", "limit": "255"}),
    "empty batch": ("batch_begin", {"requests": []}, "requests", {"size": "0", "limit": "1000"}),
    "long batch": ("batch_renew", {"requests": [claimed()] * 1001}, "requests", {"size": "1001", "limit": "1000"}),
}


@pytest.mark.parametrize("case", INVALID.values(), ids=INVALID)
def test_wrong_field_is_named_with_its_limit(one, case):
    call, request, field, metadata = case
    error = failure(lambda: one.call(call, request))
    assert (error.code, error.reason, error.repeatable) == ("INVALID_ARGUMENT", "INVALID_FIELD", False)
    assert error.metadata == {**error.metadata, "field": field, **metadata}
    assert error.field_violations[0]["field"] == field
    assert error.retry_delay is None


NOT_CANONICAL = {
    "integer that would change": (b'{"a":[1,{"b":9007199254740993}]}', "/a/1/b", "13"),
    "duplicate name": (b'{"a":1,"a":2}', "/a", "7"),
    "invalid UTF-8": (b'{"a":"\xff"}', "/a", "6"),
    "lone surrogate": (b'["\\ud800"]', "/0", "8"),
    "no JSON at all": (b"", "", "0"),
}


@pytest.mark.parametrize("case", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_content_without_canonical_form_is_refused_with_the_place(one, case):
    content, pointer, offset = case
    error = failure(lambda: one.begin("h", EVENT, content, scheme="DIGEST_SCHEME_JSON_JCS_SHA256"))
    assert (error.code, error.reason, error.repeatable) == ("INVALID_ARGUMENT", "CONTENT_NOT_CANONICAL", False)
    assert error.metadata == {"field": "content.data", "pointer": pointer, "offset": offset}
    assert error.field_violations[0]["field"] == "content.data"


def test_too_large_result_leaves_the_claim_for_a_smaller_one(one):
    claim = one.granted("h", EVENT)["claim"]
    error = failure(lambda: one.complete("h", EVENT, claim, bytes(MIB + 1)))
    assert (error.code, error.reason, error.repeatable) == ("INVALID_ARGUMENT", "RESULT_TOO_LARGE", False)
    assert error.metadata == {"field": "result", "size": str(MIB + 1), "limit": str(MIB)}
    assert error.field_violations[0]["field"] == "result"
    assert one.complete("h", EVENT, claim, bytes(MIB))["completed"]["receipt"]["result_size"] == str(MIB)


@pytest.mark.parametrize("token", ["", "once_0123456789abcdef_secret", "once", "x" * 8193])
@pytest.mark.parametrize("language", ["python", "node"])
def test_unknown_credential_is_not_told_why(server, programs, language, token):
    stranger = programs(language).connect(server.address, token)
    error = failure(lambda: stranger.begin("h", EVENT))
    assert (error.code, error.reason, error.repeatable) == ("UNAUTHENTICATED", "UNAUTHENTICATED", False)
    assert (error.metadata, error.retry_delay, error.field_violations) == ({}, None, [])


def test_handler_outside_of_the_credential_is_refused(one, token, programs, server):
    narrow = programs(one.program.language).connect(server.address, token(patterns=["points.*"]))
    narrow.granted("points.grant", EVENT)
    error = failure(lambda: narrow.begin("orders.ship", EVENT))
    assert (error.code, error.reason, error.repeatable) == ("PERMISSION_DENIED", "PERMISSION_DENIED", False)
    assert error.metadata == {"handler": "orders.ship"}


def test_role_that_does_not_cover_the_service_is_refused(one, programs, server, admin_token):
    error = failure(lambda: programs(one.program.language).connect(server.address, admin_token).begin("h", EVENT))
    assert (error.code, error.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert error.metadata == {"role": "admin"}


@pytest.mark.parametrize("call, more", [("complete", {"status": "RECEIPT_STATUS_SUCCEEDED"}), ("abandon", {"mode": "MODE_RELEASE"}),
                                        ("renew", {}), ("lookup", None)])
def test_operation_that_was_never_begun_is_not_found(one, call, more):
    request = {"handler": "h", "event_id": b64(EVENT)} if more is None else claimed(**more)
    error = failure(lambda: one.call(call, request))
    assert (error.code, error.reason, error.repeatable) == ("NOT_FOUND", "OPERATION_NOT_FOUND", False)
    assert error.metadata == {"handler": "h"}


def test_forgetting_what_is_not_there_is_done_already(one):
    assert one.call("abandon", claimed(mode="MODE_FORGET"))["abandoned"]["mode"] == "MODE_FORGET"


# ---- the control plane ----


def test_errors_of_the_control_plane(one, server, admin_token):
    operator = one.program.connect(server.address, admin_token)
    name = f"tenant-of-{one.program.language}-{new_attempt().hex()}"
    operator.admin("CreateTenant", {"name": name})

    error = failure(lambda: operator.admin("CreateTenant", {"name": name}))
    assert (error.code, error.reason, error.metadata) == ("ALREADY_EXISTS", "TENANT_ALREADY_EXISTS", {"tenant": name})
    error = failure(lambda: operator.admin("CreateCredential", {"tenant": "nobody", "role": "ROLE_CONSUMER"}))
    assert (error.code, error.reason, error.metadata) == ("NOT_FOUND", "TENANT_NOT_FOUND", {"tenant": "nobody"})
    error = failure(lambda: operator.admin("RevokeCredential", {"credential_id": "0123456789abcdef"}))
    assert (error.code, error.reason, error.metadata) == ("NOT_FOUND", "CREDENTIAL_NOT_FOUND", {"credential_id": "0123456789abcdef"})
    error = failure(lambda: operator.admin("CreateTenant", {"name": ""}))
    assert (error.reason, error.field_violations[0]["field"]) == ("INVALID_FIELD", "name")
    error = failure(lambda: one.admin("CreateTenant", {"name": "mine"}))
    assert (error.reason, error.metadata) == ("PERMISSION_DENIED", {"role": "consumer"})


# ---- what passes ----


@pytest.fixture
def own_server(start, shared_store, programs, admin):
    """own_server(flags…) → (server, function that connects a consumer of a new tenant). At the store of all."""

    def make(*flags, store=shared_store):
        server = start(*store, *flags)
        tenant = f"tenant-{new_attempt().hex()}"
        admin.create_tenant(tenant)
        token = admin.create_credential(tenant).token
        return server, lambda language, **options: programs(language).connect(server.address, token, **options)

    return make


@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("flag, code, reason, key", [("--max-waiters-per-tenant=1", "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "quota"),
                                                     ("--max-waiters=1", "RESOURCE_EXHAUSTED", "OVERLOADED", "full")])
def test_full_server_says_when_to_come_back(own_server, language, flag, code, reason, key):
    server, connect = own_server(flag)
    consumer = connect(language)
    claim = consumer.granted("h", EVENT)["claim"]
    waiting = [consumer.start("begin", consumer.begin_request("h", EVENT, wait=30)) for _ in range(2)]
    refused, accepted = first_to_say_something(waiting)
    error = failure(refused)
    assert (error.code, error.reason, error.repeatable) == (code, reason, True)
    assert error.metadata == {key: "waiting calls", "limit": "1"}
    assert error.retry_delay == 0.1
    consumer.complete("h", EVENT, claim)
    assert accepted.answer()["outcome"] == "completed"


def first_to_say_something(commands: list) -> tuple:
    """The command that is answered while the others still wait, and one of the others."""
    done = commands[0].program.wait_any(commands)
    return done, next(command for command in commands if command is not done)


def test_message_that_is_too_large_for_the_transport_is_not_sent_again(one):
    with pytest.raises(CallFailed) as caught:
        one.begin("h", EVENT, bytes(8 * MIB))
    error = caught.value
    assert (error.code, error.reason, error.retry_delay, error.repeatable) == ("RESOURCE_EXHAUSTED", "", None, False)


@pytest.mark.parametrize("language", ["python", "node"])
def test_server_that_is_not_there_may_be_asked_again(programs, nobody, language):
    with pytest.raises(CallFailed) as caught:
        programs(language).connect(nobody, "token").begin("h", EVENT)
    error = caught.value
    assert (error.code, error.reason, error.repeatable) == ("UNAVAILABLE", "", True)


# ---- a database that breaks ----


@pytest.fixture
def gated(database_server, own_server, shared_store):
    """A gate between a server and the database, and that server: gated(flags…) → (gate, server, connect)."""
    gates = []

    def make(*flags):
        gate = TcpGate("127.0.0.1", database_server.port)
        gates.append(gate)
        store = [flag.replace(f":{database_server.port}/", f":{gate.port}/") for flag in shared_store]
        return gate, *own_server(*flags, store=store)

    yield make
    for gate in gates:
        gate.close()


@pytest.mark.parametrize("language", ["python", "node"])
def test_database_that_is_gone_is_named_and_nothing_was_started(gated, language):
    gate, server, connect = gated("--retry-window=0")
    consumer = connect(language)
    consumer.granted("h", b"before")
    gate.refuse()
    gate.cut_all()
    error = failure(lambda: consumer.begin("h", EVENT))
    while error.reason != "STORE_UNAVAILABLE":  # the first call may have met the break itself
        error = failure(lambda: consumer.begin("h", EVENT))
    assert (error.code, error.repeatable, error.metadata) == ("UNAVAILABLE", True, {})
    assert error.retry_delay == 0.2


@pytest.mark.parametrize("language", ["python", "node"])
def test_unknown_commit_is_called_unknown_and_the_same_request_tells_the_truth(gated, language):
    gate, server, connect = gated("--retry-window=0")
    consumer = connect(language)
    event = b"event-" + language.encode()
    attempt = new_attempt()
    gate.cut(Moment.AFTER_COMMIT, event_markers(event))
    error = failure(lambda: consumer.begin("h", event, attempt=attempt))
    assert (error.code, error.reason, error.repeatable) == ("UNAVAILABLE", "OUTCOME_UNKNOWN", True)
    assert error.retry_delay == 0.2
    patient = connect(language, give_up_after=30)
    assert patient.granted("h", event, attempt=attempt)["attempt_number"] == 1


@pytest.mark.parametrize("language", ["python", "node"])
def test_server_that_ends_says_which_calls_it_did_not_run(gated, language):
    gate, server, connect = gated("--committers=1", "--shutdown-grace=1s", "--retry-window=0")
    consumer = connect(language)
    consumer.granted("h", b"before")
    with gate.stalled("up"):
        running = consumer.start("begin", consumer.begin_request("h", EVENT))
        gate.wait_held(1)
        queued = consumer.start("begin", consumer.begin_request("h", b"event-2"))
        eventually(lambda: server.metrics().get('once_calls_in_flight{method="Begin"}') == 2)
        server.send()
        error = failure(queued)
        assert (error.code, error.reason, error.repeatable, error.metadata) == ("UNAVAILABLE", "DRAINING", True, {})
        assert error.retry_delay == 0.05
        error = failure(running)
        assert (error.code, error.reason, error.repeatable) == ("UNAVAILABLE", "OUTCOME_UNKNOWN", True)
