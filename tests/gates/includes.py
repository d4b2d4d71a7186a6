#!/usr/bin/env python3
"""Checks that includes follow the one direction of the architecture (docs/architecture.md).

The linker refuses a forbidden edge between modules; this finds what headers alone could smuggle in.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = ROOT / "server"

# Module (folder) → modules whose headers it may include, itself aside.
ALLOWED = {
    "base": set(),
    "core": {"base"},
    "store": {"core", "base"},
    "store/mysql": {"store", "core", "base"},
    "store/sqlite": {"store", "core", "base"},
    "store/decorators": {"store", "core", "base"},
    "auth": {"store", "core", "base"},
    "policy": {"store", "core", "base"},
    "pipeline": {"store", "core", "base"},
    "rpc": {"pipeline", "auth", "policy", "store", "core", "base"},
    "app": {"rpc", "pipeline", "auth", "policy", "store", "store/mysql", "store/sqlite", "store/decorators", "core", "base"},
}
# Third-party headers and the only modules that may know them.
CONFINED = {
    r"grpcpp/|grpc/|google/protobuf|once/.*\.pb\.h": {"rpc"},
    r"cppconn/|mysql": {"store/mysql"},
    r"sqlite3\.h": {"store/sqlite"},
    r"prometheus/": {"app", "store/decorators"},
    r"spdlog/": {"app"},
    r"httplib\.h": {"app"},
    r"CLI/": {"app"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def module_of(path: str) -> str | None:
    """The longest module name that is the folder of `path`."""
    folder = path.rsplit("/", 1)[0] if "/" in path else ""
    return folder if folder in ALLOWED else None


def faults(source: pathlib.Path) -> list[str]:
    relative = source.relative_to(SERVER).as_posix()
    module = module_of(relative)
    if module is None:
        return [f"server/{relative}: not in a module that tests/gates/includes.py knows"]
    found = []
    for _, header in INCLUDE.findall(source.read_text()):
        target = module_of(header)
        if target is not None and (SERVER / header).exists():
            if target != module and target not in ALLOWED[module]:
                found.append(f"server/{relative}: {module} may not include {header} ({target})")
            continue
        for pattern, owners in CONFINED.items():
            if re.match(pattern, header) and module not in owners:
                found.append(f"server/{relative}: only {', '.join(sorted(owners))} may include {header}")
    return found


def main() -> int:
    sources = sorted(p for p in SERVER.rglob("*") if p.suffix in {".h", ".cc"})
    all_faults = [fault for source in sources for fault in faults(source)]
    # Installed client headers must not leak protobuf, gRPC or server headers.
    for header in sorted((ROOT / "client/cpp/include").rglob("*.h")):
        for _, name in INCLUDE.findall(header.read_text()):
            if re.match(r"grpc|google/protobuf|once/.*\.pb\.h", name) or (SERVER / name).exists():
                all_faults.append(f"{header.relative_to(ROOT)}: an installed header may not include {name}")
    print("\n".join(all_faults) or f"includes: {len(sources)} server files follow the direction")
    return 1 if all_faults else 0


if __name__ == "__main__":
    sys.exit(main())
