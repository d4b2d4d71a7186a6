"""A consumer of Once, made of generated code and the stock gRPC library only. Copy it.

    consumer = Consumer(connect("once.internal:7447", ca_file="ca.pem"), token, name="points-7f9c")
    verdict = consumer.handle(delivery, grant_points)
    if verdict.action is Action.ACKNOWLEDGE: ...

`handle` is the loop that every consumer needs; the other methods are the calls of once.v1.IdempotencyService, one to one, with the
repeating of calls and the reading of errors that every call needs. Thread-safe. All methods block.
"""

import dataclasses
import enum
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # generated; or from the package googleapis-common-protos
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import idempotency_service_pb2_grpc, types_pb2

log = logging.getLogger("once")

CALL_TIMEOUT = 10.0  # seconds for one sending of a call; a wait that was asked for is added
GIVE_UP_AFTER = 60.0  # seconds after which a call is not repeated any more: longer than a failover of the database takes
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0  # seconds between repeats, doubling


# ---- connecting ----


# [channel
def connect(target: str, ca_file: str | None = None) -> grpc.Channel:
    """A channel to keep for the life of the process. Without TLS only to this machine: the token crosses the network."""
    options = [
        ("grpc.keepalive_time_ms", 30_000),  # the server allows pings every 10 s
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        ("grpc.max_receive_message_length", 8 << 20),  # above the server's 4 MiB, so that its own error is seen
        ("grpc.enable_retries", 0),  # one layer of repeating: ours, which knows what is safe
    ]
    if ca_file is None:
        return grpc.insecure_channel(target, options)
    with open(ca_file, "rb") as file:
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(file.read()), options)
# ]


# ---- errors ----


class OnceError(Exception):
    """A call failed. `reason` is a name of once.v1.ErrorReason without its prefix; empty where the error is not the server's."""

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = ""
        self.domain = ""
        self.metadata: dict[str, str] = {}
        self.retry_delay: float | None = None  # seconds; set where the server says when to come back
        self.field_violations: list[tuple[str, str]] = []  # (path, what is wrong)

    @property
    def repeatable(self) -> bool:
        """Whether the same request, with the same attempt id, should be sent again."""
        # [repeatable
        if self.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return True
        # Without a delay it is gRPC's own word for a message that is too large.
        return self.code is grpc.StatusCode.RESOURCE_EXHAUSTED and self.retry_delay is not None
        # ]


