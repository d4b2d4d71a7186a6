"""The loop that every consumer needs: `handle` in both languages, with the test as the business function."""

import signal
import time

import pytest
from driving import CallFailed, ProgramDied, new_attempt, raw

EVENT = b"order-17/paid"


def outcome(verdict: dict) -> tuple:
    return verdict["action"], verdict["outcome"], verdict["executed"]


# ---- what becomes of a delivery ----


def test_first_delivery_runs_and_the_second_gets_the_receipt(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT)
    told = running.working()
    assert (told["attempt_number"], told["earlier_attempt"], told["claim_lost"]) == (1, None, False)
    verdict = running.succeed(b"\x00balance", "application/x-balance")
    assert outcome(verdict) == ("acknowledge", "completed", True)
    assert verdict["receipt"]["fence"] == told["fence"]

    again = second.handle("points.grant", EVENT).answer()
    assert outcome(again) == ("acknowledge", "completed", False)
    assert raw(again["receipt"]["result"]) == b"\x00balance"
    assert again["receipt"] == verdict["receipt"]


def test_refusal_for_good_is_a_receipt_too(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT)
    running.working()
    assert outcome(running.reject(b"account closed")) == ("acknowledge", "completed", True)
    again = second.handle("points.grant", EVENT).answer()
    assert outcome(again) == ("acknowledge", "completed", False)
    assert again["receipt"]["status"] == "RECEIPT_STATUS_REJECTED"


def test_delivery_beside_a_running_one_comes_back(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT)
    running.working()
    verdict = second.handle("points.grant", EVENT).answer()
    assert outcome(verdict) == ("come back", "in_progress", False)
    assert 0 < verdict["delay"] <= 1
    running.succeed(b"done")
    assert raw(second.handle("points.grant", EVENT).answer()["receipt"]["result"]) == b"done"


def test_delivery_that_waits_gets_the_receipt_of_the_running_one(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT)
    running.working()
    waiting = second.handle("points.grant", EVENT, wait=30)
    running.succeed(b"done")
    assert outcome(waiting.answer()) == ("acknowledge", "completed", False)


def test_other_content_stops(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT, b'{"points":5}', scheme="DIGEST_SCHEME_JSON_JCS_SHA256")
    running.working()
    running.succeed()
    tampered = second.handle("points.grant", EVENT, b'{"points":500}', scheme="DIGEST_SCHEME_JSON_JCS_SHA256").answer()
    assert outcome(tampered) == ("stop", "conflict", False)
    respelled = second.handle("points.grant", EVENT, b'{ "points" : 5e0 }', scheme="DIGEST_SCHEME_JSON_JCS_SHA256").answer()
    assert outcome(respelled) == ("acknowledge", "completed", False)


def test_error_that_repeating_does_not_cure_comes_through(one):
    with pytest.raises(CallFailed) as caught:
        one.handle("no handler at all", EVENT).answer()
    assert caught.value.reason == "INVALID_FIELD"


# ---- failures ----


def test_failure_gives_the_claim_back_and_the_next_one_runs(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT)
    running.working()
    failure = running.fail(message="the bank says no\u2026 for now")
    assert (failure.type, failure.message) == ("RuntimeError", "the bank says no\u2026 for now")
    running = second.handle("points.grant", EVENT)
    told = running.working()
    assert (told["attempt_number"], told["earlier_attempt"]) == (2, None)
    assert outcome(running.succeed()) == ("acknowledge", "completed", True)


def test_failure_with_a_delay_holds_everybody_off(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT)
    running.working()
    assert running.fail("RetryAfter", delay=60).type == "RetryAfter"
    verdict = second.handle("points.grant", EVENT).answer()
    assert outcome(verdict) == ("come back", "in_progress", False)
    assert 55 < verdict["delay"] <= 60


def test_forgotten_operation_leaves_the_identity_free(pair):
    first, second = pair
    running = first.handle("points.grant", EVENT, b"malformed")
    running.working()
    assert running.fail("ForgetOperation").type == "ForgetOperation"
    running = second.handle("points.grant", EVENT, b"well formed")
    assert running.working()["attempt_number"] == 1
    running.succeed()


def unknown_outcome(consumer, handler: str) -> dict:
    """The business function says that it may have acted; waits until the lease is over. What it was told."""
    running = consumer.handle(handler, EVENT)
    told = running.working()
    assert running.fail("OutcomeUnknown").type == "OutcomeUnknown"
    while consumer.lookup(handler, EVENT)["outcome"] == "in_progress":
        pass
    return told


def test_unknown_outcome_is_told_to_the_next_one(consumer, pair):
    first, second = pair
    silent = unknown_outcome(consumer(first.program.language, lease=0.2), "points.grant")
    running = second.handle("points.grant", EVENT)
    assert running.working()["earlier_attempt"]["attempt_id"] == silent["attempt_id"]
    assert outcome(running.succeed()) == ("acknowledge", "completed", True)


def test_unknown_outcome_stops_the_next_one_where_the_handler_forbids_a_second_run(consumer, pair):
    first, second = pair
    unknown_outcome(consumer(first.program.language, lease=0.2), "payment.charge")
    assert outcome(second.handle("payment.charge", EVENT).answer()) == ("stop", "in_doubt", False)


# ---- leases ----


