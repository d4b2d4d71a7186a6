"""Clocks and zones that disagree: row C10 of the catalogue. Only the database's clock counts.

The program `faketime` gives a process another clock. What a process reads from the clock is faked, the kernel's own waiting for a
moment is not: calls with `wait` are left to servers with a true clock here.
"""

import calendar
import glob
import os
import time

import pytest

from support.waiting import eventually, outcome

from once.v1 import types_pb2

pytestmark = [pytest.mark.scenario("C10")]

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)
LEASE = 1  # second
HOUR_US = 3600 * 1_000_000


# onced's allocator looks at the clock before the faked one is there, so a process with another clock gets the C library's.
PRELOAD = f"{LIBRARY} libstdc++.so.6 libc.so.6"


def other_clock(offset: str, zone: str) -> dict:
    """Environment of a process whose clock and zone are others."""
    return {"LD_PRELOAD": PRELOAD, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1",
            "TZ": zone}


@pytest.fixture(autouse=True)
def _faketime():
    if LIBRARY is None:
        pytest.skip("the package faketime is not installed")


def now_us() -> int:
    return time.time_ns() // 1000


def walk_a_lease(grantor, other) -> None:
    """One caller is granted, the other watches the lease at its own server: its whole length, and not longer."""
    start = time.monotonic()
    claim = grantor.granted("h", b"e", lease=LEASE).claim
    assert 0 < claim.lease_remaining.ToMilliseconds() <= LEASE * 1000
    held = other.begin("h", b"e").in_progress
    assert 0 < held.lease_remaining.ToMilliseconds() <= LEASE * 1000
    renewed = other.renew("h", b"e", claim, lease=LEASE).claim
    renewed_at = time.monotonic()
    assert (LEASE - 0.2) * 1000 < renewed.lease_remaining.ToMilliseconds() <= LEASE * 1000
    granted = eventually(lambda: _granted(other.begin("h", b"e")))
    assert LEASE - 0.01 <= time.monotonic() - start
    assert time.monotonic() - renewed_at < LEASE + 5
    assert granted.earlier_attempt.fence == claim.fence
    assert granted.claim.fence > claim.fence
    assert outcome(grantor.complete("h", b"e", claim)) == "claim_lost"
    stored = other.complete("h", b"e", granted.claim).completed.receipt
    assert grantor.begin("h", b"e").completed.receipt == stored


def _granted(answer) -> types_pb2.Granted | None:
    return answer.granted if outcome(answer) == "granted" else None


@pytest.mark.parametrize("offset, zone", [("+3600", "Asia/Tokyo"), ("-3600", "America/Los_Angeles")])
def test_server_whose_clock_is_an_hour_off_judges_leases_like_the_others(own_cluster, engine, offset, zone):
    cluster = own_cluster(env=({}, other_clock(offset, zone)) if engine != "sqlite" else (other_clock(offset, zone), {}))
    shifted = cluster.servers[-1]
    assert abs(_clock_of(shifted) - now_us() - int(offset) * 1_000_000) < 60_000_000  # it has indeed another clock
    for swapped in (False, True):
        tenant = cluster.new_tenant()
        walk_a_lease(*((tenant.b, tenant.a) if swapped else (tenant.a, tenant.b)))
        if engine != "sqlite":  # there the server's clock is the database's
            [[claimed, completed]] = tenant.operations("claimed_us, completed_us")
            assert abs(int(claimed) - now_us()) < HOUR_US / 2
            assert abs(int(completed) - now_us()) < HOUR_US / 2


def _clock_of(server) -> int:
    """Its clock by its log, in microseconds since 1970."""
    text = server.records("serving")[-1]["time"]
    moment = time.strptime(text.split(".")[0], "%Y-%m-%dT%H:%M:%S")
    return calendar.timegm(moment) * 1_000_000


@pytest.fixture
def restart_with_clock(database_server):
    """restart_with_clock(offset): the database server of this program of tests, until the end of the test."""

    def restart(environment: dict) -> None:
        database_server.kill()
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            database_server.start()
        finally:
            os.environ.clear()
            os.environ.update(before)

    yield lambda offset: restart(other_clock(offset, "Asia/Kolkata"))
    restart({})


@pytest.mark.database
@pytest.mark.parametrize("offset", ["+3600", "-3600"])
def test_database_whose_clock_is_an_hour_off_is_right(engine, own_cluster, restart_with_clock, offset):
    """Leases are lengths to callers, so that they need no common clock with anybody. Also for those who wait."""
    if engine == "mysql":
        pytest.skip("MySQL is started through another program loader, which faketime does not fit")
    restart_with_clock(offset)
    cluster = own_cluster()
    tenant = cluster.new_tenant()
    walk_a_lease(tenant.a, tenant.b)
    [[claimed]] = tenant.operations("claimed_us")
    assert abs(int(claimed) - now_us() - int(offset) * 1_000_000) < 60_000_000
    tenant.a.granted("h", b"w", lease=1)
    start = time.monotonic()
    assert tenant.b.granted("h", b"w", wait=30).HasField("earlier_attempt")
    assert time.monotonic() - start < 10
    cluster.close()
