"""Values that languages like to lose: bytes that are no text, integers above 2^53, empty things, microseconds."""

import pytest
from driving import b64, new_attempt, raw, seconds

ODD_IDS = {
    "NUL inside": b"order\x00-17",
    "invalid UTF-8": b"\xff\xfe\x80",
    "one byte": b"\x00",
    "longest": bytes(range(1, 256)),
    "path": b"a/b:c/../d",
    "blank at the end": b"order-17 ",
    "composed": "\u00e9".encode(),
    "decomposed": "e\u0301".encode(),
    "upper case": b"ORDER-17",
    "lower case": b"order-17",
}


def test_event_ids_are_bytes_and_nothing_else(pair):
    first, second = pair
    for number, event in enumerate(ODD_IDS.values()):
        claim = first.granted("points.grant", event)["claim"]
        first.complete("points.grant", event, claim, b"result %d" % number)
    for number, event in enumerate(ODD_IDS.values()):
        told = second.begin("points.grant", event)
        assert told["outcome"] == "completed", event
        assert raw(told["completed"]["receipt"]["result"]) == b"result %d" % number


def test_results_and_contents_are_bytes_and_nothing_else(pair):
    first, second = pair
    content = bytes(range(256)) * 4
    claim = first.granted("points.grant", b"e", content)["claim"]
    first.complete("points.grant", b"e", claim, content)
    told = second.begin("points.grant", b"e", content)
    assert raw(told["completed"]["receipt"]["result"]) == content
    assert second.begin("points.grant", b"e", content[:-1])["outcome"] == "conflict"


# The first integer that a double cannot carry, and the last one that a fence can be followed from.
@pytest.mark.parametrize("fence", [2**53 + 1, 2**63 - 2])
def test_fences_above_what_a_double_carries_come_and_go_whole(pair, database_server, shared_store, fence):
    first, second = pair
    event = new_attempt()
    claim = first.granted("points.grant", event)["claim"]
    database = shared_store[0].rsplit("/", 1)[1]
    database_server.sql(f"UPDATE {database}.operation SET fence = {fence} WHERE event_id = x'{event.hex()}'")

    # Repeated by the same attempt, so that both languages read the fence that is in the row now.
    for consumer in (first, second):
        assert consumer.granted("points.grant", event, attempt=raw(claim["attempt_id"]))["claim"]["fence"] == str(fence)
    # One less is another fence, which a double could not tell.
    assert second.renew("points.grant", event, {**claim, "fence": str(fence - 1)})["outcome"] == "claim_lost"
    assert second.renew("points.grant", event, {**claim, "fence": str(fence)})["outcome"] == "claim"
    done = second.complete("points.grant", event, {**claim, "fence": str(fence)})
    assert done["completed"]["receipt"]["fence"] == str(fence)


def test_fences_grow_over_a_release(pair, database_server, shared_store):
    first, second = pair
    event, fence = new_attempt(), 2**53
    claim = first.granted("points.grant", event)["claim"]
    database = shared_store[0].rsplit("/", 1)[1]
    database_server.sql(f"UPDATE {database}.operation SET fence = {fence} WHERE event_id = x'{event.hex()}'")
    first.abandon("points.grant", event, {**claim, "fence": str(fence)})
    # 2^53 + 1 is 2^53 to a double.
    assert second.granted("points.grant", event)["claim"]["fence"] == str(fence + 1)


def test_durations_and_timestamps_keep_their_microseconds(pair):
    first, second = pair
    claim = first.granted("points.grant", b"e", lease=3600.123457)["claim"]
    expires = claim["lease_expire_time"]
    held = second.begin("points.grant", b"e")["in_progress"]
    began = held["begin_time"]
    micros = lambda moment: int(moment["seconds"]) * 10**6 + moment["nanos"] // 1000  # noqa: E731
    assert micros(expires) - micros(began) == 3_600_123_457
    assert 3590 < seconds(held["lease_remaining"]) <= 3600.123457


def test_longest_texts_are_taken_whole(pair):
    first, second = pair
    event, handler = bytes(255 * [7]), "h" * 128
    claim = first.granted(handler, event, handler_version="v" * 64, **{"consumer": "\u00fc" * 64})["claim"]
    held = second.begin(handler, event)["in_progress"]
    assert (held["consumer"], held["handler_version"]) == ("\u00fc" * 64, "v" * 64)
    first.complete(handler, event, claim, b"", content_type="t" * 128)
    assert second.lookup(handler, event)["completed"]["receipt"]["content_type"] == "t" * 128


def test_everything_that_describes_a_delivery_is_accepted(one):
    granted = one.granted(
        "points.grant", b"e",
        delivery={"reference": "topic-3@118", "source": "DELIVERY_SOURCE_DEAD_LETTER"},
        causation={"handler": "orders.pay", "event_id": b64(b"\x00cause"), "reason": "paid"},
        aggregate={"id": "order-17", "version": str(2**63 - 1)},
    )
    assert granted["attempt_number"] == 1
