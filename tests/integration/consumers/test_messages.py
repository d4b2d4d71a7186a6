"""Messages arrive more than once, in every way that they do. After each case: how many facts, duplicates and conflicts there were, that
every caller of a fact got one receipt, and that the ledger holds what each fact once would give."""

import collections
import dataclasses
import json
import pathlib
import sqlite3

import pytest
from driving import HERE, Program, ProgramDied, python_command, raw
from messages.broker import COMPENSATION, DEAD_LETTER, Broker, Message

ORDER = {"account": "ada", "points": 5}


class Worker:
    """The consumer with a ledger, as a process."""

    def __init__(self, arguments: list[str], log: pathlib.Path):
        self.program = Program("python", [*python_command(HERE / "messages" / "worker.py"), *arguments], log)

    def deliver(self, message: Message, fault: str = ""):
        return self.program.send({"message": dataclasses.asdict(message), "fault": fault})

    def wait_until_holding(self, delivery) -> None:
        assert delivery._next()["holding"]

    def let_go(self, delivery) -> None:
        self.program.write({"id": delivery.id, "go": True})

    def empty_cache(self) -> None:
        self.program.send({"empty cache": True}).answer()


class Shop:
    """A tenant with a broker, a ledger and as many consumers as a test wants."""

    def __init__(self, folder: pathlib.Path, address: str, token: str, witness):
        self.broker = Broker()
        self.address = address
        self._folder, self._token, self._witness = folder, token, witness
        self._workers = []

    def worker(self, *flags: str) -> Worker:
        name = f"worker-{len(self._workers)}"
        worker = Worker(["--server", self.address, "--token", self._token, "--ledger", str(self._folder / "ledger.db"), "--name", name,
                         *flags], self._folder / f"{name}.log")
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._workers:
            worker.program.stop()

    def check(self, outcomes: dict, accounts: dict, entries: list[str]) -> None:
        """`entries`: the event ids that are in the ledger, as often as they are."""
        assert dict(self.broker.outcomes) == outcomes
        ledger = sqlite3.connect(self._folder / "ledger.db")
        assert dict(ledger.execute("SELECT name, points FROM account")) == accounts
        assert sorted(event for (event,) in ledger.execute("SELECT event_id FROM entry")) == sorted(entries)
        # Every caller of a fact was given the same bytes, and they are what Once has.
        for event, receipts in self.broker.receipts.items():
            stored = self._witness.lookup("points.grant", event.encode())["completed"]["receipt"]
            assert receipts == {stored["result"]}, event


@pytest.fixture
def shop(tmp_path, server, token, consumer):
    shop = Shop(tmp_path, server.address, token(), consumer("python", name="witness"))
    yield shop
    shop.close()


def test_same_event_twice_in_a_row(shop):
    """Case 1. A producer that did not hear its acknowledgement sends again: two messages, one fact."""
    worker = shop.worker()
    shop.broker.publish("order-1", ORDER)
    shop.broker.publish("order-1", {"points": 5, "account": "ada"})  # in another spelling
    shop.broker.publish("order-2", ORDER)  # another fact that looks alike
    shop.broker.run(worker)
    shop.check({"executed": 2, "replayed": 1}, {"ada": 10}, ["order-1", "order-2"])


def test_same_event_with_other_content_is_parked(shop):
    """Case 1, tampered with."""
    worker = shop.worker()
    shop.broker.publish("order-1", ORDER)
    tampered = shop.broker.publish("order-1", {"account": "ada", "points": 500})
    shop.broker.run(worker)
    assert shop.broker.parked == [tampered]
    shop.check({"executed": 1, "conflict": 1}, {"ada": 5}, ["order-1"])


def test_same_event_at_the_same_time(shop):
    """Case 2. Two messages about one fact are with two consumers at once."""
    workers = [shop.worker(), shop.worker()]
    messages = [shop.broker.publish("order-1", ORDER) for _ in range(2)]
    first = workers[0].deliver(messages[0], "hold")
    workers[0].wait_until_holding(first)

    beside = workers[1].deliver(messages[1]).answer()
    assert (beside["action"], beside["how"]) == ("come back", "in_progress")
    shop.broker.note(messages[1], beside)
    workers[0].let_go(first)
    shop.broker.note(messages[0], first.answer())
    shop.broker.note(messages[1], workers[1].deliver(messages[1]).answer())
    shop.check({"executed": 1, "in_progress": 1, "replayed": 1}, {"ada": 5}, ["order-1"])


