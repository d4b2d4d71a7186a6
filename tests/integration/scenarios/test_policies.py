"""Handler policies over two servers: what they decide, how they change, and what becomes of them when the database is away."""

import pytest

from support import onced as onced_program
from support.caller import expect_failure
from support.cluster import FAST_POLICIES
from support.onced import Onced
from support.waiting import eventually, outcome

import grpc
from once.v1 import admin_service_pb2, types_pb2

Code = grpc.StatusCode
DAY = 86400


def week_with(more: str) -> str:
    return f"""
        policies {{
          handler: "pay.*"
          retention {{ dedupe {{ seconds: {7 * DAY} }} broker_window {{ seconds: {7 * DAY} }} {more} }}
        }}"""


class TestAChange:
    def test_is_in_force_on_every_server(self, tenant):
        assert tenant.a.granted("pay.out", b"1").claim.lease_remaining.seconds >= 29
        tenant.apply_policies('policies { handler: "pay.*" lease { normal { seconds: 5 } greatest { seconds: 9 } } }')
        for number, caller in enumerate(tenant.callers):
            remaining = caller.granted("pay.out", b"2-%d" % number).claim.lease_remaining
            assert remaining.seconds + remaining.nanos / 1e9 <= 5
            with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
                caller.begin("pay.out", b"3", lease=10)
            assert failure[0].message == "lease is 10s; the limit is 9s"
        tenant.apply_policies("")
        for number, caller in enumerate(tenant.callers):
            assert caller.granted("pay.out", b"4-%d" % number, lease=10)

    def test_is_of_its_tenant_alone(self, cluster, tenant):
        other = cluster.new_tenant()
        tenant.apply_policies('policies { handler: "*" admission: ADMISSION_REFUSED }')
        assert other.a.granted("h", b"e")
        other.close()

    def test_is_refused_to_the_second_of_two_who_make_one(self, cluster, tenant):
        tenant.apply_policies('policies { handler: "a" }', expected=0)
        with expect_failure(Code.ABORTED, "POLICY_VERSION_MISMATCH") as failure:
            tenant.apply_policies('policies { handler: "b" }', expected=0)
        assert failure[0].metadata == {"tenant": tenant.name, "expected_version": "0", "current_version": "1"}
        assert [p.handler for p in cluster.admin.policies(tenant.name).policy_set.policies] == ["a"]

    def test_leaves_its_history_and_the_audit(self, cluster, tenant):
        admin = cluster.admin
        first = tenant.apply_policies('policies { handler: "a" }', reason="a first")
        tenant.apply_policies('policies { handler: "b" }', reason="b instead")
        assert [p.handler for p in admin.policies(tenant.name, version=1).policy_set.policies] == ["a"]
        versions = admin.call(admin.admin.ListHandlerPolicyVersions, admin_service_pb2.ListHandlerPolicyVersionsRequest(
            tenant=tenant.name)).versions
        assert [(v.version, v.reason) for v in versions] == [(2, "b instead"), (1, "a first")]
        records = admin.audit(tenant.name).records
        assert [(r.subject, r.reason) for r in records[:2]] == [("version 2", "b instead"), ("version 1", "a first")]
        assert records[0].before == '[{"handler":"a"}]'
        assert records[0].after == '[{"handler":"b"}]'
        assert {r.credential_id for r in records} == {first.version.credential_id}
        assert [admin_service_pb2.AuditAction.Name(r.action) for r in records[2:]] == [
            "AUDIT_ACTION_CREATE_CREDENTIAL", "AUDIT_ACTION_CREATE_TENANT"]
        page = admin.audit(tenant.name, page_size=1)
        assert admin.audit(tenant.name, page_size=1, page_token=page.next_page_token).records[0] == records[1]
        with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD"):
            admin.audit(page_token=page.next_page_token)

    def test_needs_a_credential_of_an_admin(self, tenant):
        with expect_failure(Code.PERMISSION_DENIED, "PERMISSION_DENIED"):
            tenant.a.apply_policies(tenant.name, "", expected=0)
        with expect_failure(Code.PERMISSION_DENIED, "PERMISSION_DENIED"):
            tenant.a.audit(tenant.name)


