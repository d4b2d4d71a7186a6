"""The demonstration of webhooks.py with every payload: it ends well with Once, and its sums would notice if it did not."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
COMPARE = HERE.parent / "integration" / "webhooks" / "compare.mjs"
PAYLOADS = 726
SKIPPED = 77


@pytest.fixture(scope="module")
def payloads(tmp_path_factory) -> pathlib.Path:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    file = tmp_path_factory.mktemp("payloads") / "payloads.jsonl"
    # The same folder as integration_webhook_digests, which pins the packages.
    folder = pathlib.Path(os.environ["ONCE_BINARY_DIR"]) / "tests" / "integration" / "webhooks" / "npm"
    made = subprocess.run([node, COMPARE, f"--install-dir={folder}", f"--export={file}"], capture_output=True, text=True)
    if made.returncode == SKIPPED:
        pytest.skip(made.stdout.strip())
    assert made.returncode == 0, made.stdout + made.stderr
    return file


def play(payloads: pathlib.Path, *options: str) -> subprocess.CompletedProcess:
    run = subprocess.run([sys.executable, HERE / "webhooks.py", "--onced", os.environ["ONCED"], "--payloads", payloads, *options],
                         capture_output=True, text=True, timeout=500)
    print(run.stdout, run.stderr)
    return run


def row(run: subprocess.CompletedProcess, name: str) -> int:
    return int(re.search(rf"^ *{re.escape(name)} +(\d+)$", run.stdout, re.MULTILINE)[1])


def test_a_day_of_webhooks_ends_with_each_fact_counted_once(payloads):
    run = play(payloads)
    assert run.returncode == 0
    assert row(run, "unique facts") == row(run, "ledger entries") == PAYLOADS
    assert row(run, "points in the ledger") == row(run, "points if each fact counts once")
    assert row(run, "facts with more than one receipt") == 0
    # It was a day worth the name.
    assert row(run, "deliveries by the broker") > 2 * PAYLOADS
    for name in ("consumers killed", "taken over, not yet done: executed", "taken over, found done in the ledger", "conflicts",
                 "replayed (first receipt)"):
        assert row(run, name) > 20, name
