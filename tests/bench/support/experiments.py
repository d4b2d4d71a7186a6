"""The parts of a full run. Each returns what it measured; run makes tables of it."""

import contextlib
import pathlib
import signal
import statistics
import subprocess
import sys
import time

from support.database import BINLOG, Database
from support.processes import resident_megabytes, running
from support.site import Programs, Server, Site, Step, together

ATTEMPT_LOG, RECEIPT_CACHE = "--attempt-log", "--receipt-cache-bytes"


def say(message: str) -> None:
    print(f"# {message}", file=sys.stderr, flush=True)


def rounds(site: Site, plan: dict[str, Step], count: int, sites: dict[str, Site] | None = None) -> dict[str, dict]:
    """Medians over `count` rounds of all steps in turn, every other round backwards. `sites`: steps of another site."""
    seen: dict[str, list[dict]] = {name: [] for name in plan}
    for number in range(count):
        say(f"round {number + 1} of {count}: {', '.join(plan)}")
        for name in list(plan) if number % 2 == 0 else list(reversed(plan)):
            seen[name].append((sites or {}).get(name, site).measure(plan[name]))
    medians = {}
    for name, results in seen.items():
        keys = [key for key, value in results[0].items() if isinstance(value, (int, float))]
        medians[name] = {key: statistics.median(result[key] for result in results) for key in keys}
        medians[name]["failures"] = sum(result["failures"] for result in results)
        medians[name]["rates"] = [result["per_second"] for result in results]
    return medians


def contenders(site: Site, count: int, seconds: float) -> tuple[dict[str, dict], list[str]]:
    """Everybody in turn, and why some did not take part."""
    known = 20_000
    # The warm-up reads all of them once: receipts in a server's memory have aged out since the last round.
    completed = [f"--known-run={site.complete_events(known)}", f"--known={known}", "--warm-up=2"]
    load = ["--callers=64", f"--seconds={seconds}"]
    one = ["--callers=1", f"--seconds={seconds}"]
    few = ["--callers=16", f"--seconds={seconds}"]
    tls, empty, receipts = site.serve_tls(), site.serve_empty(), site.serve_empty("receipts")
    plan = {
        "direct": Step("direct", load),
        "unary": Step("unary", load),
        "batch of 64": Step("batch", few),
        "unary, TLS": Step("unary", load, tls),
        "batch of 64, TLS": Step("batch", few, tls),
        "duplicates": Step("duplicate", [*load, *completed]),
        "conflicts": Step("conflict", [*load, *completed]),
        "lookups": Step("lookup", [*load, *completed]),
        "9 new, 1 duplicate": Step("mix", [*load, *completed]),
        "empty": Step("empty", load, empty),
        "empty, duplicates": Step("duplicate", [*load, *completed], receipts),
        "empty, lookups": Step("lookup", [*load, *completed], receipts),
        "pipeline": Step("pipeline", load),
        "pipeline, duplicates": Step("pipeline-duplicate", [*load, *completed]),
        "direct, 1 caller": Step("direct", one),
        "unary, 1 caller": Step("unary", one),
        "empty, 1 caller": Step("empty", one, empty),
        "pipeline, 1 caller": Step("pipeline", one),
    }
    skipped = []
    if site.programs.has_flag(ATTEMPT_LOG):
        plan["duplicates, buffered log"] = Step("duplicate", [*load, *completed], site.serve(f"{ATTEMPT_LOG}=buffered"))
    else:
        skipped.append(f"duplicates with a buffered attempt log: onced has no flag {ATTEMPT_LOG}")
    return rounds(site, plan, count), skipped


def open_loop(site: Site, unary_peak: float, count: int, seconds: float) -> dict[str, dict]:
    """Latency at a given rate, counted from when a cycle was due."""
    load = ["--callers=256", f"--seconds={seconds}", f"--rate={unary_peak / 2:.0f}"]
    direct = ["--callers=64", *load[1:]]
    return rounds(site, {"unary": Step("unary", load), "direct": Step("direct", direct)}, count)


