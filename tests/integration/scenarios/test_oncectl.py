"""oncectl's commands for policies and the audit against real servers, with the example of the guide."""

import os
import subprocess

import pytest

from support.stubs import BINARY_DIR, ROOT
from support.waiting import outcome

ONCECTL = os.environ.get("ONCECTL", str(BINARY_DIR / "client" / "cli" / "oncectl"))
EXAMPLE = ROOT / "docs" / "guides" / "examples" / "policies.textproto"


@pytest.fixture
def oncectl(cluster, tmp_path):
    """oncectl(arguments…, code=0) → what it printed; the exit code has to be the one expected."""
    token_file = tmp_path / "admin-token"
    token_file.write_text(cluster.admin_token)

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run([ONCECTL, f"--server={cluster.servers[0].address}", f"--token-file={token_file}", *map(str, arguments)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_the_example_of_the_guide_is_applied_and_decides(tenant, oncectl):
    assert "+  handler: \"payout.*\"" in oncectl("policy", "diff", tenant.name, EXAMPLE, code=1)
    refused = oncectl("policy", "apply", tenant.name, EXAMPLE, "--reason", "the guide", code=1)
    assert "DIGEST_CHANGE_NOT_ACCEPTED" in refused and "points.*" in refused
    applied = oncectl("policy", "apply", tenant.name, EXAMPLE, "--reason", "the guide", "--accept-digest-change")
    assert f"{tenant.name} version 1 is current" in applied
    for server in tenant.cluster.servers:
        server.wait_for_policies()
    assert outcome(tenant.b.begin("points.grant", b"e", b'{"n":1,"meta":{"sent_at":"1"}}')) == "granted"
    assert outcome(tenant.a.begin("points.grant", b"e", b'{"n":1,"meta":{"sent_at":"2"}}')) == "in_progress"


def test_what_is_shown_is_a_file_that_changes_nothing(tenant, oncectl, tmp_path):
    oncectl("policy", "apply", tenant.name, EXAMPLE, "--reason", "the guide", "--accept-digest-change")
    shown = tmp_path / "policies.textproto"
    shown.write_text(oncectl("policy", "show", tenant.name))
    assert "# 60d" in shown.read_text()
    assert oncectl("policy", "diff", tenant.name, shown) == ""
    assert "says this already" in oncectl("policy", "apply", tenant.name, shown, "--reason", "again")
    assert len(oncectl("policy", "history", tenant.name).splitlines()) == 2


def test_a_fault_is_told_with_its_line_and_one_of_the_server_with_its_field(tenant, oncectl, tmp_path):
    file = tmp_path / "policies.textproto"
    file.write_text("policies {\n  handler: \"a\"\n  leese {}\n}\n")
    assert f"{file}:3:9: " in oncectl("policy", "diff", tenant.name, file, code=2)
    file.write_text("policies { handler: \"a\" retention { dedupe { seconds: 5 } broker_window { seconds: 6 } } }")
    told = oncectl("policy", "apply", tenant.name, file, "--reason", "r", code=2)
    assert "policies[0].retention.dedupe is 5s, but messages can come back for 6s: broker_window 6s = 6s" in told


def test_changes_are_in_the_history_and_the_audit(tenant, oncectl, tmp_path):
    file = tmp_path / "policies.textproto"
    for number in (1, 2):
        file.write_text(f'policies {{ handler: "h{number}" }}')
        oncectl("policy", "apply", tenant.name, file, "--reason", f"change {number}")
    assert 'handler: "h1"' in oncectl("policy", "show", tenant.name, "--version", "1")
    oncectl("policy", "show", tenant.name, "--version", "3", code=4)
    history = oncectl("policy", "history", tenant.name).splitlines()
    assert ["change 2" in history[1], "change 1" in history[2]] == [True, True]
    audit = oncectl("audit", "list", tenant.name).splitlines()
    assert "apply_handler_policies" in audit[1] and "version 2" in audit[1] and "change 2" in audit[1]
    assert len(oncectl("audit", "list", "--limit", "1").splitlines()) == 2
