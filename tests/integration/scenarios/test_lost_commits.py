"""The link to the database breaks at the worst moment: row C8 of the catalogue.

Server 0 reaches the database through a gate that cuts at a chosen moment of the transaction under test; server 1 has a link of
its own and says what is true. Whatever the caller is told must be what is in the rows: one claim, one receipt, one log row for
what was asked once.
"""

import contextlib

import pytest

from support.caller import failure_of, new_attempt
from support.cluster import Cluster
from support.tcp_gate import Moment, TcpGate, event_markers
from support.waiting import outcome

import grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

Code = grpc.StatusCode
RETRY_WINDOW = 0.3  # seconds, of the servers here
DONE = types_pb2.RECEIPT_STATUS_SUCCEEDED
RELEASE = service_pb2.AbandonRequest.MODE_RELEASE

pytestmark = [pytest.mark.scenario("C8"), pytest.mark.database]


@pytest.fixture(scope="module")
def gate(database_server):
    with TcpGate("127.0.0.1", database_server.port) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(gate, new_store, tmp_path_factory):
    made = Cluster(new_store(), tmp_path_factory.mktemp("cluster"), ports=[gate.port],
                   flags=[f"--retry-window={int(RETRY_WINDOW * 1000)}ms"])
    yield made
    made.close()


@pytest.fixture
def tenant(cluster, gate):
    gate.admit()
    made = cluster.new_tenant()
    cluster.servers[0].wait_until_ready(True)
    # The names that have to be made once are made, the credential is known, every session is there.
    claim = made.a.granted("h", b"warm").claim
    made.a.complete("h", b"warm", claim)
    yield made
    made.close()


class Case:
    """One kind of command, made ready: what to send, and how its answer and the rows are judged."""

    events = [b"event-1"]
    log_numbers = ()  # kind and outcome in the attempt log

    def __init__(self, tenant):
        self.tenant = tenant
        self.prepare()

    def prepare(self) -> None:
        self.claims = [self.tenant.b.granted("h", event_id, lease=600).claim for event_id in self.events]

    def send(self, caller):
        return caller.call(self.method(caller), self.request)

    def method(self, caller):
        raise NotImplementedError

    def judge(self, answer) -> None:
        """The answer is the one that the first sending would have got, and the rows agree."""
        raise NotImplementedError

    def done(self) -> bool:
        """The rows show the command's effect on the first operation."""
        raise NotImplementedError

    def operations(self, columns: str) -> list[list[str]]:
        rows = [self.tenant.operations(columns, event_id) for event_id in self.events]
        assert all(len(row) <= 1 for row in rows)
        return [row[0] for row in rows if row]

    def times_logged(self) -> set[int]:
        """For each operation, how many rows of the attempt log say that it was done."""
        done = [str(number) for number in self.log_numbers]
        return {self.tenant.attempts("kind, outcome", event_id).count(done) for event_id in self.events}


class Begin(Case):
    log_numbers = (1, 1)

    def prepare(self):
        self.request = self.tenant.a.begin_request("h", self.events[0], lease=600)

    def method(self, caller):
        return caller.idempotency.Begin

    def answers(self, answer):
        return [answer]

    def judge(self, answer):
        for granted, row in zip(self.answers(answer), self.operations("fence, claims, unknown_attempts"), strict=True):
            assert outcome(granted) == "granted"
            assert granted.granted.attempt_number == 1
            assert row == [str(granted.granted.claim.fence), "1", "0"]
        # Nobody else got it.
        for event_id in self.events:
            assert outcome(self.tenant.b.begin("h", event_id)) == "in_progress"

    def done(self):
        return self.tenant.operations("fence", self.events[0]) != []


class BatchBegin(Begin):
    events = [b"event-1", b"event-2", b"event-3"]

    def prepare(self):
        self.request = service_pb2.BatchBeginRequest(
            requests=[self.tenant.a.begin_request("h", event_id, lease=600) for event_id in self.events])

    def method(self, caller):
        return caller.idempotency.BatchBegin

    def answers(self, answer):
        return [result.response for result in answer.results]


