"""What the documentation shows is true: included code is that of the consumers, examples run, calls are valid."""

import json
import re
import subprocess
import textwrap
import uuid

import driving
import pytest
from google.protobuf import json_format

from support.stubs import ROOT

from once.v1 import idempotency_service_pb2 as service_pb2
from once.v1 import types_pb2

GUIDE = ROOT / "docs" / "guides" / "consumers.md"
PYTHON_README = driving.HERE / "python" / "README.md"


def region(path: str, name: str) -> str:
    """The code between `# [name` and `# ]` (or `// `), without its indentation."""
    lines = (ROOT / path).read_text().splitlines()
    mark = "//" if path.endswith(".mjs") else "#"
    start = next(number for number, line in enumerate(lines) if line.strip() == f"{mark} [{name}")
    end = next(number for number in range(start, len(lines)) if lines[number].strip() == f"{mark} ]")
    return textwrap.dedent("\n".join(lines[start + 1 : end])) + "\n"


def fences(text: str, before: str = "") -> list[tuple[str, str]]:
    """(language, code) of the fenced blocks that follow `before`, a regular expression."""
    return re.findall(before + r"```(\w+)\n(.*?)^```$", text, re.S | re.M)


def test_included_code_is_that_of_the_consumers():
    included = re.findall(r"<!-- from (\S+), (\w+) -->\n```\w+\n(.*?)^```$", GUIDE.read_text(), re.S | re.M)
    assert len(included) == 6
    for path, name, code in included:
        assert code == region(path, name), f"{path}, region {name}"


def run_example(code: str, command: list[str], folder, server, token) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "credential").write_text(token + "\n")
    code = code.replace("127.0.0.1:7447", server.address).replace(".once/credential", str(folder / "credential"))
    done = subprocess.run(command, input=code, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_first_consumers_run_and_agree(server, token, commands, tmp_path):
    examples = dict(fences(GUIDE.read_text(), "<!-- runs -->\n"))
    assert set(examples) == {"python", "js"}
    credential = token()
    python = [*commands["python"][:2], "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3", "-c",
              f"import sys; sys.path.insert(0, {str(driving.HERE / 'python')!r}); exec(sys.stdin.read())"]
    said = [run_example(examples["python"], python, tmp_path, server, credential) for _ in range(2)]
    if isinstance(commands["node"], str):
        pytest.skip(commands["node"])
    consumer = driving.BINARY_DIR / "consumers" / "node" / "consumer.mjs"
    node = examples["js"].replace("./consumer.mjs", consumer.as_uri())
    said.append(run_example(node, ["node", "--input-type=module", "-"], tmp_path, server, credential))
    assert said == ['acknowledge {"balance": 105}'] * 3


def test_stubs_are_generated_as_told(tmp_path):
    (told,) = [code for language, code in fences(PYTHON_README.read_text()) if language == "sh"]
    subprocess.run(told.replace("=stubs", f"={tmp_path}"), shell=True, cwd=ROOT, check=True)
    assert (tmp_path / "once" / "v1" / "idempotency_service_pb2_grpc.py").exists()
    assert (tmp_path / "google" / "rpc" / "error_details_pb2.py").exists()


def test_npm_packages_are_the_tested_ones():
    told = (driving.HERE / "node" / "README.md").read_text()
    for name, version in json.loads((driving.HERE / "node" / "package.json").read_text())["dependencies"].items():
        assert f"{name}@{version}" in told


def test_call_of_the_readme_runs(server, token, connect):
    (code,) = [code for language, code in fences((ROOT / "README.md").read_text()) if language == "python"]
    credential = token()
    caller = connect(server, credential)
    names = {**vars(service_pb2), **vars(types_pb2), "stub": caller.idempotency, "token": credential, "uuid": uuid, "body": b'{"points": 5}',
             "grant_points": lambda body: b'{"balance": 105}'}
    exec(code, names)
    assert caller.begin("points.grant", b"order-17/paid", b'{"points": 5}').completed.receipt.result == b'{"balance": 105}'


def test_call_by_tool_of_the_readme_is_valid(server, token, connect):
    (request,) = re.findall(r"-d '(\{.*?\})'", (ROOT / "README.md").read_text(), re.S)
    caller = connect(server, token())
    answer = caller.call(caller.idempotency.Begin, json_format.ParseDict(json.loads(request), service_pb2.BeginRequest()))
    assert answer.WhichOneof("outcome") == "granted"
    assert caller.begin("points.grant", b"order-17", b'{"points": 5}').WhichOneof("outcome") == "in_progress"


def test_both_readmes_have_one_shape():
    python, node = (re.findall(r"^## .*$", (driving.HERE / name / "README.md").read_text(), re.M) for name in ("python", "node"))
    assert python == node


def test_both_consumers_have_one_shape():
    """Siblings: the same sections, and the same calls in the same order."""
    python, node = ((driving.HERE / path).read_text() for path in ("python/consumer.py", "node/consumer.mjs"))
    sections = [re.findall(rf"^ *{mark} ---- (.*) ----$", text, re.M) for mark, text in (("#", python), ("//", node))]
    assert sections[0][:-1] == sections[1][:-1]
    python_calls = re.findall(r"self\._stub\.(\w+)", python)[0:]
    node_calls = re.findall(r"this\.#call\('(\w+)'", node)
    assert python_calls == node_calls == [method.name for method in service_pb2.DESCRIPTOR.services_by_name["IdempotencyService"].methods]