def test_claim_is_renewed_while_the_business_function_runs(consumer, one):
    short = consumer(one.program.language, name="short", lease=0.6)
    running = short.handle("points.grant", EVENT)
    running.working()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert short.lookup("points.grant", EVENT)["outcome"] == "in_progress"
    assert running.look_again()["claim_lost"] is False
    assert outcome(running.succeed()) == ("acknowledge", "completed", True)


def test_word_of_the_server_that_the_claim_is_lost_counts_before_the_own_clock(consumer, pair):
    first, second = pair
    owner = consumer(first.program.language, name="owner", lease=6)
    running = owner.handle("points.grant", EVENT)
    told = running.working()
    began = time.monotonic()
    second.abandon("points.grant", EVENT, told)  # an operator, for one, may do so
    second.granted("points.grant", EVENT)
    while not running.look_again()["claim_lost"]:
        assert time.monotonic() - began < 5, "it did not ask at a third of its lease"
    assert outcome(running.succeed(b"too late")) == ("come back", "claim_lost", True)


@pytest.mark.parametrize("owner, successor", [("python", "node"), ("node", "python")])
def test_owner_that_slept_learns_that_somebody_took_over(server, start_program, programs, token, owner, successor):
    credential = token()
    program = start_program(owner)
    sleeper = program.connect(server.address, credential, name="sleeper", lease=0.6)
    other = programs(successor).connect(server.address, credential, name="other")
    running = sleeper.handle("points.grant", EVENT)
    slept = running.working()

    program.process.send_signal(signal.SIGSTOP)
    while other.lookup("points.grant", EVENT)["outcome"] == "in_progress":
        pass
    granted = other.granted("points.grant", EVENT)
    program.process.send_signal(signal.SIGCONT)

    while not running.look_again()["claim_lost"]:
        pass
    assert int(granted["claim"]["fence"]) > int(slept["fence"])
    assert outcome(running.succeed(b"too late")) == ("come back", "claim_lost", True)
    other.complete("points.grant", EVENT, granted["claim"], b"in time")
    assert raw(sleeper.handle("points.grant", EVENT).answer()["receipt"]["result"]) == b"in time"


# ---- crashes, and links that break ----


@pytest.mark.parametrize("dies, successor", [("python", "node"), ("node", "python")])
def test_killed_consumer_is_shown_to_the_next_and_may_come_back_with_its_attempt(server, start_program, programs, token, dies,
                                                                                  successor):
    credential = token()
    program = start_program(dies)
    attempt = new_attempt()
    running = program.connect(server.address, credential, name="killed", lease=1).handle("points.grant", EVENT, attempt=attempt)
    before = running.working()
    program.kill()
    with pytest.raises(ProgramDied):
        running.answer()

    # Restarted with the attempt id that it kept on disk: still the holder.
    running = start_program(dies).connect(server.address, credential, name="back", lease=1).handle("points.grant", EVENT, attempt=attempt)
    told = running.working()
    assert (told["fence"], told["attempt_number"]) == (before["fence"], 1)
    running.fail("OutcomeUnknown")

    other = programs(successor).connect(server.address, credential, name="other")
    silent = other.handle("points.grant", EVENT, wait=40)
    earlier = silent.working()["earlier_attempt"]
    assert (earlier["attempt_id"], earlier["consumer"]) == (before["attempt_id"], "killed")
    silent.succeed()


@pytest.mark.parametrize("language", ["python", "node"])
def test_lost_answers_are_asked_for_again(programs, consumer, link, token, language):
    unlucky = programs(language).connect(link.address, token(), give_up_after=30)
    witness = consumer("python")
    with pytest.raises(CallFailed):  # nothing there yet; the connection is
        unlucky.lookup("points.grant", EVENT)

    link.hold_answers()
    running = unlucky.handle("points.grant", EVENT)
    wait_for(witness, "in_progress")
    link.cut()
    assert running.working()["attempt_number"] == 1

    link.hold_answers()
    running.tell_result(b"done")
    wait_for(witness, "completed")
    link.cut()
    verdict = running.answer()
    assert outcome(verdict) == ("acknowledge", "completed", True)
    assert raw(verdict["receipt"]["result"]) == b"done"


def wait_for(witness, outcome: str) -> None:
    """Until the server has committed what it cannot say."""
    while True:
        try:
            if witness.lookup("points.grant", EVENT)["outcome"] == outcome:
                return
        except CallFailed as error:
            assert error.reason == "OPERATION_NOT_FOUND"


@pytest.mark.parametrize("language", ["python", "node"])
def test_any_server_of_the_database_will_do(programs, start, shared_store, link, server, token, language):
    consumer = programs(language).connect(link.address, token(), give_up_after=30)
    running = consumer.handle("points.grant", EVENT)
    told = running.working()
    other = start(*shared_store)
    link.lead_to(other.address)
    link.cut()
    verdict = running.succeed(b"done")
    assert outcome(verdict) == ("acknowledge", "completed", True)
    assert verdict["receipt"]["fence"] == told["fence"]


@pytest.mark.parametrize("language", ["python", "node"])
def test_consumer_gives_up_in_time_and_says_why(programs, token, nobody, language):
    consumer = programs(language).connect(nobody, token(), give_up_after=0.5)
    began = time.monotonic()
    with pytest.raises(CallFailed) as caught:
        consumer.handle("points.grant", EVENT).answer()
    assert (caught.value.code, caught.value.repeatable) == ("UNAVAILABLE", True)
    assert time.monotonic() - began < 5
