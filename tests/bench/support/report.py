"""Tables as text and Markdown, marks for targets, the plot."""

import dataclasses
import pathlib
import shutil
import subprocess
import sys


@dataclasses.dataclass
class Table:
    title: str
    note: str
    header: list[str]
    rows: list[list[str]]

    def text(self) -> str:
        widths = [max(len(row[i]) for row in [self.header, *self.rows]) for i in range(len(self.header))]
        def line(row: list[str]) -> str:
            return "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        return "\n".join(["", self.title, *map(line, [self.header, *self.rows]), *([self.note] if self.note else [])])

    def markdown(self) -> str:
        def line(row: list[str]) -> str:
            return "| " + " | ".join(row) + " |"
        rule = ["---"] + ["---:"] * (len(self.header) - 1)
        return "\n".join([f"### {self.title}", "", line(self.header), line(rule), *map(line, self.rows), "", *([self.note, ""] if self.note else [])])


COLUMNS = [
    ("cycles/s", "per_second", "{:,.0f}"), ("p50 ms", "p50_us", "{:.2f}"), ("p99 ms", "p99_us", "{:.2f}"), ("p99.9 ms", "p999_us", "{:.2f}"),
    ("commits", "commits_per_cycle", "{:.3f}"), ("fsyncs", "fsyncs_per_cycle", "{:.3f}"), ("database CPU", "database_cpu", "{:.2f}"),
    ("server CPU", "server_cpu", "{:.2f}"), ("generator CPU", "generator_cpu", "{:.2f}"), ("server peak MB", "server_peak_mb", "{:.0f}"),
    ("failures", "failures", "{:.0f}"),
]  # fmt: skip
NOTE = "CPU: seconds for 10,000 cycles; commits and fsyncs: of the database, for each cycle. The latency of a batch is that of its 64 cycles."


def measurements(title: str, medians: dict[str, dict], note: str = NOTE, columns: tuple[str, ...] = ()) -> Table:
    chosen = [column for column in COLUMNS if not columns or column[0] in columns]

    def cell(result: dict, key: str, form: str) -> str:
        return form.format(result[key] / 1000 if key.endswith("_us") else result[key])
    rows = [[name, *(cell(result, key, form) for _, key, form in chosen)] for name, result in medians.items()]
    return Table(title, note, ["contender", *(title for title, _, _ in chosen)], rows)


@dataclasses.dataclass
class Target:
    name: str
    value: float
    relation: str  # ">=" or "<="
    wanted: float
    what: str
    limit: float | None = None  # what the parts that it cannot do without make possible here

    @property
    def met(self) -> bool:
        return self.value >= self.wanted if self.relation == ">=" else self.value <= self.wanted


def targets(rows: list[Target], skipped: list[str]) -> Table:
    cells = [[row.name, row.what, f"{row.value:.3f}", f"{row.relation} {row.wanted:g}", "" if row.limit is None else f"{row.limit:.3f}", "pass" if row.met else "MISS"] for row in rows]
    return Table("Targets", "\n".join(f"Not measured: {reason}." for reason in skipped), ["target", "what", "measured", "wanted", "limit", ""], cells)


PLOT = """
set terminal pngcairo size 900,400 font ",10"
set output "{file}"
set logscale xy
set xtics (1, 4, 16, 64, 256)
set xrange [0.8:320]
set grid ytics
set key below center horizontal
set multiplot layout 1,2
set title "cycles a second, by callers"
plot {throughput}
set title "p99 of a cycle (batch: of 64 cycles), ms, by callers"
plot {latency}
unset multiplot
"""


def plot(folder: pathlib.Path, curves: dict[str, list[tuple[int, float, float]]]) -> None:
    """callers.png of `curves`: contender to (callers, cycles a second, p99 in ms)."""
    if not shutil.which("gnuplot"):
        print("no plot: gnuplot is not installed (package gnuplot-nox)", file=sys.stderr)
        return
    for name, points in curves.items():
        (folder / f"{name}.dat").write_text("".join(f"{callers} {rate} {p99}\n" for callers, rate, p99 in points))
    def lines(column: int) -> str:
        return ", ".join(f'"{folder}/{name}.dat" using 1:{column} with linespoints lw 2 title "{name}"' for name in curves)
    script = PLOT.format(file=folder / "callers.png", throughput=lines(2), latency=lines(3))
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
    for name in curves:
        (folder / f"{name}.dat").unlink()
