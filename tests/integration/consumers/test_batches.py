"""Batches: an answer per item, in order, each with its own outcome or its own error."""

import pytest
from driving import CallFailed, duration, raw

MIB = 1 << 20


def outcomes(answer: dict) -> list[str]:
    return [item["response"]["outcome"] if item["result"] == "response" else item["error"]["reason"] for item in answer["results"]]


def test_every_item_is_decided_for_itself(pair):
    first, second = pair
    done = first.granted("h", b"done")["claim"]
    first.complete("h", b"done", done, b"receipt")
    first.granted("h", b"held")

    answer = second.call("batch_begin", {"requests": [
        second.begin_request("h", b"new-1"),
        second.begin_request("h", b"done"),
        second.begin_request("h", b""),
        second.begin_request("h", b"held"),
        second.begin_request("h", b"done", b"tampered"),
        second.begin_request("h", b"new-2"),
        second.begin_request("h", b"new-1"),
        second.begin_request("h", b"new-3", wait=1),
        second.begin_request("h", b"new-4", b'{"a":1,"a":2}', scheme="DIGEST_SCHEME_JSON_JCS_SHA256"),
    ]})
    assert outcomes(answer) == ["granted", "completed", "INVALID_FIELD", "in_progress", "conflict", "granted", "in_progress",
                                "INVALID_FIELD", "CONTENT_NOT_CANONICAL"]
    assert raw(answer["results"][1]["response"]["completed"]["receipt"]["result"]) == b"receipt"
    assert answer["results"][3]["response"]["in_progress"]["consumer"] == "first"
    empty, waiting, json = (answer["results"][index]["error"] for index in (2, 7, 8))
    assert (empty["code"], empty["metadata"]) == (3, {"field": "requests[2].event_id", "size": "0", "limit": "255"})
    assert "requests[2].event_id" in empty["message"]
    assert not empty.get("retry_delay")
    assert waiting["metadata"] == {"field": "requests[7].wait"}
    assert json["metadata"] == {"field": "requests[8].content.data", "pointer": "/a", "offset": "7"}


def test_receipts_of_a_batch_are_stored_and_refused_for_themselves(pair):
    first, second = pair
    begun = first.call("batch_begin", {"requests": [first.begin_request("h", b"e%d" % n) for n in range(3)]})
    claims = [item["response"]["granted"]["claim"] for item in begun["results"]]
    first.complete("h", b"e1", claims[1], b"other")

    answer = second.call("batch_complete", {"requests": [
        second.complete_request("h", b"e0", claims[0], b"r0"),
        second.complete_request("h", b"e1", claims[1], b"r1"),
        second.complete_request("h", b"e2", {**claims[2], "fence": "7"}, b"r2"),
        second.complete_request("h", b"e2", claims[2], b"r2", status="RECEIPT_STATUS_REJECTED"),
        second.complete_request("h", b"never", claims[2], b""),
        second.complete_request("h", b"e2", claims[2], bytes(MIB + 1)),
    ]})
    assert outcomes(answer) == ["completed", "conflict", "claim_lost", "completed", "OPERATION_NOT_FOUND", "RESULT_TOO_LARGE"]
    missing, large = answer["results"][4]["error"], answer["results"][5]["error"]
    assert (missing["code"], missing["metadata"]) == (5, {"handler": "h"})
    assert large["metadata"] == {"field": "requests[5].result", "size": str(MIB + 1), "limit": str(MIB)}
    assert first.lookup("h", b"e2")["completed"]["receipt"]["status"] == "RECEIPT_STATUS_REJECTED"


def test_leases_of_a_batch_are_renewed(pair):
    first, second = pair
    claim = first.granted("h", b"e", lease=5)["claim"]
    request = first.claimed_request("h", b"e", claim, lease=duration(600))
    answer = second.call("batch_renew", {"requests": [request, {**request, "fence": "7"}, {**request, "handler": "other"},
                                                      {**request, "lease": duration(-1)}]})
    assert outcomes(answer) == ["claim", "claim_lost", "OPERATION_NOT_FOUND", "INVALID_FIELD"]
    assert int(answer["results"][0]["response"]["claim"]["lease_remaining"]["seconds"]) >= 599
    assert answer["results"][3]["error"]["metadata"]["field"] == "requests[3].lease"


def test_repeated_batch_gets_the_same_answers(pair):
    first, second = pair
    requests = {"requests": [first.begin_request("h", b"e%d" % n) for n in range(50)]}
    fences = [[item["response"]["granted"]["claim"]["fence"] for item in consumer.call("batch_begin", requests)["results"]]
              for consumer in (first, second)]
    assert fences[0] == fences[1]


def test_results_that_do_not_fit_are_left_out_and_said_to_be(pair):
    first, second = pair
    for number in range(6):
        claim = first.granted("h", b"e%d" % number)["claim"]
        first.complete("h", b"e%d" % number, claim, bytes([number]) * MIB)
    answer = second.call("batch_begin", {"requests": [second.begin_request("h", b"e%d" % n) for n in range(6)]})
    receipts = [item["response"]["completed"]["receipt"] for item in answer["results"]]
    omitted = [number for number, receipt in enumerate(receipts) if receipt["result_omitted"]]
    assert 0 < len(omitted) < 6
    for number, receipt in enumerate(receipts):
        assert receipt["result_size"] == str(MIB)
        if number in omitted:
            assert receipt["result"] == ""
            receipt = second.lookup("h", b"e%d" % number)["completed"]["receipt"]
        assert raw(receipt["result"]) == bytes([number]) * MIB


def test_batch_over_the_size_of_a_message_is_refused_whole(one):
    requests = [one.begin_request("h", b"e%d" % n, bytes(MIB - 100)) for n in range(4)]
    requests.append(one.begin_request("h", b"e4", bytes(1000)))
    with pytest.raises(CallFailed) as caught:
        one.call("batch_begin", {"requests": requests})
    error = caught.value
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert error.metadata["field"] == "requests"
    assert error.metadata["limit"] == str(4 * MIB)
    with pytest.raises(CallFailed) as caught:
        one.lookup("h", b"e0")
    assert caught.value.reason == "OPERATION_NOT_FOUND"
