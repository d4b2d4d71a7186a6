"""What the store has to keep apart and hold together, over two servers: rows C1, C2, C4–C7 and C12 of the catalogue."""

import collections
import random

import pytest

from support.caller import expect_failure, new_attempt
from support.cluster import Tenant
from support.tcp_gate import TcpGate
from support.waiting import outcome

import grpc
from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

Code = grpc.StatusCode

# What somebody may have set on a database server without a thought of this program.
HOSTILE_DEFAULTS = {
    "sql_mode": "''", "time_zone": "'+09:00'", "tx_isolation": "'SERIALIZABLE'", "autocommit": "0",
    "character_set_server": "utf8mb4", "collation_server": "utf8mb4_general_ci", "innodb_lock_wait_timeout": "1000",
}


def batch_begin(caller, *requests) -> list[service_pb2.BatchBeginResult]:
    return list(caller.call(caller.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=requests)).results)


@pytest.fixture
def hostile_database(database_server):
    """The database server's defaults are others while the test runs."""
    names = dict(HOSTILE_DEFAULTS)
    if not database_server.env["ONCE_TEST_MYSQL_ENGINE"] == "mariadb":
        names["transaction_isolation"] = names.pop("tx_isolation")
    before = {name: database_server.sql(f"SELECT QUOTE(@@global.{name})").strip() for name in names}

    def assign(values: dict) -> None:
        for name, value in values.items():
            value = value.strip("'") if value.strip("'").isdigit() else value
            database_server.sql(f"SET GLOBAL {name} = {value}", admin=True)

    assign(names)
    yield database_server
    assign(before)


@pytest.mark.scenario("C1")
def test_one_event_of_two_handlers_and_two_tenants_is_four_operations(cluster, tenant):
    other = cluster.new_tenant()
    claims = {}
    for who in (tenant, other):
        for handler in ("points.grant", "order.audit"):
            granted = who.a.granted(handler, b"order-1", b"content of %s %s" % (who.name.encode(), handler.encode()))
            assert granted.attempt_number == 1
            claims[who, handler] = granted.claim
    for (who, handler), claim in claims.items():
        result = f"{who.name} {handler}".encode()
        assert not who.b.complete(handler, b"order-1", claim, result).completed.replayed
        assert who.a.lookup(handler, b"order-1").completed.receipt.result == result
    assert tenant.operations("COUNT(*)") == other.operations("COUNT(*)") == [["2"]]
    other.close()


@pytest.mark.scenario("C2")
def test_what_one_server_has_answered_the_other_sees_at_once(tenant):
    """A read from before the answer would say "no such operation", or grant again."""
    for number in range(100):
        event_id = b"e-%d" % number
        first, second = random.sample(tenant.callers, 2)
        claim = first.granted("h", event_id).claim
        assert outcome(second.begin("h", event_id)) == "in_progress"
        assert outcome(second.lookup("h", event_id)) == "in_progress"
        first.complete("h", event_id, claim, event_id)
        assert second.begin("h", event_id).completed.receipt.result == event_id
        assert second.lookup("h", event_id).completed.receipt.result == event_id


