"""D1: SIGTERM while many calls wait. Every call is answered, the process is gone within the grace time, with exit code 0."""

import signal
import time

import grpc

WAITING = 500


def test_sigterm_answers_every_waiting_call(world):
    consumer = world.consumer()
    held = consumer.granted("orders", b"held", lease=60)
    waiting = [
        consumer.start(consumer.idempotency.Begin, consumer.begin_request("orders", b"held", wait=50)) for _ in range(WAITING)
    ]
    deadline = time.monotonic() + 30
    while world.server.metrics().get("once_pipeline_waiters", 0) < WAITING:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    begun = time.monotonic()
    world.server.send(signal.SIGTERM)
    outcomes = [call.result().WhichOneof("outcome") for call in waiting]
    assert world.server.wait() == 0
    assert time.monotonic() - begun < 20
    assert outcomes == ["in_progress"] * WAITING
    assert held.claim.fence > 0


def test_calls_that_run_are_finished_and_later_ones_are_turned_away(world):
    consumer = world.consumer()
    calls = [consumer.start(consumer.idempotency.Begin, consumer.begin_request("orders", b"e%d" % n)) for n in range(300)]
    world.server.send(signal.SIGTERM)
    answers = {"granted": 0, "turned away": 0}
    for call in calls:
        try:
            assert call.result().WhichOneof("outcome") == "granted"
            answers["granted"] += 1
        except grpc.RpcError as error:
            # Never a guess: nothing was started, and the caller may go elsewhere.
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            answers["turned away"] += 1
    assert world.server.wait() == 0
    assert sum(answers.values()) == 300


def test_what_was_answered_before_the_end_is_there_after_the_start(world, start):
    consumer = world.consumer()
    claim = consumer.granted("orders", b"e").claim
    world.server.send(signal.SIGTERM)
    assert world.server.wait() == 0
    again = start(*world.store_flags)
    consumer = world._connect(again, consumer.metadata[0][1].removeprefix("Bearer "))
    answer = consumer.begin("orders", b"e", attempt=claim.attempt_id)
    assert (answer.granted.claim.fence, answer.granted.attempt_number) == (claim.fence, 1)