class Complete(Case):
    log_numbers = (2, 8)

    def prepare(self):
        super().prepare()
        self.request = self.item(0)

    def item(self, number: int) -> service_pb2.CompleteRequest:
        claim = self.claims[number]
        # Too large for the operation's row: the body lies in a table of its own.
        return service_pb2.CompleteRequest(handler="h", event_id=self.events[number], attempt_id=claim.attempt_id,
                                           fence=claim.fence, status=DONE, result=b"%d" % number * 1000)

    def method(self, caller):
        return caller.idempotency.Complete

    def answers(self, answer):
        return [answer]

    def judge(self, answer):
        for number, item in enumerate(self.answers(answer)):
            receipt = item.completed.receipt
            assert (receipt.result, receipt.fence) == (b"%d" % number * 1000, self.claims[number].fence)
            assert self.tenant.b.begin("h", self.events[number]).completed.receipt == receipt

    def done(self):
        return self.tenant.operations("status", self.events[0]) == [[str(DONE)]]


class BatchComplete(Complete):
    events = [b"event-1", b"event-2", b"event-3"]

    def prepare(self):
        super().prepare()
        self.request = service_pb2.BatchCompleteRequest(requests=[self.item(number) for number in range(len(self.events))])

    def method(self, caller):
        return caller.idempotency.BatchComplete

    def answers(self, answer):
        return [result.response for result in answer.results]


class Abandon(Case):
    log_numbers = (3, 10)

    def prepare(self):
        super().prepare()
        claim = self.claims[0]
        self.request = service_pb2.AbandonRequest(handler="h", event_id=self.events[0], attempt_id=claim.attempt_id,
                                                  fence=claim.fence, mode=RELEASE)

    def method(self, caller):
        return caller.idempotency.Abandon

    def judge(self, answer):
        assert answer.abandoned.mode == RELEASE
        granted = self.tenant.b.granted("h", self.events[0])
        assert (granted.attempt_number, granted.HasField("earlier_attempt")) == (2, False)
        assert granted.claim.fence > self.claims[0].fence

    def done(self):
        return outcome(self.tenant.b.lookup("h", self.events[0])) == "unclaimed"


class Forget(Abandon):
    log_numbers = (3, 11)

    def prepare(self):
        super().prepare()
        self.request.mode = service_pb2.AbandonRequest.MODE_FORGET

    def judge(self, answer):
        assert outcome(answer) == "abandoned"
        assert self.operations("fence") == []
        granted = self.tenant.b.granted("h", self.events[0], b"other content")
        assert granted.attempt_number == 1
        assert granted.claim.fence > self.claims[0].fence

    def done(self):
        return self.operations("fence") == []


class Renew(Case):
    def prepare(self):
        super().prepare()
        claim = self.claims[0]
        self.request = service_pb2.RenewRequest(handler="h", event_id=self.events[0], attempt_id=claim.attempt_id, fence=claim.fence)
        self.request.lease.seconds = 7200

    def method(self, caller):
        return caller.idempotency.Renew

    def judge(self, answer):
        assert answer.claim.fence == self.claims[0].fence
        [[expires, claims]] = self.operations("lease_expires_us, claims")
        assert (int(expires), claims) == (answer.claim.lease_expire_time.ToMicroseconds(), "1")
        assert 7190 < answer.claim.lease_remaining.ToMilliseconds() / 1000 <= 7200

    def done(self):
        [[seconds]] = self.operations("(lease_expires_us - claimed_us) / 1000000")
        return float(seconds) > 7000


COMMANDS = [Begin, Complete, Abandon, Forget, Renew, BatchBegin, BatchComplete]


@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
class TestALinkThatIsCut:
    def test_once_is_made_up_for_before_the_caller_is_answered(self, gate, tenant, command, moment):
        case = command(tenant)
        cut = gate.cut(moment, event_markers(case.events[0]))
        answer = case.send(tenant.a)
        cut.wait()
        if case.log_numbers:  # a renewal that worked is not logged
            assert case.times_logged() == {1}
        case.judge(answer)

    def test_for_good_is_reported_as_not_known_and_the_same_request_tells_the_truth(self, gate, tenant, command, moment):
        case = command(tenant)
        cut = gate.cut(moment, event_markers(case.events[0]), then_refuse=True)
        failure = _failure_of(lambda: case.send(tenant.a))
        cut.wait()
        # Not to know is one thing, to know that nothing was sent another.
        reason = "STORE_UNAVAILABLE" if moment is Moment.IN_STATEMENT else "OUTCOME_UNKNOWN"
        assert failure == (Code.UNAVAILABLE.value[0], reason)
        assert case.done() == moment.committed
        # The other server, where the database can be reached.
        case.judge(case.send(tenant.b))


