"""A small broker that delivers at least once: a log with one committed offset, redelivery, a dead-letter queue. In the test's process.

What it gives to consumers is what brokers give: the message with its own reference and whether it was handed over before. It knows
nothing of event ids; a producer that sends again makes a new message about the same fact.
"""

import collections
import dataclasses

FIRST, REDELIVERY, DEAD_LETTER, COMPENSATION = (
    f"DELIVERY_SOURCE_{name}" for name in ("FIRST", "REDELIVERY", "DEAD_LETTER", "COMPENSATION"))


@dataclasses.dataclass
class Message:
    event_id: str
    body: dict
    reference: str = ""
    source: str = FIRST
    deliveries: int = 0


class Broker:
    def __init__(self, deliveries_before_dead_letter: int = 3):
        self.log: list[Message] = []
        self.committed = 0
        self.dead_letters: list[Message] = []
        self.parked: list[Message] = []  # for people
        self.outcomes = collections.Counter()  # of all deliveries
        self.receipts = collections.defaultdict(set)  # by event id: the bytes that anybody was given
        self._position = 0
        self._lose_commits = 0
        self._limit = deliveries_before_dead_letter

    # ---- producers ----

    def publish(self, event_id: str, body: dict, source: str = FIRST) -> Message:
        message = Message(event_id, body, f"topic-0@{len(self.log)}", source)
        self.log.append(message)
        return message

    def replay_dead_letters(self) -> None:
        dead, self.dead_letters = self.dead_letters, []
        for message in dead:
            self.publish(message.event_id, message.body, DEAD_LETTER)

    # ---- trouble ----

    def lose_commits(self, number: int) -> None:
        """The next offset commits fail: what was handed over since comes again."""
        self._lose_commits = number

    # ---- consumers ----

    def take(self) -> Message | None:
        if self._position == len(self.log):
            return None
        message = self.log[self._position]
        if message.deliveries:
            message.source = REDELIVERY if message.source == FIRST else message.source
        message.deliveries += 1
        return message

    def settle(self, message: Message, answer: dict) -> None:
        """What the consumer said about the message that was taken last."""
        self.note(message, answer)
        if "raised" in answer:
            if message.deliveries < self._limit:
                return  # not acknowledged: comes again
            self.dead_letters.append(message)
        elif answer["action"] == "come back":
            return
        elif answer["action"] == "stop":
            self.parked.append(message)
        self._position += 1
        if self._lose_commits:
            self._lose_commits -= 1
            self._position = self.committed
        else:
            self.committed = self._position

    def note(self, message: Message, answer: dict) -> None:
        self.outcomes["failed" if "raised" in answer else answer["how"]] += 1
        if answer.get("receipt") is not None:
            self.receipts[message.event_id].add(answer["receipt"])

    def run(self, worker, faults: list[str] | None = None) -> None:
        """Until everything is settled. `faults`: what goes wrong in the first deliveries, one each."""
        faults = list(faults or ())
        while message := self.take():
            self.settle(message, worker.deliver(message, faults.pop(0) if faults else "").answer())
