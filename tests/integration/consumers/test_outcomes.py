"""Every outcome, acted by a consumer in one language and read by one in the other."""

import datetime
import hashlib
import time

import pytest
from driving import b64, duration, new_attempt, raw, seconds

EVENT = b"order-17/paid"
RAW, JCS = "DIGEST_SCHEME_RAW_SHA256", "DIGEST_SCHEME_JSON_JCS_SHA256"


def moment(timestamp: dict) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(timestamp["seconds"]) + timestamp["nanos"] / 1e9, datetime.timezone.utc)


def is_recent(timestamp: dict) -> bool:
    return abs(datetime.datetime.now(datetime.timezone.utc) - moment(timestamp)) < datetime.timedelta(minutes=1)


def sha256(content: bytes) -> str:
    return b64(hashlib.sha256(content).digest())


def lapse(consumer, handler: str, event_id: bytes) -> dict:
    """Leaves behind an attempt that went silent; returns its claim."""
    claim = consumer.granted(handler, event_id, lease=0.1, handler_version="7")["claim"]
    # The state is read until the database says that the lease is over.
    while consumer.lookup(handler, event_id)["outcome"] == "in_progress":
        pass
    return claim


# ---- Begin ----


def test_new_operation_is_granted(one):
    attempt = new_attempt()
    granted = one.granted("points.grant", EVENT, attempt=attempt, lease=10)
    assert granted["attempt_number"] == 1
    assert not granted.get("earlier_attempt")
    claim = granted["claim"]
    assert raw(claim["attempt_id"]) == attempt
    assert int(claim["fence"]) > 0
    assert 9 < seconds(claim["lease_remaining"]) <= 10
    assert is_recent(claim["lease_expire_time"])


def test_repeat_by_the_same_attempt_from_another_language_is_the_same_grant(pair):
    first, second = pair
    attempt = new_attempt()
    granted = first.granted("points.grant", EVENT, attempt=attempt)
    again = second.granted("points.grant", EVENT, attempt=attempt)
    assert again["claim"]["fence"] == granted["claim"]["fence"]
    assert again["attempt_number"] == granted["attempt_number"] == 1


def test_other_language_is_told_in_progress_and_then_reads_the_receipt(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT, lease=10, handler_version="2.1")["claim"]

    told = second.begin("points.grant", EVENT)
    assert told["outcome"] == "in_progress"
    told = told["in_progress"]
    assert told["reason"] == "REASON_HELD"
    assert (told["consumer"], told["handler_version"], told["attempt_number"]) == ("first", "2.1", 1)
    assert 0 < seconds(told["lease_remaining"]) <= 10
    assert 0 < seconds(told["suggested_wait"]) <= 1
    assert is_recent(told["begin_time"])
    assert told["first_digest"] == {"scheme": RAW, "sha256": sha256(b"content")}

    result = bytes(range(256))
    done = first.complete("points.grant", EVENT, claim, result, content_type="application/x-bytes")
    assert done["outcome"] == "completed"
    assert done["completed"]["replayed"] is False

    told = second.begin("points.grant", EVENT)
    assert told["outcome"] == "completed"
    assert told["completed"]["replayed"] is True
    assert not told["completed"].get("dedupe_guaranteed_until_time")
    receipt = told["completed"]["receipt"]
    assert raw(receipt["result"]) == result
    assert (receipt["status"], receipt["content_type"]) == ("RECEIPT_STATUS_SUCCEEDED", "application/x-bytes")
    assert (receipt["handler_version"], receipt["fence"]) == ("2.1", claim["fence"])
    assert (receipt["result_size"], receipt["result_omitted"]) == ("256", False)
    assert is_recent(receipt["complete_time"])
    assert receipt == done["completed"]["receipt"]