def _failure_of(call) -> tuple[int, str]:
    """Code and reason of a failed call, or of a batch's first item. (Its other items may be in transactions of their own.)"""
    try:
        error = call().results[0].error
    except grpc.RpcError as caught:
        failure = failure_of(caught)
        assert failure.retry_delay > 0
        return failure.code.value[0], failure.reason
    assert error.retry_delay.ToNanoseconds() > 0
    return error.code, error.reason


@pytest.mark.parametrize("moment", [Moment.BEFORE_COMMIT, Moment.AFTER_COMMIT], ids=lambda moment: moment.name.lower())
def test_link_that_is_cut_again_and_again_costs_no_second_claim(gate, tenant, moment):
    for number in range(10):
        event_id = b"event-%d" % number
        cut = gate.cut(moment, event_markers(event_id), times=3)
        request = tenant.a.begin_request("h", event_id, lease=600)
        granted = None
        while granted is None:  # the window in which the server repeats may be over: then the caller does
            with contextlib.suppress(grpc.RpcError):
                granted = tenant.a.call(tenant.a.idempotency.Begin, request).granted
        for _ in range(3):
            cut.wait()
        assert tenant.operations("fence, claims", event_id) == [[str(granted.claim.fence), "1"]]
        assert outcome(tenant.b.begin("h", event_id)) == "in_progress"


@pytest.mark.parametrize("moment", [Moment.BEFORE_COMMIT, Moment.AFTER_COMMIT], ids=lambda moment: moment.name.lower())
def test_calls_that_shared_the_lost_transaction_each_get_their_own_truth(gate, tenant, moment):
    """Many callers' commands are in one transaction: new ones, duplicates, completions."""
    claims = [tenant.b.granted("h", b"held-%d" % number).claim for number in range(20)]
    markers = event_markers(b"hot")
    with gate.stalled("up"):
        # The first one is under way and kept back, so that the others gather behind it.
        calls = [tenant.a.start(tenant.a.idempotency.Begin, tenant.a.begin_request("h", b"plug-%d" % n)) for n in range(20)]
        gate.wait_held(2)
        begins = [tenant.a.start(tenant.a.idempotency.Begin, tenant.a.begin_request("h", b"hot")) for _ in range(50)]
        completes = [tenant.a.start(tenant.a.idempotency.Complete, service_pb2.CompleteRequest(
            handler="h", event_id=b"held-%d" % n, attempt_id=claim.attempt_id, fence=claim.fence, status=DONE, result=b"%d" % n))
            for n, claim in enumerate(claims)]
        cut = gate.cut(moment, markers)
    cut.wait()
    assert {outcome(call.result()) for call in calls} == {"granted"}
    outcomes = [outcome(call.result()) for call in begins]
    assert (outcomes.count("granted"), outcomes.count("in_progress")) == (1, 49)
    for number, call in enumerate(completes):
        assert call.result().completed.receipt.result == b"%d" % number
        assert tenant.b.lookup("h", b"held-%d" % number).completed.receipt == call.result().completed.receipt
    granted = next(call.result().granted for call in begins if outcome(call.result()) == "granted")
    assert tenant.operations("fence, claims", b"hot") == [[str(granted.claim.fence), "1"]]


def test_stalled_link_delays_and_loses_nothing(gate, tenant):
    with gate.stalled("down"):
        begin = tenant.a.start(tenant.a.idempotency.Begin, tenant.a.begin_request("h", b"e", attempt=new_attempt()))
        gate.wait_held(1, "down")
        assert not begin.done()
    assert begin.result().granted.attempt_number == 1