def test_same_events_at_the_same_time_many_times(shop):
    """Case 2, as a crowd: 20 facts, each with 6 messages at three consumers, all at once."""
    workers = [shop.worker() for _ in range(3)]
    facts = [f"order-{number}" for number in range(20)]
    open_deliveries = collections.deque(
        (worker, message, worker.deliver(message))
        for message in [Message(fact, ORDER) for fact in facts for _ in range(2)] for worker in workers)
    while open_deliveries:
        worker, message, delivery = open_deliveries.popleft()
        answer = delivery.answer()
        if answer["action"] == "come back":
            open_deliveries.append((worker, message, worker.deliver(message)))
        else:
            shop.broker.note(message, answer)
    shop.check({"executed": 20, "replayed": 100}, {"ada": 100}, facts)
    assert len(shop.broker.receipts) == 20


def test_done_but_the_offset_commit_fails(shop):
    """Case 3. The work is done and completed; the broker does not learn it and hands everything over again."""
    worker = shop.worker()
    for number in range(3):
        shop.broker.publish(f"order-{number}", ORDER)
    shop.broker.lose_commits(1)
    shop.broker.run(worker)
    assert shop.broker.committed == 3
    shop.check({"executed": 3, "replayed": 1}, {"ada": 15}, ["order-0", "order-1", "order-2"])


def test_failed_and_then_retried(shop):
    """Case 4. A failure leaves no completed record behind; the redelivery runs."""
    worker = shop.worker()
    shop.broker.publish("order-1", ORDER)
    shop.broker.run(worker, faults=["fail", "fail"])
    assert shop.broker.dead_letters == []
    shop.check({"failed": 2, "executed": 1}, {"ada": 5}, ["order-1"])


def test_dead_letter_is_replayed(shop):
    """Case 5. What failed too often is replayed from the dead-letter queue under the same event id; replayed twice, it counts once."""
    worker = shop.worker()
    shop.broker.publish("order-1", ORDER)
    shop.broker.publish("order-2", ORDER)
    shop.broker.run(worker, faults=["fail", "fail", "fail"])
    assert [message.event_id for message in shop.broker.dead_letters] == ["order-1"]
    shop.check({"failed": 3, "executed": 1}, {"ada": 5}, ["order-2"])

    dead = list(shop.broker.dead_letters)
    shop.broker.replay_dead_letters()
    shop.broker.dead_letters = dead  # an operator who replays once more
    shop.broker.replay_dead_letters()
    assert [message.source for message in shop.broker.log[2:]] == [DEAD_LETTER, DEAD_LETTER]
    shop.broker.run(worker)
    shop.check({"failed": 3, "executed": 2, "replayed": 1}, {"ada": 10}, ["order-1", "order-2"])


def test_dead_letter_of_what_was_done_is_not_done_again(shop):
    """Case 5. A message may land among the dead letters although its fact was done by another one."""
    worker = shop.worker()
    failing = shop.broker.publish("order-1", ORDER)
    shop.broker.run(worker, faults=["fail", "fail", "fail"])
    shop.broker.publish("order-1", ORDER)  # the producer had sent twice
    shop.broker.run(worker)
    assert shop.broker.dead_letters == [failing]
    shop.broker.replay_dead_letters()
    shop.broker.run(worker)
    shop.check({"failed": 3, "executed": 1, "replayed": 1}, {"ada": 5}, ["order-1"])