@pytest.mark.scenario("C4")
class TestBatches:
    def test_answer_per_item_and_blame_none_for_another(self, tenant):
        tenant.a.complete("h", b"done", tenant.a.granted("h", b"done").claim, b"result")
        held = tenant.a.granted("h", b"held").claim
        twice = [tenant.b.begin_request("h", b"twice") for _ in range(2)]
        broken = tenant.b.begin_request("h", b"broken")
        broken.lease.seconds = -1
        results = batch_begin(
            tenant.b, tenant.b.begin_request("h", b"new-1"), tenant.b.begin_request("h", b"done"), broken,
            tenant.b.begin_request("h", b"new-2"), *twice, tenant.b.begin_request("h", b"held"),
            tenant.b.begin_request("h", b"held", attempt=held.attempt_id), tenant.b.begin_request("h", b"done", b"other"))
        assert results[2].error.reason == "INVALID_FIELD"
        assert results[2].error.metadata["field"].endswith("lease")
        answers = [result.response for result in results]
        assert [outcome(answer) for answer in answers] == [
            "granted", "completed", None, "granted", "granted", "in_progress", "in_progress", "granted", "conflict"]
        assert answers[1].completed.receipt.result == b"result"
        assert answers[7].granted.claim.fence == held.fence
        assert sorted(tenant.operations("claims")) == [["1"]] * 5

        # The same batch again, as after a lost answer, at the other server.
        again = [result.response for result in batch_begin(
            tenant.a, *twice, tenant.a.begin_request("h", b"done"), tenant.a.begin_request("h", b"new-3"))]
        assert [outcome(answer) for answer in again] == ["granted", "in_progress", "completed", "granted"]
        assert again[0].granted.claim.fence == answers[4].granted.claim.fence

    def test_of_completions_and_renewals_decide_per_item(self, tenant):
        claims = {event_id: tenant.a.granted("h", event_id).claim for event_id in (b"a", b"b", b"c")}
        lost = types_pb2.Claim(attempt_id=new_attempt(), fence=claims[b"b"].fence)

        def completion(event_id, claim, result=b"result"):
            return service_pb2.CompleteRequest(handler="h", event_id=event_id, attempt_id=claim.attempt_id, fence=claim.fence,
                                               status=types_pb2.RECEIPT_STATUS_SUCCEEDED, result=result)

        request = service_pb2.BatchCompleteRequest(requests=[
            completion(b"a", claims[b"a"]), completion(b"b", lost), completion(b"unknown", lost),
            completion(b"a", claims[b"a"]), completion(b"a", claims[b"a"], b"other result"), completion(b"c", claims[b"c"])])
        results = tenant.b.call(tenant.b.idempotency.BatchComplete, request).results
        assert [outcome(result.response) for result in results] == [
            "completed", "claim_lost", None, "completed", "conflict", "completed"]
        assert results[2].error.reason == "OPERATION_NOT_FOUND"
        assert [results[i].response.completed.replayed for i in (0, 3, 5)] == [False, True, False]

        renewals = service_pb2.BatchRenewRequest(requests=[
            service_pb2.RenewRequest(handler="h", event_id=event_id, attempt_id=claim.attempt_id, fence=claim.fence)
            for event_id, claim in ((b"b", claims[b"b"]), (b"a", claims[b"a"]), (b"unknown", lost))])
        results = tenant.a.call(tenant.a.idempotency.BatchRenew, renewals).results
        assert [outcome(result.response) for result in results] == ["claim", "claim_lost", None]
        assert results[2].error.reason == "OPERATION_NOT_FOUND"

    def test_beyond_their_size_are_refused_whole(self, tenant):
        requests = [tenant.a.begin_request("h", b"e-%d" % number) for number in range(1001)]
        with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
            batch_begin(tenant.a, *requests)
        assert (failure[0].metadata["limit"], failure[0].metadata["size"]) == ("1000", "1001")
        with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD"):
            batch_begin(tenant.a)
        assert tenant.operations("*") == []
        assert {outcome(result.response) for result in batch_begin(tenant.a, *requests[:1000])} == {"granted"}


@pytest.mark.scenario("C5")
@pytest.mark.database
def test_hot_keys_in_any_order_over_two_servers_do_not_deadlock(tenant):
    keys = [b"hot-%02d" % number for number in range(30)]
    retries = tenant.cluster.metric('once_pipeline_retries_total{why="aborted"')
    calls = []
    for number in range(300):
        end = tenant.callers[number % 2]
        some = random.sample(keys, 10)  # also one key twice
        requests = [end.begin_request("h", key) for key in some + some[:1]]
        calls.append(end.start(end.idempotency.BatchBegin, service_pb2.BatchBeginRequest(requests=requests)))
    counts = collections.Counter(outcome(result.response) for call in calls for result in call.result().results)
    assert counts == {"granted": len(keys), "in_progress": 300 * 11 - len(keys)}
    assert tenant.cluster.metric('once_pipeline_retries_total{why="aborted"') - retries <= 3


@pytest.mark.scenario("C6")
class TestNames:
    PAIRS = [(b"A", b"a"), (b"x", b"x "), ("é".encode(), "e\u0301".encode()), (b"\0", b"\0\0"), ("ß".encode(), b"ss")]

    @pytest.mark.parametrize("one, other", PAIRS)
    def test_that_a_collation_would_mix_up_are_different_events(self, tenant, one, other):
        for first, second in ((one, other), (other, one)):
            handler = f"h.{first.hex()}"
            claim = tenant.a.granted(handler, first).claim
            tenant.a.complete(handler, first, claim, first)
            with expect_failure(Code.NOT_FOUND, "OPERATION_NOT_FOUND"):
                tenant.b.lookup(handler, second)
            assert tenant.b.granted(handler, second).attempt_number == 1
            assert tenant.b.lookup(handler, first).completed.receipt.result == first

    def test_that_differ_in_case_are_different_handlers_and_tenants(self, cluster):
        tenants = [Tenant(cluster, name) for name in ("Case", "case")]
        for tenant in tenants:
            for handler in ("Points", "points"):
                assert tenant.a.granted(handler, b"e").attempt_number == 1
        for tenant in tenants:
            tenant.close()


