#!/usr/bin/env python3
"""Checks that documents say what the code says.

Error reasons (proto ↔ docs/reference/errors.md), tables and columns (server/store/mysql/schema.cc ↔ docs/reference/tables.md),
folders (tree ↔ docs/architecture.md), outcomes (proto ↔ README.md), and relative links in every page. Flags and metrics are compared by the
server's own tests, which know them at run time.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read(path: str) -> str:
    return (ROOT / path).read_text()


def compare(what: str, code: set[str], page: set[str]) -> list[str]:
    return [f"{what}: {name} is in the code, not in the page" for name in sorted(code - page)] + [
        f"{what}: {name} is in the page, not in the code" for name in sorted(page - code)
    ]


def error_reasons() -> list[str]:
    code = set(re.findall(r"^\s*ERROR_REASON_([A-Z_]+) = [1-9]", read("proto/once/v1/error_reason.proto"), re.M))
    # Reasons are the rows with a status code beside them; other tables of the page are about the transport.
    page = set(re.findall(r"^\| `([A-Z_]+)` \| `[A-Z_]+` \|", read("docs/reference/errors.md"), re.M))
    return compare("error reasons", code, page)


def tables() -> list[str]:
    """Every column of the schema is named in code quotes in its table's section, or in its table's row of the section of small tables."""
    page = read("docs/reference/tables.md")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.S | re.M))
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", page, re.M))
    faults = []
    for table, body in re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)\s*\(\n(.*?)\n\s*\)", read("server/store/mysql/schema.cc"), re.S):
        described = set(re.findall(r"`(\w+)`", sections.get(table, rows.get(table, ""))))
        columns = re.findall(r"^\s*([a-z_0-9]+) +[A-Z]", body, re.M)
        faults += [f"tables: {table}.{column} is in the code, not in the page" for column in columns if column not in described]
    return faults


def folders() -> list[str]:
    page = read("docs/architecture.md")
    code = set()
    for top in ("server", "client", "tests"):
        for folder in (ROOT / top).iterdir():
            if folder.is_dir() and folder.name not in {"__pycache__", "node_modules"}:
                code.add(f"{top}/{folder.name}/")
    named = set(re.findall(r"`((?:server|client|tests)/[\w/]+/)`", page))
    return [f"folders: {name} is not in docs/architecture.md" for name in sorted(code - named)] + [
        f"folders: docs/architecture.md names {name}, which does not exist" for name in sorted(named) if not (ROOT / name).is_dir()
    ]


def outcomes() -> list[str]:
    proto = read("proto/once/v1/idempotency_service.proto")
    body = re.search(r"message BeginResponse \{.*?oneof outcome \{(.*?)\n  \}", proto, re.S)[1]
    code = set(re.findall(r"\w+ (\w+) = \d+;", body))
    page = set(re.findall(r"^\| `(\w+)` \|", read("README.md"), re.M))
    return compare("outcomes in the README", code, page)


def links() -> list[str]:
    faults = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if not re.match(r"\w+:", target) and not (page.parent / target).exists():
                faults.append(f"{page.relative_to(ROOT)}: link to {target}, which does not exist")
    return faults


def main() -> int:
    faults = [fault for check in (error_reasons, tables, folders, outcomes, links) for fault in check()]
    print("\n".join(faults) or "documents: reasons, tables, folders, outcomes and links agree with the code")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
