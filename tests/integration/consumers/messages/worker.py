"""A consumer of messages with a ledger: points per account. A process of its own, so that a test can kill it.

In:   {"id": 1, "message": {…}, "fault": ""}     fault: fail | hold | die before commit | die after commit
      {"id": 1, "go": true}                      after "holding"
      {"id": 2, "empty cache": true}
Out:  {"id": 1, "holding": true}
      {"id": 1, "answer": {"how": …, "action": …, "receipt": …, "delay": …} | {"raised": …}}

The ledger deliberately has no unique key of its own: only Once keeps a fact from counting twice. With --fence-table it has the table
of docs/guides/fence-table.md in the same transaction, which is what makes it safe against being killed.
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import queue
import signal
import sqlite3
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

from once.v1 import types_pb2

import consumer as once

HANDLER = "points.grant"


class Ledger:
    def __init__(self, path: str, fence_table: bool):
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._fence_table = fence_table
        self._turn = threading.Lock()  # one connection, one transaction at a time
        self._database.executescript(
            """CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, points INTEGER NOT NULL, version INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS entry (event_id TEXT NOT NULL, account TEXT NOT NULL, points INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS once_effect (handler TEXT NOT NULL, event_id TEXT NOT NULL, fence INTEGER NOT NULL,
              result BLOB NOT NULL, PRIMARY KEY (handler, event_id)) WITHOUT ROWID;"""
        )

    def effect_of(self, event_id: str) -> bytes | None:
        with self._turn:
            row = self._database.execute("SELECT result FROM once_effect WHERE handler = ? AND event_id = ?", (HANDLER, event_id)).fetchone()
        return row[0] if row else None

    def version_of(self, account: str) -> int:
        with self._turn:
            row = self._database.execute("SELECT version FROM account WHERE name = ?", (account,)).fetchone()
        return row[0] if row else 0

    def grant(self, event_id: str, body: dict, fence: int, fault: str) -> bytes:
        with self._turn:
            result = self._grant(event_id, body, fence, fault)
        if fault == "die after commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def _grant(self, event_id: str, body: dict, fence: int, fault: str) -> bytes:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.execute(
                "INSERT INTO account VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET points = points + ?2, version = max(version, ?3)",
                (body["account"], body["points"], body.get("version", 0)),
            )
            self._database.execute("INSERT INTO entry VALUES (?, ?, ?)", (event_id, body["account"], body["points"]))
            (balance,) = self._database.execute("SELECT points FROM account WHERE name = ?", (body["account"],)).fetchone()
            result = json.dumps({"balance": balance}).encode()
            if self._fence_table:
                self._database.execute("INSERT INTO once_effect VALUES (?, ?, ?, ?)", (HANDLER, event_id, fence, result))
            if fault == "die before commit":
                os.kill(os.getpid(), signal.SIGKILL)
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        return result


class Worker:
    def __init__(self, options):
        self.ledger = Ledger(options.ledger, options.fence_table)
        self.consumer = once.Consumer(once.connect(options.server), options.token, name=options.name, lease=options.lease,
                                      give_up_after=30)
        self.cache = {} if options.cache else None  # a fast path before Once; nothing is lost with it
        self.signals = {}
        self.output = threading.Lock()

    def run(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if "go" in command:
                self.signals[command["id"]].put(True)
            elif "empty cache" in command:
                self.cache.clear()
                self.say(command, answer={})
            else:
                self.signals[command["id"]] = queue.SimpleQueue()
                threading.Thread(target=self.obey, args=(command,), daemon=True).start()

    def obey(self, command: dict) -> None:
        try:
            self.say(command, answer=self.handle(command))
        except Exception as failure:
            self.say(command, answer={"raised": f"{type(failure).__name__}: {failure}"})

    def handle(self, command: dict) -> dict:
        message = command["message"]
        content = json.dumps(message["body"]).encode()
        # With the content in its key: what was tampered with is not found here and meets Once.
        key = (message["event_id"], hashlib.sha256(content).digest())
        if self.cache is not None and key in self.cache:
            return {"how": "cached", "action": "acknowledge", "receipt": self.cache[key], "delay": 0}
        verdict = self.consumer.handle(
            once.Delivery(HANDLER, message["event_id"].encode(), content, types_pb2.DIGEST_SCHEME_JSON_JCS_SHA256,
                          message["reference"], types_pb2.DeliverySource.Value(message["source"])),
            lambda execution: self.work(execution, command),
        )
        receipt = base64.b64encode(verdict.receipt.result).decode() if verdict.receipt else None
        if self.cache is not None and receipt is not None:
            self.cache[key] = receipt
        how = {True: "executed", False: "replayed"}[verdict.executed] if verdict.outcome == "completed" else verdict.outcome
        return {"how": how, "action": verdict.action.value, "receipt": receipt, "delay": verdict.delay}

    def work(self, execution: once.Execution, command: dict) -> once.Result:
        message, fault = command["message"], command["fault"]
        if execution.earlier_attempt and (found := self.ledger.effect_of(message["event_id"])) is not None:
            return once.Result(found, "application/json")
        if fault == "fail":
            raise RuntimeError("the ledger cannot be reached")
        if fault == "hold":
            self.say(command, holding=True)
            self.signals[command["id"]].get()
        # Once does not guard versions yet: the business has to.
        version = message["body"].get("version", 0)
        if 0 < version <= (current := self.ledger.version_of(message["body"]["account"])):
            return once.Result(json.dumps({"refused": f"version {current} is done"}).encode(), "application/json", rejected=True)
        return once.Result(self.ledger.grant(message["event_id"], message["body"], execution.fence, fault), "application/json")

    def say(self, command: dict, **what) -> None:
        with self.output:
            sys.stdout.write(json.dumps({"id": command["id"], **what}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--ledger", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--lease", type=float, default=30)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--fence-table", action="store_true")
    Worker(parser.parse_args()).run()