def test_compensation_task_beside_the_message(shop):
    """Case 6. A task that looks for facts without an effect sends one again while its message is being handled, and once more later."""
    workers = [shop.worker(), shop.worker()]
    message, task = shop.broker.publish("order-1", ORDER), Message("order-1", ORDER, "nightly-check", COMPENSATION)
    handling = workers[0].deliver(message, "hold")
    workers[0].wait_until_holding(handling)
    beside = workers[1].deliver(task).answer()
    assert (beside["action"], beside["how"]) == ("come back", "in_progress")
    shop.broker.note(task, beside)
    workers[0].let_go(handling)
    shop.broker.note(message, handling.answer())
    shop.broker.note(task, workers[1].deliver(task).answer())
    shop.check({"executed": 1, "in_progress": 1, "replayed": 1}, {"ada": 5}, ["order-1"])


def test_compensation_task_comes_first(shop):
    """Case 6, the other way round: the late message finds the task's receipt."""
    worker = shop.worker()
    shop.broker.publish("order-1", ORDER, COMPENSATION)
    shop.broker.publish("order-1", ORDER)
    shop.broker.run(worker)
    shop.check({"executed": 1, "replayed": 1}, {"ada": 5}, ["order-1"])


def test_old_version_that_arrives_late_is_refused_for_good(shop):
    """Case 7. Until the server guards versions the business does, and its refusal is a receipt like any other."""
    worker = shop.worker()
    shop.broker.publish("ada/1", {"account": "ada", "points": 1, "version": 1})
    shop.broker.publish("ada/3", {"account": "ada", "points": 100, "version": 3})
    shop.broker.publish("ada/2", {"account": "ada", "points": 10, "version": 2})
    shop.broker.publish("ada/2", {"account": "ada", "points": 10, "version": 2})
    shop.broker.run(worker)
    shop.check({"executed": 3, "replayed": 1}, {"ada": 101}, ["ada/1", "ada/3"])
    (refusal,) = shop.broker.receipts["ada/2"]
    assert json.loads(raw(refusal)) == {"refused": "version 3 is done"}


def test_emptied_cache_loses_nothing(shop):
    """Case 8. The fast path before Once is emptied between deliveries: Once has the receipt."""
    worker = shop.worker("--cache")
    for _ in range(2):
        shop.broker.publish("order-1", ORDER)
    shop.broker.run(worker)
    worker.empty_cache()
    shop.broker.publish("order-1", ORDER)
    shop.broker.publish("order-1", ORDER)
    shop.broker.publish("order-1", {"account": "ada", "points": 500})
    shop.broker.run(worker)
    shop.check({"executed": 1, "cached": 2, "replayed": 1, "conflict": 1}, {"ada": 5}, ["order-1"])


def test_everything_in_memory_is_lost_at_once(shop, start, shared_store, link):
    """Case 8. Consumer and server are killed between deliveries, with all that they had in memory."""
    server = start(*shared_store)
    link.lead_to(server.address)
    shop.address = link.address
    worker = shop.worker("--cache")
    shop.broker.publish("order-1", ORDER)
    shop.broker.run(worker)
    server.kill()
    worker.program.kill()

    link.lead_to(start(*shared_store).address)
    shop.broker.publish("order-1", ORDER)
    shop.broker.publish("order-1", {"account": "ada", "points": 500})
    shop.broker.run(shop.worker("--cache"))
    shop.check({"executed": 1, "replayed": 1, "conflict": 1}, {"ada": 5}, ["order-1"])


@pytest.mark.parametrize("moment", ["die before commit", "die after commit"])
def test_consumer_that_is_killed_is_neither_lost_nor_doubled(shop, moment):
    """With the fence table: the successor asks the ledger and completes with what it finds, or runs."""
    worker = shop.worker("--fence-table", "--lease=0.5")
    message = shop.broker.publish("order-1", ORDER)
    with pytest.raises(ProgramDied):
        worker.deliver(shop.broker.take(), moment).answer()
    successor = shop.worker("--fence-table")
    while (answer := successor.deliver(shop.broker.take()).answer())["action"] == "come back":
        pass
    shop.broker.settle(message, answer)
    shop.broker.publish("order-1", ORDER)
    shop.broker.run(successor)
    shop.check({"executed": 1, "replayed": 1}, {"ada": 5}, ["order-1"])
    assert json.loads(raw(next(iter(shop.broker.receipts["order-1"])))) == {"balance": 5}