def caller_counts(site: Site, count: int, seconds: float) -> dict[str, dict[int, dict]]:
    numbers = (1, 4, 16, 64, 256)
    names = ("direct", "unary", "batch")
    plan = {f"{name}, {n}": Step(name, [f"--callers={n}", f"--seconds={seconds}"]) for n in numbers for name in names}
    medians = rounds(site, plan, count)
    return {name: {n: medians[f"{name}, {n}"] for n in numbers} for name in names}


def receipt_sizes(site: Site, count: int, seconds: float) -> dict[str, dict]:
    load = ["--callers=64", f"--seconds={seconds}"]
    sizes = {"128 B": 128, "4 KiB": 4096, "64 KiB": 65536}
    return rounds(site, {f"{name}, {label}": Step(name, [*load, f"--result-bytes={size}"])
                         for label, size in sizes.items() for name in ("direct", "unary")}, count)  # fmt: skip


def server_counts(site: Site, count: int, seconds: float) -> dict[str, dict]:
    with contextlib.ExitStack() as stack:
        servers = [site.server] + [site.serve(stack=stack) for _ in range(2)]
        load = ["--callers=64", "--channels=6", f"--seconds={seconds}"]
        return rounds(site, {f"unary, {n} server{'s' * (n > 1)}": Step("unary", load, together(servers[:n])) for n in (1, 2, 3)}, count)


def binlog(programs: Programs, folder: pathlib.Path, flags: list[str], count: int, seconds: float) -> dict[str, dict]:
    with contextlib.ExitStack() as stack:
        database = Database(folder / "binlog-db", ["innodb_buffer_pool_size=1G", *BINLOG])
        stack.callback(database.stop)
        site = Site(programs, database, folder, stack, flags, "binlog")
        load = ["--callers=64", f"--seconds={seconds}"]
        return rounds(site, {"direct": Step("direct", load), "unary": Step("unary", load),
                             "batch of 64": Step("batch", ["--callers=16", load[1]])}, count)  # fmt: skip


# ---- waiters ----


@contextlib.contextmanager
def _waiting(site: Site, server: Server, waiters: int, held: list[str]):
    """`waiters` calls that wait for held keys, all of them seen by the server."""
    options = ["--channels=4", f"--callers={waiters}", f"--cycles={waiters}", "--wait-seconds=60", *held]
    command = site.command(Step("wait", options, server))
    with running(command, site.folder / "wait.log") as process:
        deadline = time.monotonic() + 30
        while server.waiters() < waiters:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"only {server.waiters()} of {waiters} calls wait: {(site.folder / 'wait.log').read_text()}")
            time.sleep(0.1)
        yield
        process.send_signal(signal.SIGKILL)  # its calls end with their connections
    deadline = time.monotonic() + 30
    while server.waiters() > 0 and time.monotonic() < deadline:
        time.sleep(0.1)


def _unanswered_mb(site: Site, waiters: int) -> float:
    """What gRPC alone needs for as many calls that nobody answers."""
    server = site.serve_empty("none")
    seen = [resident_megabytes(server.pid)]
    options = ["--channels=4", f"--callers={waiters}", f"--cycles={waiters}", "--known-run=1", "--known=1000"]
    with running(site.command(Step("wait", options, server)), site.folder / "unanswered.log") as process:
        while len(seen) < 20 or seen[-1] > seen[-10]:  # until no more come
            time.sleep(0.1)
            seen.append(resident_megabytes(server.pid))
        process.send_signal(signal.SIGKILL)
    return seen[-1] - seen[0]


def waiters(site: Site, rate: float, count: int, seconds: float, number: int = 10_000, keys: int = 1_000) -> dict:
    """What calls that wait cost the server and others."""
    with contextlib.ExitStack() as stack:
        server = site.serve(stack=stack)
        run = site.measure(Step("hold", ["--callers=64", f"--cycles={keys}"], server))["run"]
        load = Step("unary", ["--callers=256", f"--seconds={seconds}", f"--rate={rate:.0f}"], server)
        site.measure(load)  # its memory is not the waiters'
        idle, busy, extra = [], [], []
        for number_of_round in range(count):
            say(f"waiters: round {number_of_round + 1} of {count}")
            idle.append(site.measure(load))
            before = resident_megabytes(server.pid)
            with _waiting(site, server, number, [f"--known-run={run}", f"--known={keys}"]):
                extra.append(resident_megabytes(server.pid) - before)
                busy.append(site.measure(load))
        p99 = [statistics.median(result["p99_us"] for result in results) for results in (idle, busy)]
        # Memory once freed is used again, so the first time is what counts.
        return {"waiters": number, "keys": keys, "extra_mb": max(extra), "grpc_mb": _unanswered_mb(site, number), "idle_p99_us": p99[0], "waiting_p99_us": p99[1],
                "p99_ratio": p99[1] / p99[0]}  # fmt: skip