def test_retention_that_forgets_before_the_last_message_is_refused_with_the_arithmetic(cluster, tenant):
    more = f"dead_letter_window {{ seconds: {14 * DAY} }} backup_window {{ seconds: {30 * DAY} }}"
    with expect_failure(Code.INVALID_ARGUMENT, "INVALID_FIELD") as failure:
        tenant.apply_policies(week_with(more))
    assert failure[0].metadata["field"] == "policies[0].retention.dedupe"
    assert ("is 7d, but messages can come back for 51d: broker_window 7d + dead_letter_window 14d + backup_window 30d = 51d"
            in failure[0].message)
    assert not cluster.admin.policies(tenant.name).HasField("version")


def test_receipts_say_until_when_duplicates_are_recognised(tenant):
    done = tenant.a.complete("pay.out", b"e", tenant.a.granted("pay.out", b"e").claim).completed
    assert not done.HasField("dedupe_guaranteed_until_time")
    tenant.apply_policies(week_with(""))
    until = done.receipt.complete_time.ToMicroseconds() + 7 * DAY * 10**6
    for answer in (tenant.b.begin("pay.out", b"e"), tenant.a.lookup("pay.out", b"e")):
        assert answer.completed.dedupe_guaranteed_until_time.ToMicroseconds() == until
    other = tenant.a.complete("other", b"e", tenant.a.granted("other", b"e").claim).completed
    assert not other.HasField("dedupe_guaranteed_until_time")


@pytest.mark.parametrize("log", ["DURABLE", "BUFFERED"])
def test_receipts_of_versions_that_are_not_readable_have_expired(tenant, log):
    def policy(*readable):
        versions = " ".join(f'readable_versions: "{version}"' for version in readable)
        tenant.apply_policies(f'policies {{ handler: "pay.*" attempt_log: ATTEMPT_LOG_MODE_{log} {versions} }}')

    policy()
    for version in ("v1", "v2.3"):
        event = version.encode()
        tenant.a.complete("pay.out", event, tenant.a.granted("pay.out", event, handler_version=version).claim)
    tenant.a.complete("pay.out", b"none", tenant.a.granted("pay.out", b"none").claim)
    policy("v2.*", "v3")
    for caller in tenant.callers:
        for answer in (caller.begin("pay.out", b"v2.3"), caller.lookup("pay.out", b"v2.3")):
            assert answer.completed.receipt.result == b"result"
        for event, version in ((b"v1", "v1"), (b"none", "")):
            for answer in (caller.begin("pay.out", event), caller.lookup("pay.out", event)):
                assert outcome(answer) == "expired"
                assert answer.expired.handler_version == version
                assert answer.expired.status == types_pb2.RECEIPT_STATUS_SUCCEEDED
    policy("v*", "v1")
    assert tenant.b.begin("pay.out", b"v1").completed.receipt.result == b"result"
    policy()
    assert tenant.b.begin("pay.out", b"none").completed.receipt.result == b"result"


def test_members_that_the_policy_ignores_do_not_make_a_conflict(tenant):
    json_policy = """policies { handler: "order.*" digest {
        scheme: DIGEST_SCHEME_JSON_JCS_SHA256 ignored_members: "/meta/sent_at" } }"""
    with expect_failure(Code.FAILED_PRECONDITION, "DIGEST_CHANGE_NOT_ACCEPTED") as failure:
        tenant.apply_policies(json_policy)
    assert failure[0].metadata["handlers"] == "order.*"
    tenant.apply_policies(json_policy, accept_digest_change=True)
    tenant.a.granted("order.pay", b"e", b'{"amount":5,"meta":{"sent_at":"10:00"}}')
    resent = b'{ "meta": {"sent_at": "10:07"}, "amount": 5.0 }'
    assert outcome(tenant.b.begin("order.pay", b"e", resent)) == "in_progress"
    assert outcome(tenant.b.lookup("order.pay", b"e", content=types_pb2.Content(data=resent))) == "in_progress"
    assert outcome(tenant.b.begin("order.pay", b"e", b'{"amount":6,"meta":{"sent_at":"10:00"}}')) == "conflict"