# [error
def read_error(error: grpc.RpcError) -> OnceError:
    """Reads the details that come with the status."""
    read = OnceError(error.code(), error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                read.reason, read.domain, read.metadata = info.reason, info.domain, dict(info.metadata)
            elif detail.Unpack(retry):
                read.retry_delay = seconds(retry.retry_delay)
            elif detail.Unpack(bad):
                read.field_violations = [(violation.field, violation.description) for violation in bad.field_violations]
    return read
# ]


# ---- what `handle` takes and gives ----


@dataclasses.dataclass(frozen=True)
class Delivery:
    """One message as the broker handed it over, with the identity of the business event that it is about."""

    handler: str  # the kind of processing
    event_id: bytes  # fixed when the fact happened; not the broker's message id
    content: bytes
    scheme: int = types_pb2.DIGEST_SCHEME_UNSPECIFIED
    reference: str = ""  # the broker's own: message id, offset
    source: int = types_pb2.DELIVERY_SOURCE_UNSPECIFIED
    # Made here, so once for each delivery. Better: kept with the message, so that a restarted consumer is still the holder.
    attempt_id: bytes = dataclasses.field(default_factory=lambda: uuid.uuid4().bytes)


@dataclasses.dataclass(frozen=True)
class Result:
    """The final answer of the business. A failure that may succeed later is an exception instead."""

    body: bytes = b""
    content_type: str = ""
    rejected: bool = False  # refused for good, for a business reason


class RetryAfter(Exception):
    """Raised by the business function: give the claim back; nobody shall be granted for `delay` seconds."""

    def __init__(self, message: str, delay: float):
        super().__init__(message)
        self.delay = delay


class ForgetOperation(Exception):
    """Raised by the business function: nothing happened, and the identity may be used for other content."""


class OutcomeUnknown(Exception):
    """Raised by the business function: it may have acted (a payment call timed out). The claim is kept until its lease is over, so
    that the next attempt is told."""


class Action(enum.Enum):
    """What to do with the message now."""

    ACKNOWLEDGE = "acknowledge"
    COME_BACK = "come back"  # do not acknowledge; let the broker deliver it again, after `delay`
    STOP = "stop"  # do not acknowledge, do not try again: a person has to look


@dataclasses.dataclass(frozen=True)
class Verdict:
    action: Action
    outcome: str  # what decided: an outcome of Begin or Complete
    receipt: types_pb2.Receipt | None = None
    executed: bool = False  # whether the business function ran this time
    delay: float = 0.0  # seconds
    answer: object = None  # the outcome's message, for people


class Execution:
    """What the business function is told. Thread-safe."""

    def __init__(self, delivery: Delivery, granted: types_pb2.Granted, measured_from: float):
        self.delivery = delivery
        self.attempt_id = granted.claim.attempt_id
        self.fence = granted.claim.fence  # write it beside the effect
        self.attempt_number = granted.attempt_number
        # Set where an earlier attempt may have acted: ask the business data first.
        self.earlier_attempt = granted.earlier_attempt if granted.HasField("earlier_attempt") else None
        self._lost = False
        self.renewed(granted.claim, measured_from)

    def renewed(self, claim: types_pb2.Claim, measured_from: float) -> None:
        self.lease_end = measured_from + seconds(claim.lease_remaining)

    def lose(self) -> None:
        self._lost = True

    @property
    def claim_lost(self) -> bool:
        """Ask before an effect that cannot be fenced. Failed renewals alone do not make it true."""
        return self._lost or time.monotonic() >= self.lease_end


# ---- the consumer ----


class Consumer:
    def __init__(self, channel: grpc.Channel, token: str, name: str = "", handler_version: str = "", lease: float = 30.0,
                 give_up_after: float = GIVE_UP_AFTER):
        self._stub = idempotency_service_pb2_grpc.IdempotencyServiceStub(channel)
        self._metadata = [("authorization", f"Bearer {token}")]
        self._name = name
        self._handler_version = handler_version
        self._lease = lease
        self._give_up_after = give_up_after

    # ---- the calls, one to one ----

    def begin(self, request: service_pb2.BeginRequest) -> service_pb2.BeginResponse:
        return self._call(self._stub.Begin, request, seconds(request.wait))

    def complete(self, request: service_pb2.CompleteRequest) -> service_pb2.CompleteResponse:
        return self._call(self._stub.Complete, request)

    def abandon(self, request: service_pb2.AbandonRequest) -> service_pb2.AbandonResponse:
        return self._call(self._stub.Abandon, request)

    def renew(self, request: service_pb2.RenewRequest) -> service_pb2.RenewResponse:
        return self._call(self._stub.Renew, request)

    def lookup(self, request: service_pb2.LookupRequest) -> service_pb2.LookupResponse:
        return self._call(self._stub.Lookup, request, seconds(request.wait))

    def batch_begin(self, request: service_pb2.BatchBeginRequest) -> service_pb2.BatchBeginResponse:
        return self._call(self._stub.BatchBegin, request)

    def batch_complete(self, request: service_pb2.BatchCompleteRequest) -> service_pb2.BatchCompleteResponse:
        return self._call(self._stub.BatchComplete, request)

    def batch_renew(self, request: service_pb2.BatchRenewRequest) -> service_pb2.BatchRenewResponse:
        return self._call(self._stub.BatchRenew, request)

    # [call
    def _call(self, method, request, wait: float = 0.0):
        """Sends the same request until it is answered, or OnceError where repeating does not help or has lasted long enough."""
        give_up = time.monotonic() + self._give_up_after + wait
        pause = FIRST_PAUSE
        while True:
            try:
                return method(request, metadata=self._metadata, timeout=CALL_TIMEOUT + wait)
            except grpc.RpcError as error:
                failure = read_error(error)
            # Spread, so that all who were sent away together do not come back together.
            delay = max(pause * random.uniform(0.5, 1.0), (failure.retry_delay or 0.0) * random.uniform(1.0, 1.25))
            if not failure.repeatable or time.monotonic() + delay >= give_up:
                raise failure
            log.info("sending %s again in %.3f s: %s %s", type(request).__name__, delay, failure.reason, failure)
            time.sleep(delay)
            pause = min(pause * 2, LONGEST_PAUSE)
    # ]

    # ---- the loop ----

    # [handle
    def handle(self, delivery: Delivery, work: Callable[[Execution], Result], wait: float = 0.0) -> Verdict:
        """Runs `work` if this delivery is the one that must, and says what to do with the message. What `work` raises passes
        through after the claim was given back: do not acknowledge then. OnceError: as if it had not been delivered."""
        began = time.monotonic()
        answer = self.begin(self._begin_request(delivery, wait))
        outcome = answer.WhichOneof("outcome")
        told = getattr(answer, outcome)
        if outcome == "granted":
            return self._execute(delivery, told, began, work)
        log.info("%s %r attempt %s: %s", delivery.handler, delivery.event_id, delivery.attempt_id.hex(), outcome)
        if outcome == "completed":
            return Verdict(Action.ACKNOWLEDGE, outcome, told.receipt, answer=told)
        if outcome in ("stale", "expired"):
            return Verdict(Action.ACKNOWLEDGE, outcome, answer=told)
        if outcome == "in_progress":
            return Verdict(Action.COME_BACK, outcome, delay=seconds(told.suggested_wait), answer=told)
        return Verdict(Action.STOP, outcome, answer=told)  # conflict, in_doubt, and whatever a newer server may say
    # ]

    def _begin_request(self, delivery: Delivery, wait: float) -> service_pb2.BeginRequest:
        return service_pb2.BeginRequest(
            handler=delivery.handler,
            event_id=delivery.event_id,
            content=types_pb2.Content(data=delivery.content, scheme=delivery.scheme),
            attempt_id=delivery.attempt_id,
            lease=duration(self._lease),
            wait=duration(wait),
            consumer=self._name,
            handler_version=self._handler_version,
            delivery=types_pb2.Delivery(reference=delivery.reference, source=delivery.source),
        )

    def _execute(self, delivery: Delivery, granted: types_pb2.Granted, began: float, work) -> Verdict:
        execution = Execution(delivery, granted, began)
        log.info("%s %r attempt %s: granted, number %d, fence %d%s", delivery.handler, delivery.event_id, delivery.attempt_id.hex(),
                 granted.attempt_number, granted.claim.fence, "; an earlier attempt is unknown" if execution.earlier_attempt else "")
        # A Begin that waited or was repeated says little about how much of the lease is left.
        if time.monotonic() - began > seconds(granted.claim.lease_remaining) / 3:
            self._renew(execution)
            if execution.claim_lost:
                return Verdict(Action.COME_BACK, "claim_lost")
        with _Renewals(self, execution):
            try:
                result = work(execution)
            except Exception as failure:
                self._give_back(execution, failure)
                raise
        return self._complete(execution, result)

    def _complete(self, execution: Execution, result: Result) -> Verdict:
        answer = self.complete(service_pb2.CompleteRequest(
            handler=execution.delivery.handler,
            event_id=execution.delivery.event_id,
            attempt_id=execution.attempt_id,
            fence=execution.fence,
            status=types_pb2.RECEIPT_STATUS_REJECTED if result.rejected else types_pb2.RECEIPT_STATUS_SUCCEEDED,
            result=result.body,
            content_type=result.content_type,
        ))
        outcome = answer.WhichOneof("outcome")
        told = getattr(answer, outcome)
        log.info("%s %r attempt %s: %s", execution.delivery.handler, execution.delivery.event_id, execution.attempt_id.hex(), outcome)
        if outcome == "completed":
            return Verdict(Action.ACKNOWLEDGE, outcome, told.receipt, executed=True, answer=told)
        if outcome == "claim_lost":  # somebody took over: come back for their receipt
            return Verdict(Action.COME_BACK, outcome, executed=True, answer=told)
        return Verdict(Action.STOP, outcome, executed=True, answer=told)  # completed before, with another result

    def _give_back(self, execution: Execution, failure: Exception) -> None:
        if isinstance(failure, OutcomeUnknown):
            return
        request = service_pb2.AbandonRequest(
            handler=execution.delivery.handler,
            event_id=execution.delivery.event_id,
            attempt_id=execution.attempt_id,
            fence=execution.fence,
            mode=service_pb2.AbandonRequest.MODE_RELEASE,
            reason=str(failure).encode("ascii", "replace")[:255].decode("ascii"),
        )
        if isinstance(failure, ForgetOperation):
            request.mode = service_pb2.AbandonRequest.MODE_FORGET
        elif isinstance(failure, RetryAfter):
            request.retry_delay.CopyFrom(duration(failure.delay))
        try:
            self.abandon(request)
        except OnceError as error:  # what is not given back ends with its lease
            log.warning("attempt %s was not given back: %s", execution.attempt_id.hex(), error)

    def _renew(self, execution: Execution) -> None:
        sent = time.monotonic()
        try:
            answer = self.renew(service_pb2.RenewRequest(
                handler=execution.delivery.handler,
                event_id=execution.delivery.event_id,
                attempt_id=execution.attempt_id,
                fence=execution.fence,
                lease=duration(self._lease),
            ))
        except OnceError as error:  # the lease that was granted goes on by our own clock
            log.warning("attempt %s was not renewed: %s", execution.attempt_id.hex(), error)
            return
        if answer.WhichOneof("outcome") == "claim":
            execution.renewed(answer.claim, sent)
        else:
            log.warning("attempt %s lost its claim to %r", execution.attempt_id.hex(), answer.claim_lost.consumer)
            execution.lose()


class _Renewals:
    """Renews at a third of the lease while the business function runs."""

    def __init__(self, consumer: Consumer, execution: Execution):
        self._consumer = consumer
        self._execution = execution
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_) -> None:
        self._done.set()
        self._thread.join()  # no renewal is under way when the claim is completed or given back

    def _run(self) -> None:
        while not self._done.wait(self._consumer._lease / 3) and not self._execution.claim_lost:
            self._consumer._renew(self._execution)


# ---- durations ----


def seconds(value: Duration) -> float:
    return value.seconds + value.nanos / 1e9


def duration(value: float) -> Duration:
    made = Duration()
    made.FromMicroseconds(round(value * 1e6))
    return made