@pytest.mark.scenario("C7")
class TestData:
    TOO_LONG = [("consumer", "c" * 129, "128"), ("handler_version", "v" * 65, "64"), ("handler", "h" * 129, "128")]

    @pytest.mark.parametrize("field, value, limit", TOO_LONG, ids=[field for field, _, _ in TOO_LONG])
    def test_that_would_be_cut_off_is_refused_with_the_limit(self, tenant, field, value, limit):
        for text, accepted in ((value, False), (value[:-1], True)):
            request = tenant.a.begin_request("h", b"e")
            setattr(request, field, text)
            if accepted:
                assert outcome(tenant.a.call(tenant.a.idempotency.Begin, request)) == "granted"
                continue
            with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
                tenant.a.call(tenant.a.idempotency.Begin, request)
            assert (failure[0].metadata["field"], failure[0].metadata["limit"]) == (field, limit)
            assert tenant.operations("*") == []

    @pytest.mark.database
    def test_that_does_not_fit_a_column_surfaces_as_itself_whatever_the_servers_default_mode(self, hostile_database,
                                                                                             own_cluster):
        cluster = own_cluster(servers=1)
        tenant = cluster.new_tenant()
        tenant.a.granted("h", b"before")
        # As if the program's limits and the schema had drifted apart.
        hostile_database.sql(f"ALTER TABLE {cluster.store.database}.operation MODIFY consumer VARBINARY(4) NOT NULL")
        good, bad = (tenant.a.begin_request("h", event_id, consumer=name) for event_id, name in ((b"g", "four"), (b"b", "five5")))
        with expect_failure(Code.INTERNAL, "INTERNAL"):
            tenant.a.call(tenant.a.idempotency.Begin, bad)
        assert tenant.operations("consumer", b"b") == []
        # One bad call does not fail its neighbours.
        calls = [tenant.a.start(tenant.a.idempotency.Begin, request) for request in [good, bad] * 5]
        failed = 0
        for call in calls:
            try:
                assert outcome(call.result()) == "granted"
            except grpc.RpcError as error:
                assert error.code() == Code.INTERNAL
                failed += 1
        assert failed == 5
        assert tenant.operations("consumer", b"g") == [["four"]]


@pytest.mark.scenario("C12")
@pytest.mark.database
class TestNewSessions:
    def test_set_and_check_everything_before_their_first_statement(self, own_cluster, hostile_database):
        """After each cut the driver must not come back by itself with the server's defaults."""
        with TcpGate("127.0.0.1", hostile_database.port) as gate:
            statements = collections.defaultdict(list)
            gate.on_statement = lambda link, text: statements[link].append(text)
            cluster = own_cluster(servers=1, ports=[gate.port])
            tenant = cluster.new_tenant()
            for number in range(5):
                claim = tenant.a.granted("h", b"e-%d" % number, lease=60).claim
                gate.cut_all()
                tenant.a.complete("h", b"e-%d" % number, claim, b"result")
                assert tenant.a.lookup("h", b"e-%d" % number).completed.receipt.result == b"result"
            # Every link of the server that ever wrote or read an operation, in order.
            used = {link: texts for link, texts in statements.items() if any(b"operation" in text for text in texts)}
            assert len(used) > 5
            for texts in used.values():
                first = next(i for i, text in enumerate(texts) if b"operation" in text)
                before = b"; ".join(texts[:first])
                for setting in (b"SET NAMES binary", b"READ COMMITTED", b"STRICT_ALL_TABLES", b"time_zone='+00:00'"):
                    assert setting in before, (setting, texts[: first + 1])
                assert any(text.startswith(b"SELECT @@session.autocommit") for text in texts[:first])

    def test_work_the_same_under_hostile_defaults(self, own_cluster, hostile_database):
        cluster = own_cluster()
        tenant = cluster.new_tenant()
        claim = tenant.a.granted("h", b"A", lease=60).claim
        assert 58 < claim.lease_remaining.ToMilliseconds() / 1000 <= 60
        assert tenant.b.granted("h", b"a").attempt_number == 1
        left = tenant.b.begin("h", b"A").in_progress.lease_remaining
        assert 50 < left.ToMilliseconds() / 1000 <= 60
        kills = hostile_database.sql(
            f"SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{cluster.store.database}'", admin=True).split()
        assert len(kills) >= 2
        for connection in kills:
            hostile_database.sql(f"KILL {connection}", admin=True)
        for end in tenant.callers:
            assert outcome(end.begin("h", b"A", attempt=claim.attempt_id)) == "granted"
            left = end.begin("h", b"A").in_progress.lease_remaining
            assert 40 < left.ToMilliseconds() / 1000 <= 60
        assert tenant.b.complete("h", b"A", claim).completed.receipt.result == b"result"
