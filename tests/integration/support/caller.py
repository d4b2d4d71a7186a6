"""Calls with the stock gRPC library, as a consumer without our client makes them."""

import contextlib
import dataclasses
import os
import uuid

from . import stubs  # noqa: F401  (puts the generated modules on the path)

import grpc
from google.protobuf import text_format
from google.protobuf.duration_pb2 import Duration
from once.internal.v1 import wire_status_pb2
from once.v1 import admin_service_pb2, admin_service_pb2_grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import idempotency_service_pb2_grpc, operator_service_pb2, operator_service_pb2_grpc, policy_pb2, types_pb2

DEADLINE = 60


def new_attempt() -> bytes:
    return uuid.uuid4().bytes


def duration(seconds: float) -> Duration:
    value = Duration()
    value.FromMicroseconds(round(seconds * 1e6))
    return value


@dataclasses.dataclass
class Failure:
    """A failed call: its code, message and google.rpc details."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: dict = dataclasses.field(default_factory=dict)
    retry_delay: float | None = None
    fields: list = dataclasses.field(default_factory=list)


def failure_of(error: grpc.RpcError) -> Failure:
    failure = Failure(error.code(), error.details())
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = wire_status_pb2.RpcStatus.FromString(value)
        assert status.code == error.code().value[0]
        for detail in status.details:
            kind = detail.type_url.rsplit("/", 1)[1]
            if kind == "google.rpc.ErrorInfo":
                info = wire_status_pb2.ErrorInfo.FromString(detail.value)
                assert info.domain == "once"
                failure.reason, failure.metadata = info.reason, dict(info.metadata)
            elif kind == "google.rpc.RetryInfo":
                delay = wire_status_pb2.RetryInfo.FromString(detail.value).retry_delay
                failure.retry_delay = delay.ToMicroseconds() / 1e6
            elif kind == "google.rpc.BadRequest":
                request = wire_status_pb2.BadRequest.FromString(detail.value)
                failure.fields = [violation.field for violation in request.field_violations]
    return failure


@contextlib.contextmanager
def expect_failure(code: grpc.StatusCode, reason: str):
    """with expect_failure(...) as failure: call(...)  →  `failure[0]` afterwards."""
    caught = []
    try:
        yield caught
    except grpc.RpcError as error:
        caught.append(failure_of(error))
        assert (caught[0].code, caught[0].reason) == (code, reason), caught[0]
        return
    raise AssertionError(f"the call succeeded; expected {reason}")


class Caller:
    """One channel with one credential. Thread-safe."""

    def __init__(self, address: str, token: str | None, credentials: grpc.ChannelCredentials | None = None, options=()):
        options = [("grpc.max_receive_message_length", 16 << 20), ("grpc.use_local_subchannel_pool", 1), *options]
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, credentials, options)
        self.metadata = [] if token is None else [("authorization", f"Bearer {token}")]
        self.idempotency = idempotency_service_pb2_grpc.IdempotencyServiceStub(self.channel)
        self.admin = admin_service_pb2_grpc.AdminServiceStub(self.channel)
        self.operator = operator_service_pb2_grpc.OperatorServiceStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def call(self, method, request, deadline: float = DEADLINE):
        return method(request, timeout=deadline, metadata=self.metadata, wait_for_ready=False)

    def start(self, method, request, deadline: float = DEADLINE) -> grpc.Future:
        return method.future(request, timeout=deadline, metadata=self.metadata)

    # ---- the data plane, with defaults that tests like ----

    def begin_request(self, handler: str, event_id: bytes, content: bytes = b"content", attempt: bytes | None = None,
                      lease: float | None = None, wait: float | None = None, **fields) -> service_pb2.BeginRequest:
        request = service_pb2.BeginRequest(handler=handler, event_id=event_id, attempt_id=attempt or new_attempt(), **fields)
        if "digest" not in fields and not isinstance(content, types_pb2.Content):
            content = types_pb2.Content(data=content)
        if "digest" not in fields:
            request.content.CopyFrom(content)
        if lease is not None:
            request.lease.CopyFrom(duration(lease))
        if wait is not None:
            request.wait.CopyFrom(duration(wait))
        return request

    def begin(self, handler: str, event_id: bytes, *args, deadline: float = DEADLINE, **fields) -> service_pb2.BeginResponse:
        return self.call(self.idempotency.Begin, self.begin_request(handler, event_id, *args, **fields), deadline)

    def granted(self, handler: str, event_id: bytes, *args, **fields) -> types_pb2.Granted:
        answer = self.begin(handler, event_id, *args, **fields)
        assert answer.WhichOneof("outcome") == "granted", answer
        return answer.granted

    def complete(self, handler: str, event_id: bytes, claim: types_pb2.Claim, result: bytes = b"result",
                 status=types_pb2.RECEIPT_STATUS_SUCCEEDED, **fields) -> service_pb2.CompleteResponse:
        return self.call(self.idempotency.Complete, service_pb2.CompleteRequest(
            handler=handler, event_id=event_id, attempt_id=claim.attempt_id, fence=claim.fence, status=status, result=result,
            **fields))

    def abandon(self, handler: str, event_id: bytes, claim: types_pb2.Claim,
                mode=service_pb2.AbandonRequest.MODE_RELEASE, **fields) -> service_pb2.AbandonResponse:
        return self.call(self.idempotency.Abandon, service_pb2.AbandonRequest(
            handler=handler, event_id=event_id, attempt_id=claim.attempt_id, fence=claim.fence, mode=mode, **fields))

    def renew(self, handler: str, event_id: bytes, claim: types_pb2.Claim, lease: float | None = None) -> service_pb2.RenewResponse:
        request = service_pb2.RenewRequest(handler=handler, event_id=event_id, attempt_id=claim.attempt_id, fence=claim.fence)
        if lease is not None:
            request.lease.CopyFrom(duration(lease))
        return self.call(self.idempotency.Renew, request)

    def lookup(self, handler: str, event_id: bytes, wait: float | None = None, **fields) -> service_pb2.LookupResponse:
        request = service_pb2.LookupRequest(handler=handler, event_id=event_id, **fields)
        if wait is not None:
            request.wait.CopyFrom(duration(wait))
        return self.call(self.idempotency.Lookup, request)

    # ---- for operators ----

    def operation(self, handler: str, event_id: bytes) -> operator_service_pb2.Operation:
        return self.call(self.operator.GetOperation, operator_service_pb2.GetOperationRequest(
            handler=handler, event_id=event_id)).operation

    def log(self, handler: str, event_id: bytes, **fields) -> operator_service_pb2.ListAttemptsResponse:
        return self.call(self.operator.ListAttempts, operator_service_pb2.ListAttemptsRequest(
            handler=handler, event_id=event_id, **fields))

    def resolve(self, handler: str, event_id: bytes, claim, verdict: str, evidence: str = "a test",
                **fields) -> operator_service_pb2.ResolveResponse:
        """`claim`: what names it, with attempt_id and fence. `verdict`: DONE, REFUSED or NOT_DONE."""
        return self.call(self.operator.Resolve, operator_service_pb2.ResolveRequest(
            handler=handler, event_id=event_id, attempt_id=claim.attempt_id, fence=claim.fence,
            verdict=operator_service_pb2.ResolveRequest.Verdict.Value(f"VERDICT_{verdict}"), evidence=evidence, **fields))

    def reset(self, handler: str, event_id: bytes, fence: int, reason: str = "a test") -> operator_service_pb2.ResetResponse:
        return self.call(self.operator.Reset, operator_service_pb2.ResetRequest(
            handler=handler, event_id=event_id, fence=fence, reason=reason))

    # ---- the control plane ----

    def create_tenant(self, name: str) -> None:
        self.call(self.admin.CreateTenant, admin_service_pb2.CreateTenantRequest(name=name))

    def create_credential(self, tenant: str, role=admin_service_pb2.ROLE_CONSUMER, patterns=(), **fields):
        """The response: credential and token."""
        return self.call(self.admin.CreateCredential, admin_service_pb2.CreateCredentialRequest(
            tenant=tenant, role=role, handler_patterns=list(patterns), **fields))


    def apply_policies(self, tenant: str, text: str, expected: int | None = None, reason: str = "a test", **fields):
        """Replaces the policies of a tenant by a file in text format; after the current version unless told otherwise."""
        policies = text_format.Parse(text, policy_pb2.HandlerPolicySet())
        if expected is None:
            expected = self.policies(tenant).version.version
        return self.call(self.admin.ApplyHandlerPolicies, admin_service_pb2.ApplyHandlerPoliciesRequest(
            tenant=tenant, policy_set=policies, expected_version=expected, reason=reason, **fields))

    def policies(self, tenant: str, version: int = 0) -> admin_service_pb2.GetHandlerPoliciesResponse:
        return self.call(self.admin.GetHandlerPolicies,
                         admin_service_pb2.GetHandlerPoliciesRequest(tenant=tenant, version=version))

    def audit(self, tenant: str = "", page_size: int = 0, page_token: str = "") -> admin_service_pb2.ListAuditRecordsResponse:
        return self.call(self.admin.ListAuditRecords, admin_service_pb2.ListAuditRecordsRequest(
            tenant=tenant, page_size=page_size, page_token=page_token))


# Tests talk to servers on this machine; a proxy of the environment has no part in that.
os.environ["no_grpc_proxy"] = "127.0.0.1,localhost"
