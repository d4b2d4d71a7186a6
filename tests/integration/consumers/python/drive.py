"""Lets a test play with the consumer: commands come in as lines of JSON, answers go out the same way. Not part of the example.

In:   {"id": 1, "do": "connect", "as": "a", "server": HOST:PORT, "token": …, "name": …, "lease": s, "give_up_after": s}
      {"id": 2, "do": "begin", "as": "a", "request": {…}}                any call of the consumer, by its Python name
      {"id": 2, "do": "admin", "as": "a", "method": "CreateTenant", "request": {…}}
      {"id": 3, "do": "handle", "as": "a", "delivery": {…}, "wait": s}   the loop; its business function is the test:
      {"id": 3, "do": "answer", "with": {"result": …} | {"raise": …}}
Out:  {"id": 2, "answer": {…}} | {"id": 2, "error": {…}}
      {"id": 3, "working": {…}}                                          the business function was called and waits for its answer

Messages in JSON: names of the protos, bytes in base64, enums by name, 64-bit integers as decimal strings, durations and timestamps
as their two fields, all fields present.
"""

import base64
import json
import pathlib
import queue
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import grpc
from google.protobuf.descriptor import FieldDescriptor
from once.v1 import admin_service_pb2, admin_service_pb2_grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

import consumer as once

LONGS = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)


# ---- messages ↔ JSON ----


def to_json(message) -> dict:
    shown = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            shown[field.name] = dict(value)
        elif field.label == FieldDescriptor.LABEL_REPEATED:
            shown[field.name] = [value_to_json(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            shown[field.name] = value_to_json(field, value)
    for oneof in message.DESCRIPTOR.oneofs:
        shown[oneof.name] = message.WhichOneof(oneof.name)
    return shown


def value_to_json(field, value):
    if field.message_type:
        return to_json(value)
    if field.enum_type:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    return str(value) if field.cpp_type in LONGS else value


def to_message(message, shown: dict):
    for name, value in shown.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.label == FieldDescriptor.LABEL_REPEATED:
            for item in value:
                to_message(getattr(message, name).add(), item)
        elif field.message_type:
            to_message(getattr(message, name), value)
            getattr(message, name).SetInParent()
        elif field.enum_type and isinstance(value, str):
            setattr(message, name, field.enum_type.values_by_name[value].number)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            setattr(message, name, base64.b64decode(value))
        else:
            setattr(message, name, int(value) if field.cpp_type in LONGS else value)
    return message


def error_to_json(error: once.OnceError) -> dict:
    return {
        "code": error.code.name,
        "message": error.message,
        "reason": error.reason,
        "domain": error.domain,
        "metadata": error.metadata,
        "retry_delay": error.retry_delay,
        "field_violations": [{"field": field, "description": text} for field, text in error.field_violations],
        "repeatable": error.repeatable,
    }


def execution_to_json(execution: once.Execution) -> dict:
    return {
        "attempt_id": base64.b64encode(execution.attempt_id).decode(),
        "fence": str(execution.fence),
        "attempt_number": execution.attempt_number,
        "earlier_attempt": to_json(execution.earlier_attempt) if execution.earlier_attempt else None,
        "claim_lost": execution.claim_lost,
    }


def verdict_to_json(verdict: once.Verdict) -> dict:
    return {
        "action": verdict.action.value,
        "outcome": verdict.outcome,
        "receipt": to_json(verdict.receipt) if verdict.receipt else None,
        "executed": verdict.executed,
        "delay": verdict.delay,
    }


# ---- commands ----

REQUESTS = {
    "begin": service_pb2.BeginRequest,
    "complete": service_pb2.CompleteRequest,
    "abandon": service_pb2.AbandonRequest,
    "renew": service_pb2.RenewRequest,
    "lookup": service_pb2.LookupRequest,
    "batch_begin": service_pb2.BatchBeginRequest,
    "batch_complete": service_pb2.BatchCompleteRequest,
    "batch_renew": service_pb2.BatchRenewRequest,
}
FAILURES = {
    "RetryAfter": lambda command: once.RetryAfter(command["message"], command["delay"]),
    "ForgetOperation": lambda command: once.ForgetOperation(command["message"]),
    "OutcomeUnknown": lambda command: once.OutcomeUnknown(command["message"]),
    "Error": lambda command: RuntimeError(command["message"]),
}


class Driver:
    def __init__(self):
        self.consumers = {}
        self.admins = {}
        self.answers = {}  # of the business function, by command
        self.output = threading.Lock()

    def run(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "connect":
                self.connect(command)
            elif command["do"] == "answer":
                self.answers[command["id"]].put(command["with"])
            else:
                self.answers[command["id"]] = queue.SimpleQueue()
                threading.Thread(target=self.obey, args=(command,), daemon=True).start()

    def connect(self, command: dict) -> None:
        channel = once.connect(command["server"])
        self.admins[command["as"]] = (admin_service_pb2_grpc.AdminServiceStub(channel), command["token"])
        self.consumers[command["as"]] = once.Consumer(
            channel, command["token"], name=command["name"], handler_version=command["handler_version"],
            lease=command["lease"], give_up_after=command["give_up_after"])
        self.say(command, answer={})

    def obey(self, command: dict) -> None:
        consumer = self.consumers[command["as"]]
        try:
            if command["do"] == "handle":
                answer = verdict_to_json(consumer.handle(self.delivery(command["delivery"]), self.work(command), command["wait"]))
            elif command["do"] == "admin":
                answer = to_json(self.administer(command))
            else:
                request = to_message(REQUESTS[command["do"]](), command["request"])
                answer = to_json(getattr(consumer, command["do"])(request))
        except once.OnceError as error:
            self.say(command, error=error_to_json(error))
        except Exception as failure:
            self.say(command, raised={"type": type(failure).__name__, "message": str(failure)})
        else:
            self.say(command, answer=answer)

    def administer(self, command: dict):
        stub, token = self.admins[command["as"]]
        request = to_message(getattr(admin_service_pb2, command["method"] + "Request")(), command["request"])
        try:
            return getattr(stub, command["method"])(request, metadata=[("authorization", f"Bearer {token}")], timeout=60)
        except grpc.RpcError as error:
            raise once.read_error(error)

    def delivery(self, shown: dict) -> once.Delivery:
        fields = {**shown, "event_id": base64.b64decode(shown["event_id"]), "content": base64.b64decode(shown["content"])}
        if "attempt_id" in fields:
            fields["attempt_id"] = base64.b64decode(fields["attempt_id"])
        if "scheme" in fields:
            fields["scheme"] = types_pb2.DigestScheme.Value(fields["scheme"])
        if "source" in fields:
            fields["source"] = types_pb2.DeliverySource.Value(fields["source"])
        return once.Delivery(**fields)

    def work(self, command: dict):
        def ask_the_test(execution: once.Execution) -> once.Result:
            while True:
                self.say(command, working=execution_to_json(execution))
                answer = self.answers[command["id"]].get()
                if "raise" in answer:
                    raise FAILURES[answer["raise"]](answer)
                if "result" in answer:
                    return once.Result(base64.b64decode(answer["result"]), answer["content_type"], answer["rejected"])

        return ask_the_test

    def say(self, command: dict, **what) -> None:
        line = json.dumps({"id": command["id"], **what}) + "\n"
        with self.output:
            sys.stdout.write(line)
            sys.stdout.flush()


if __name__ == "__main__":
    Driver().run()