def test_final_refusal_is_replayed_as_a_refusal(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    first.complete("points.grant", EVENT, claim, b"account closed", status="RECEIPT_STATUS_REJECTED")
    for _ in range(3):
        told = second.begin("points.grant", EVENT)["completed"]
        assert told["replayed"] is True
        assert told["receipt"]["status"] == "RECEIPT_STATUS_REJECTED"
        assert raw(told["receipt"]["result"]) == b"account closed"


def test_empty_result_is_a_result(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    first.complete("points.grant", EVENT, claim, b"")
    receipt = second.begin("points.grant", EVENT)["completed"]["receipt"]
    assert (receipt["result"], receipt["result_size"], receipt["result_omitted"]) == ("", "0", False)


def test_released_operation_is_granted_to_the_other(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    assert first.abandon("points.grant", EVENT, claim)["abandoned"]["mode"] == "MODE_RELEASE"
    granted = second.granted("points.grant", EVENT)
    assert granted["attempt_number"] == 2
    assert int(granted["claim"]["fence"]) > int(claim["fence"])
    assert not granted.get("earlier_attempt"), "a release is not a crash"


def test_release_with_a_delay_holds_everybody_off(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    first.abandon("points.grant", EVENT, claim, retry_delay=duration(60), reason="the bank is closed")
    told = second.begin("points.grant", EVENT)["in_progress"]
    assert told["reason"] == "REASON_DELAYED"
    assert 55 < seconds(told["suggested_wait"]) <= 60
    assert told["consumer"] == "first"


def test_silent_attempt_is_taken_over_and_shown(pair):
    first, second = pair
    silent = lapse(first, "points.grant", EVENT)
    granted = second.granted("points.grant", EVENT)
    assert granted["attempt_number"] == 2
    assert int(granted["claim"]["fence"]) > int(silent["fence"])
    earlier = granted["earlier_attempt"]
    assert (earlier["attempt_id"], earlier["fence"]) == (silent["attempt_id"], silent["fence"])
    assert (earlier["consumer"], earlier["handler_version"]) == ("first", "7")
    assert moment(earlier["lease_expire_time"]) - moment(earlier["begin_time"]) == datetime.timedelta(seconds=0.1)
    assert earlier["lease_expire_time"] == silent["lease_expire_time"], "not one microsecond is lost"


def test_silent_attempt_of_a_handler_in_doubt_is_reported_and_can_be_resolved(pair):
    first, second = pair
    silent = lapse(first, "payment.charge", EVENT)
    told = second.begin("payment.charge", EVENT)
    assert told["outcome"] == "in_doubt"
    doubt = told["in_doubt"]
    assert doubt["earlier_attempt_count"] == 1
    assert [attempt["attempt_id"] for attempt in doubt["earlier_attempts"]] == [silent["attempt_id"]]
    assert "Complete" in doubt["resolution"]
    assert second.lookup("payment.charge", EVENT)["outcome"] == "in_doubt"
    # Whoever has found out ends the doubt with what was shown.
    second.complete("payment.charge", EVENT, doubt["earlier_attempts"][0], b"charged")
    assert raw(first.begin("payment.charge", EVENT)["completed"]["receipt"]["result"]) == b"charged"


@pytest.mark.parametrize("state", ["OPERATION_STATE_CLAIMED", "OPERATION_STATE_LAPSED", "OPERATION_STATE_RELEASED",
                                   "OPERATION_STATE_COMPLETED"])
def test_other_content_is_a_conflict_in_every_state(pair, state):
    first, second = pair
    if state == "OPERATION_STATE_LAPSED":
        lapse(first, "points.grant", EVENT)
    else:
        claim = first.granted("points.grant", EVENT)["claim"]
    if state == "OPERATION_STATE_RELEASED":
        first.abandon("points.grant", EVENT, claim)
    elif state == "OPERATION_STATE_COMPLETED":
        first.complete("points.grant", EVENT, claim)

    told = second.begin("points.grant", EVENT, b"tampered")
    assert told["outcome"] == "conflict"
    conflict = told["conflict"]
    assert conflict["difference"] == "DIFFERENCE_DIGEST"
    assert conflict["first_digest"] == {"scheme": RAW, "sha256": sha256(b"content")}
    assert conflict["request_digest"] == {"scheme": RAW, "sha256": sha256(b"tampered")}
    assert (conflict["state"], conflict["consumer"]) == (state, "first")
    assert is_recent(conflict["first_begin_time"])
    assert bool(conflict.get("lease_remaining")) == (state == "OPERATION_STATE_CLAIMED")
    looked = second.lookup("points.grant", EVENT, content={"data": b64(b"tampered")})
    assert looked["outcome"] == "conflict"


def test_conflict_of_a_handler_in_doubt_says_so(pair):
    first, second = pair
    lapse(first, "payment.charge", EVENT)
    assert second.begin("payment.charge", EVENT, b"tampered")["conflict"]["state"] == "OPERATION_STATE_IN_DOUBT"


def test_digests_of_different_schemes_are_a_conflict(pair):
    first, second = pair
    first.granted("points.grant", EVENT, b'{"points":5}', scheme=JCS)
    told = second.begin("points.grant", EVENT, b'{"points":5}')["conflict"]
    assert told["difference"] == "DIFFERENCE_DIGEST_SCHEME"
    assert (told["first_digest"]["scheme"], told["request_digest"]["scheme"]) == (JCS, RAW)


def test_spelling_of_json_is_no_conflict(pair):
    first, second = pair
    first.granted("points.grant", EVENT, '{"a": "é", "b": [1, 2]}'.encode(), scheme=JCS)
    told = second.begin("points.grant", EVENT, b'{ "b":[1.0,2e0],"a":"\\u00e9" }', scheme=JCS)
    assert told["outcome"] == "in_progress"
    assert told["in_progress"]["first_digest"]["sha256"] == sha256('{"a":"é","b":[1,2]}'.encode())


def test_own_digest_equals_that_of_the_server(pair):
    first, second = pair
    first.granted("points.grant", EVENT, digest={"scheme": RAW, "sha256": sha256(b"content")})
    assert second.begin("points.grant", EVENT)["outcome"] == "in_progress"


def test_waiting_begin_gets_the_receipt_when_the_other_completes(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    waiting = second.start("begin", second.begin_request("points.grant", EVENT, wait=30))
    began = time.monotonic()
    first.complete("points.grant", EVENT, claim, b"done")
    told = waiting.answer()
    assert raw(told["completed"]["receipt"]["result"]) == b"done"
    assert time.monotonic() - began < 10


# ---- Complete ----


def test_completing_again_gives_the_same_receipt(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    done = first.complete("points.grant", EVENT, claim)
    again = second.complete("points.grant", EVENT, claim)
    assert again["completed"]["replayed"] is True
    assert again["completed"]["receipt"] == done["completed"]["receipt"]


def test_completing_with_another_result_is_a_conflict_and_changes_nothing(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    first.complete("points.grant", EVENT, claim, b"one")
    told = second.complete("points.grant", EVENT, claim, b"two")
    assert told["outcome"] == "conflict"
    assert raw(told["conflict"]["receipt"]["result"]) == b"one"
    assert raw(first.lookup("points.grant", EVENT)["completed"]["receipt"]["result"]) == b"one"


def test_late_owner_is_told_who_took_over(pair):
    first, second = pair
    silent = lapse(first, "points.grant", EVENT)
    claim = second.granted("points.grant", EVENT)["claim"]
    for told in (first.complete("points.grant", EVENT, silent), first.renew("points.grant", EVENT, silent),
                 first.abandon("points.grant", EVENT, silent)):
        assert told["outcome"] == "claim_lost"
        lost = told["claim_lost"]
        assert (lost["state"], lost["consumer"], lost["fence"]) == ("OPERATION_STATE_CLAIMED", "second", claim["fence"])
        assert is_recent(lost["take_over_time"])
    assert second.complete("points.grant", EVENT, claim)["outcome"] == "completed"


def test_late_owner_completes_where_nobody_took_over(one):
    silent = lapse(one, "points.grant", EVENT)
    assert one.complete("points.grant", EVENT, silent)["outcome"] == "completed"


# ---- Abandon, Renew ----


def test_forgotten_identity_may_be_used_for_other_content(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    assert first.abandon("points.grant", EVENT, claim, mode="MODE_FORGET")["abandoned"]["mode"] == "MODE_FORGET"
    granted = second.granted("points.grant", EVENT, b"other content")
    assert granted["attempt_number"] == 1
    assert int(granted["claim"]["fence"]) > int(claim["fence"])


def test_forgetting_does_not_hide_a_crash(pair):
    first, second = pair
    silent = lapse(first, "points.grant", EVENT)
    claim = second.granted("points.grant", EVENT)["claim"]
    assert second.abandon("points.grant", EVENT, claim, mode="MODE_FORGET")["abandoned"]["mode"] == "MODE_RELEASE"
    assert first.granted("points.grant", EVENT)["earlier_attempt"]["attempt_id"] == silent["attempt_id"]


def test_abandoning_what_is_completed_tells_so(one):
    claim = one.granted("points.grant", EVENT)["claim"]
    one.complete("points.grant", EVENT, claim)
    lost = one.abandon("points.grant", EVENT, claim)["claim_lost"]
    assert (lost["state"], lost["consumer"]) == ("OPERATION_STATE_COMPLETED", "")


def test_renewal_lengthens_the_lease_and_never_shortens_it(one):
    claim = one.granted("points.grant", EVENT, lease=5)["claim"]
    longer = one.renew("points.grant", EVENT, claim, lease=600)["claim"]
    assert (longer["attempt_id"], longer["fence"]) == (claim["attempt_id"], claim["fence"])
    assert 599 < seconds(longer["lease_remaining"]) <= 600
    assert seconds(one.renew("points.grant", EVENT, claim, lease=1)["claim"]["lease_remaining"]) > 590


# ---- Lookup ----


def test_lookup_tells_what_nobody_holds(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    assert second.lookup("points.grant", EVENT)["in_progress"]["consumer"] == "first"
    first.abandon("points.grant", EVENT, claim)
    told = second.lookup("points.grant", EVENT)
    assert told["outcome"] == "unclaimed"
    assert told["unclaimed"]["state"] == "OPERATION_STATE_RELEASED"
    assert not told["unclaimed"].get("earlier_attempt")


def test_lookup_shows_the_silent_attempt(pair):
    first, second = pair
    silent = lapse(first, "points.grant", EVENT)
    told = second.lookup("points.grant", EVENT)["unclaimed"]
    assert told["state"] == "OPERATION_STATE_LAPSED"
    assert told["earlier_attempt"]["attempt_id"] == silent["attempt_id"]


def test_waiting_lookup_gets_the_receipt(pair):
    first, second = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    waiting = second.start("lookup", {"handler": "points.grant", "event_id": b64(EVENT), "wait": duration(30)})
    first.complete("points.grant", EVENT, claim, b"done")
    assert raw(waiting.answer()["completed"]["receipt"]["result"]) == b"done"


def test_tenants_do_not_see_each_other(pair, admin, consumer):
    first, _ = pair
    claim = first.granted("points.grant", EVENT)["claim"]
    admin.create_tenant(f"other-of-{claim['fence']}")
    stranger = consumer("node", token=admin.create_credential(f"other-of-{claim['fence']}").token)
    assert stranger.granted("points.grant", EVENT, b"other content")["attempt_number"] == 1