# ---- memory and rows ----


def memory(site: Site, first: int) -> dict:
    """Memory of a fresh server after `first` cycles and after ten times as many."""
    with contextlib.ExitStack() as stack:
        # What is bounded by itself would still be filling in a short run: a cache of its default size, prepared statements.
        small = [f"{RECEIPT_CACHE}=1MiB"] if site.programs.has_flag(RECEIPT_CACHE) and first < 1_000_000 else []
        server = site.serve(*small, stack=stack)
        site.measure(Step("unary", ["--callers=64", "--seconds=2"], server))
        site.measure(Step("batch", ["--callers=16", f"--cycles={4 * first // 64}"], server))
        seen = []
        for cycles in (first, 9 * first):
            say(f"memory: {cycles} cycles more")
            site.measure(Step("batch", ["--callers=16", f"--cycles={cycles // 64}"], server))
            seen.append(resident_megabytes(server.pid))
        return {"cycles": first, "first_mb": seen[0], "last_mb": seen[1], "ratio": seen[1] / seen[0]}


# What a generator's event id looks like, of another and earlier run.
IDS = {
    "time": "LOWER(CONCAT(LPAD(HEX(1000000000000000), 16, '0'), LPAD(HEX(n.seq), 12, '0'), LPAD(HEX(n.seq * 2654435761 % (1 << 48)), 12, '0')))",
    "random": "SHA1(CONCAT('row', n.seq))",
}


def _fill(site: Site, rows: int, order: str) -> None:
    """Copies of one completed operation and of its entries in the attempt log, under other ids."""
    site.complete_events(64)
    schema, database = site.schema, site.database
    event = "(SELECT MIN(event_id) FROM operation)"
    for start in range(0, rows, 100_000):
        end = min(start + 100_000, rows)
        for table in ("operation", "attempt"):
            query = f"SELECT column_name FROM information_schema.columns WHERE table_schema='{schema}' AND table_name='{table}'"
            columns = [row[0] for row in database.sql(query + " ORDER BY ordinal_position")]
            values = [IDS[order] if column == "event_id" else f"t.{column}" for column in columns]
            database.sql(f"CREATE TABLE IF NOT EXISTS copy_of_{table} AS SELECT * FROM {table} WHERE event_id = {event};"
                         f"INSERT INTO {table} ({','.join(columns)}) SELECT {','.join(values)} "
                         f"FROM seq_{start + 1}_to_{end} n JOIN copy_of_{table} t", schema)  # fmt: skip


def rows(programs: Programs, folder: pathlib.Path, flags: list[str], number: int, orders: list[str], count: int, seconds: float) -> dict:
    """Cycles a second over a table of `number` operations against an empty one on the same database, whose buffer pool holds half of
    the operations and their attempt log."""
    results = {}
    for order in orders:
        with contextlib.ExitStack() as stack:
            say(f"rows: {number} with {order} ids")
            database = Database(folder / f"rows-{order}", [f"innodb_buffer_pool_size={max(1, number // 700_000)}G"])
            stack.callback(database.stop)
            full, empty = (Site(programs, database, folder, stack, flags, f"{name}_{order}") for name in ("full", "empty"))
            _fill(full, number, order)
            size = database.megabytes_of(full.schema, "operation", "attempt")
            pool = max(8, round(size / 2))
            database.set_buffer_pool(pool)
            step = Step("unary", ["--callers=64", f"--seconds={seconds}", f"--ids={order}"])
            for site in (empty, full):
                site.measure(step)
            medians = rounds(empty, {"empty": step, "full": step}, count, {"full": full})
            results[order] = {"rows": number, "table_mb": size, "pool_mb": pool, **medians,
                              "ratio": medians["full"]["per_second"] / medians["empty"]["per_second"]}  # fmt: skip
    return results
