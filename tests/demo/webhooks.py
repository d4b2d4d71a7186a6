#!/usr/bin/env python3
"""A day of webhooks against a consumer with a ledger: what Once is for, on real input.

  webhooks.py --onced PATH --payloads FILE [--seed N] [--facts N]

Real webhook payloads (JSON lines {"id", "event", "body"}) are delivered by a small at-least-once broker: again and again, to several
consumers at once, in other spellings, in tampered copies. Consumers are processes; some are killed before their ledger commits, some between
their ledger's commit and Complete. Each keeps points per account in a SQLite ledger of its own, with the fence table of
docs/guides/fence-table.md in the same transaction.

Ends with a table, and with exit status 0 only if the ledger equals what each fact once would give, every conflict was found, and all callers got
the first caller's receipt.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import queue
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANDLER = "points.grant"
CONSUMERS = 4
LEASE_MS = 700


# ---- the facts, and what they are worth ----


def account_of(body: dict) -> str:
    for part, name in (("repository", "full_name"), ("organization", "login"), ("sender", "login")):
        if isinstance(body.get(part), dict) and body[part].get(name):
            return body[part][name]
    return "unknown"


def points_of(event: str, body: dict) -> int:
    return len(event) + len(body)


def respelled(body: str, rng: random.Random) -> str:
    """The same JSON document in another spelling."""

    def shuffled(value):
        if isinstance(value, list):
            return [shuffled(v) for v in value]
        if not isinstance(value, dict):
            return value
        members = list(value.items())
        rng.shuffle(members)
        return {k: shuffled(v) for k, v in members}

    return json.dumps(shuffled(json.loads(body)), indent=rng.choice([None, 1, 2]), ensure_ascii=rng.random() < 0.5)


def tampered(body: str) -> str:
    changed = json.loads(body)
    changed["sender"] = {"login": "mallory"}
    return json.dumps(changed)


def deliveries(facts: list[dict], rng: random.Random) -> list[dict]:
    """What the broker hands over, in order. `kill` says where the consumer dies the first time it is granted."""
    plan = []
    for position, fact in enumerate(facts):
        kill = {3: "before commit", 7: "after commit"}.get(position % 20)
        plan.append((position, {**fact, "source": 1, "kill": kill}))
        if rng.random() < 0.4:  # a send timeout: the producer sends again, at once
            plan.append((position, {**fact, "source": 1, "kill": None}))
        for _ in range(rng.choice([0, 0, 1, 2])):  # a lost acknowledgement, a dead letter, a compensation, a replay
            later = {**fact, "body": respelled(fact["body"], rng), "source": rng.choice([2, 3, 4, 5]), "kill": None}
            plan.append((position + rng.randrange(1, 200), later))
        if rng.random() < 0.1:  # well after the genuine one, or it would be the first to claim
            plan.append((position + 20 + rng.randrange(50), {**fact, "body": tampered(fact["body"]), "source": 2, "tampered": True}))
    plan.sort(key=lambda entry: entry[0])
    return [{**delivery, "number": number} for number, (_, delivery) in enumerate(plan)]


# ---- the ledger: one SQLite file, one transaction per effect ----


def open_ledger(path: str) -> sqlite3.Connection:
    ledger = sqlite3.connect(path, timeout=30, isolation_level=None)
    ledger.executescript(
        """PRAGMA journal_mode = WAL;
        CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, points INTEGER NOT NULL, entries INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS once_effect (handler TEXT, event_id TEXT, fence INTEGER NOT NULL, result BLOB NOT NULL,
          PRIMARY KEY (handler, event_id)) WITHOUT ROWID;"""
    )
    return ledger


def effect_of(ledger: sqlite3.Connection, event_id: str) -> bytes | None:
    row = ledger.execute("SELECT result FROM once_effect WHERE handler = ? AND event_id = ?", (HANDLER, event_id)).fetchone()
    return row[0] if row else None


def grant_points(ledger: sqlite3.Connection, delivery: dict, fence: int) -> bytes:
    """The business effect and its fence row, together or not at all."""
    body = json.loads(delivery["body"])
    account, points = account_of(body), points_of(delivery["event"], body)
    ledger.execute("BEGIN IMMEDIATE")
    try:
        ledger.execute(
            "INSERT INTO account VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET points = points + excluded.points, entries = entries + 1",
            (account, points),
        )
        (balance,) = ledger.execute("SELECT points FROM account WHERE name = ?", (account,)).fetchone()
        result = json.dumps({"account": account, "points": points, "balance": balance}).encode()
        ledger.execute("INSERT INTO once_effect VALUES (?, ?, ?, ?)", (HANDLER, delivery["id"], fence, result))
        if delivery["kill"] == "before commit":
            os.kill(os.getpid(), signal.SIGKILL)
        ledger.execute("COMMIT")
    except sqlite3.Error:
        ledger.execute("ROLLBACK")
        raise
    return result


# ---- a consumer: generated code and the stock gRPC library ----


def consume(settings: dict, inbox, outbox) -> None:
    sys.path.insert(0, settings["stubs"])
    import grpc
    from once.v1 import idempotency_service_pb2 as pb
    from once.v1 import idempotency_service_pb2_grpc as rpc
    from once.v1 import types_pb2 as types

    stub = rpc.IdempotencyServiceStub(grpc.insecure_channel(settings["server"]))
    metadata = [("authorization", "Bearer " + settings["token"])]
    ledger = open_ledger(settings["ledger"])

    def begin(delivery: dict, attempt: bytes):
        request = pb.BeginRequest(
            handler=HANDLER,
            event_id=delivery["id"].encode(),
            content=types.Content(data=delivery["body"].encode(), scheme=types.DIGEST_SCHEME_JSON_JCS_SHA256),
            attempt_id=attempt,
            consumer=f"ledger-{os.getpid()}",
            delivery=types.Delivery(reference=f"delivery-{delivery['number']}", source=delivery["source"]),
        )
        request.lease.FromMilliseconds(LEASE_MS)
        return stub.Begin(request, metadata=metadata, timeout=10)

    def complete(delivery: dict, claim, result: bytes):
        return stub.Complete(
            pb.CompleteRequest(
                handler=HANDLER,
                event_id=delivery["id"].encode(),
                attempt_id=claim.attempt_id,
                fence=claim.fence,
                status=types.RECEIPT_STATUS_SUCCEEDED,
                result=result,
                content_type="application/json",
            ),
            metadata=metadata,
            timeout=10,
        )

    def execute(delivery: dict, granted) -> tuple[str, bytes]:
        how = "executed"
        if granted.HasField("earlier_attempt"):
            found = effect_of(ledger, delivery["id"])
            if found is not None:
                return "taken over, effect found", complete(delivery, granted.claim, found).completed.receipt.result
            how = "taken over, executed"
        result = grant_points(ledger, delivery, granted.claim.fence)
        if delivery["kill"] == "after commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return how, complete(delivery, granted.claim, result).completed.receipt.result

    for delivery in iter(inbox.get, None):
        answer = begin(delivery, uuid.uuid4().bytes)
        outcome = answer.WhichOneof("outcome")
        receipt, wait = b"", 0.0
        if outcome == "granted":
            outcome, receipt = execute(delivery, answer.granted)
        elif outcome == "completed":
            outcome, receipt = "replayed", answer.completed.receipt.result
        elif outcome == "in_progress":
            wait = answer.in_progress.suggested_wait.ToMilliseconds() / 1000
        outbox.put((delivery, outcome, receipt, wait))


# ---- the broker: at least once, to whichever consumer is free ----


class Broker:
    def __init__(self, settings: dict):
        self.context = multiprocessing.get_context("spawn")
        self.settings = settings
        self.outbox = self.context.Queue()
        self.workers = [self.start() for _ in range(CONSUMERS)]
        self.kills = 0

    def start(self) -> dict:
        inbox = self.context.Queue()
        process = self.context.Process(target=consume, args=(self.settings, inbox, self.outbox), daemon=True)
        process.start()
        return {"process": process, "inbox": inbox, "busy": None}

    def replace_dead(self, backlog: collections.deque) -> None:
        """A consumer that died did not acknowledge: its delivery comes again, as a redelivery, to somebody else."""
        for index, worker in enumerate(self.workers):
            if worker["process"].is_alive():
                continue
            self.kills += 1
            if worker["busy"] is not None:
                backlog.appendleft({**worker["busy"], "kill": None, "source": 2})
            self.workers[index] = self.start()

    def run(self, plan: list[dict]) -> list[tuple]:
        backlog, later, done = collections.deque(plan), [], []
        while backlog or later or any(w["busy"] for w in self.workers):
            now = time.monotonic()
            backlog.extend(d for t, d in later if t <= now)
            later = [(t, d) for t, d in later if t > now]
            for worker in self.workers:
                if worker["busy"] is None and backlog:
                    worker["busy"] = backlog.popleft()
                    worker["inbox"].put(worker["busy"])
            with contextlib.suppress(queue.Empty):
                delivery, outcome, receipt, wait = self.outbox.get(timeout=0.05)
                for worker in self.workers:
                    if worker["busy"] and worker["busy"]["number"] == delivery["number"]:
                        worker["busy"] = None
                done.append((delivery, outcome, receipt))
                if outcome == "in_progress":  # not acknowledged: comes again
                    later.append((time.monotonic() + wait, {**delivery, "source": 2}))
                continue
            self.replace_dead(backlog)
        for worker in self.workers:
            worker["inbox"].put(None)
        return done


# ---- the sums ----


def expected_ledger(facts: list[dict]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for fact in facts:
        body = json.loads(fact["body"])
        points, entries = sums.get(account_of(body), (0, 0))
        sums[account_of(body)] = (points + points_of(fact["event"], body), entries + 1)
    return sums


def report(facts: list[dict], plan: list[dict], done: list[tuple], kills: int, ledger_path: str) -> bool:
    counts = collections.Counter(outcome for _, outcome, _ in done)
    receipts = collections.defaultdict(set)
    for delivery, _, receipt in done:
        if receipt:
            receipts[delivery["id"]].add(hashlib.sha256(receipt).hexdigest())
    wrongly_decided = [d["number"] for d, outcome, _ in done if bool(d.get("tampered")) != (outcome == "conflict")]
    ledger = open_ledger(ledger_path)
    actual = {name: (points, entries) for name, points, entries in ledger.execute("SELECT name, points, entries FROM account")}
    expected = expected_ledger(facts)
    executed = counts["executed"] + counts["taken over, executed"] + counts["taken over, effect found"]
    rows = [
        ("unique facts", len(facts)),
        ("deliveries by the broker", len(done) + kills),
        ("  of them tampered copies", sum(1 for d in plan if d.get("tampered"))),
        ("consumers killed", kills),
        ("executed", counts["executed"]),
        ("taken over, not yet done: executed", counts["taken over, executed"]),
        ("taken over, found done in the ledger", counts["taken over, effect found"]),
        ("replayed (first receipt)", counts["replayed"]),
        ("in progress (came again)", counts["in_progress"]),
        ("conflicts", counts["conflict"]),
        ("facts with more than one receipt", sum(1 for r in receipts.values() if len(r) > 1)),
        ("ledger entries", sum(entries for _, entries in actual.values())),
        ("points in the ledger", sum(points for points, _ in actual.values())),
        ("points if each fact counts once", sum(points for points, _ in expected.values())),
    ]
    width = max(len(name) for name, _ in rows)
    print()
    for name, value in rows:
        print(f"  {name:<{width}}  {value:>7}")
    good = (
        actual == expected
        and executed == len(facts)
        and not wrongly_decided
        and len(receipts) == len(facts)
        and all(len(r) == 1 for r in receipts.values())
    )
    print(f"\n  the ledger {'equals' if actual == expected else 'DIFFERS FROM'} what each fact once would give")
    if wrongly_decided:
        print(f"  WRONGLY DECIDED deliveries: {wrongly_decided[:10]}")
    return good


# ---- set-up ----


def generate_stubs(target: pathlib.Path) -> None:
    plugin = subprocess.run(["which", "grpc_python_plugin"], check=True, capture_output=True, text=True).stdout.strip()
    protos = [str(p) for p in (ROOT / "proto/once/v1").glob("*.proto")]
    subprocess.run(
        ["protoc", f"-I{ROOT / 'proto'}", f"--python_out={target}", f"--grpc_python_out={target}",
         f"--plugin=protoc-gen-grpc_python={plugin}", *protos],
        check=True,
    )


@contextlib.contextmanager
def server(onced: str, data: pathlib.Path):
    """A server of its own on free ports; yields its address."""
    ports = data / "ports"
    log = (data / "onced.log").open("w")
    process = subprocess.Popen(
        [onced, "dev", f"--data-dir={data}", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", f"--ports-file={ports}"],
        stdout=log, stderr=log,
    )
    try:
        deadline = time.monotonic() + 30
        while not ports.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if not ports.exists():
            raise RuntimeError(f"the server did not start:\n{(data / 'onced.log').read_text()}")
        yield "127.0.0.1:" + json.loads(ports.read_text())["grpc"].rsplit(":", 1)[1]
    finally:
        process.terminate()
        process.wait(timeout=30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onced", required=True)
    parser.add_argument("--payloads", required=True)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--facts", type=int, default=0, help="only the first N payloads; 0: all")
    options = parser.parse_args()

    facts = [json.loads(line) for line in pathlib.Path(options.payloads).read_text().splitlines()]
    facts = facts[: options.facts or len(facts)]
    plan = deliveries(facts, random.Random(options.seed))
    print(f"{len(facts)} webhook payloads, {len(plan)} messages, {CONSUMERS} consumers (seed {options.seed})")
    with tempfile.TemporaryDirectory(prefix="once-demo-") as folder:
        data = pathlib.Path(folder)
        stubs = data / "stubs"
        stubs.mkdir()
        generate_stubs(stubs)
        with server(options.onced, data) as address:
            settings = {
                "stubs": str(stubs),
                "server": address,
                "token": (data / "credential").read_text().strip(),
                "ledger": str(data / "ledger.db"),
            }
            broker = Broker(settings)
            done = broker.run(plan)
        return 0 if report(facts, plan, done, broker.kills, settings["ledger"]) else 1


if __name__ == "__main__":
    sys.exit(main())