def test_handlers_that_no_policy_names_are_refused_where_the_tenant_says_so(tenant):
    claim = tenant.a.granted("typo.h", b"e").claim
    tenant.apply_policies('policies { handler: "*" admission: ADMISSION_REFUSED } policies { handler: "pay.*" }')
    for caller in tenant.callers:
        with expect_failure(Code.FAILED_PRECONDITION, "HANDLER_NOT_ALLOWED") as failure:
            caller.begin("pya.out", b"e")
        assert failure[0].metadata == {"handler": "pya.out", "pattern": "*"}
    assert tenant.a.granted("pay.out", b"e")
    # What was begun before can end.
    assert outcome(tenant.b.complete("typo.h", b"e", claim)) == "completed"


def test_the_attempt_log_of_a_handler_may_be_buffered(cluster, tenant):
    tenant.apply_policies('policies { handler: "busy.*" attempt_log: ATTEMPT_LOG_MODE_BUFFERED }')
    for handler in ("busy.h", "h"):
        tenant.a.complete(handler, b"e", tenant.a.granted(handler, b"e").claim)
        assert outcome(tenant.a.begin(handler, b"e")) == "completed"
    # The durable one was counted in its row, the buffered one is in the log soon.
    assert sorted(tenant.operations("deliveries")) == [["1"], ["2"]]
    eventually(lambda: len(tenant.attempts("outcome")) == 6)


def test_a_server_that_starts_goes_by_the_policies_that_are_there(own_cluster):
    cluster = own_cluster(servers=1)
    tenant = cluster.new_tenant()
    tenant.apply_policies('policies { handler: "*" admission: ADMISSION_REFUSED }')
    old = cluster.servers[0]
    assert old.stop() == 0
    new = Onced(old.folder, *cluster.store.flags())
    cluster.servers[0] = new
    cluster.ends = [new, new]
    cluster.admin.close()
    caller = type(tenant.a)(new.address, tenant.token)
    with expect_failure(Code.FAILED_PRECONDITION, "HANDLER_NOT_ALLOWED"):
        caller.begin("h", b"e")
    caller.close()


@pytest.mark.database
class TestWhilePoliciesCannotBeRead:
    def test_the_last_known_ones_stay_in_force(self, own_cluster, gate):
        cluster = own_cluster(servers=1, ports=[gate.port], flags=[FAST_POLICIES, "--mysql-io-timeout=1s",
                                                                   "--lock-wait-timeout=1s"])
        tenant = cluster.new_tenant()
        tenant.apply_policies('policies { handler: "*" admission: ADMISSION_REFUSED }')
        server = cluster.servers[0]
        with expect_failure(Code.FAILED_PRECONDITION, "HANDLER_NOT_ALLOWED"):
            tenant.a.begin("h", b"e")  # its credential is known from now on
        gate.refuse()
        gate.cut_all()
        eventually(lambda: server.records("WARNING handler policies cannot be read; the last known ones stay in force"))
        assert server.metrics()['once_policy_reads_total{result="error"}'] > 0
        with expect_failure(Code.FAILED_PRECONDITION, "HANDLER_NOT_ALLOWED"):
            tenant.a.begin("h", b"e")
        gate.admit()
        eventually(lambda: server.records("handler policies can be read again"))

    def test_a_server_does_not_begin_to_serve(self, own_cluster, database_server, tmp_path):
        cluster = own_cluster(servers=1)
        database_server.sql(f"RENAME TABLE {cluster.store.database}.policy_version TO {cluster.store.database}.away")
        blind = Onced(tmp_path, *cluster.store.flags(), wait=False)
        assert blind.wait() == 1
        assert "policy_version" in blind.log()


def test_a_newer_programs_policies_stop_a_start(own_cluster):
    cluster = own_cluster(servers=1)
    tenant = cluster.new_tenant()
    tenant.apply_policies('policies { handler: "a" }')
    server = cluster.servers[0]
    statement = "UPDATE policy_version SET document = x'%s'" % b'[{"handler":"a","newer":1}]'.hex()
    assert server.stop() == 0
    cluster.store.change(statement)
    started = onced_program.run("serve", *cluster.store.flags(), "--listen=127.0.0.1:0", "--http-listen=")
    assert started.returncode == 1
    assert "run a newer program" in started.stderr
