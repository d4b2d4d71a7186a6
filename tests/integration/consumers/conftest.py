"""Fixtures for the consumers in other languages: one server and one program per language for the whole session, a tenant per test."""

import itertools
import pathlib
import socket
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import driving
from support import onced as onced_program
from support.caller import Caller
from support.onced import Onced
from support.tcp_gate import TcpGate

# Handlers of these names must not run again silently.
IN_DOUBT = 'policies { handler: "payment.*" expired_lease: EXPIRED_LEASE_IN_DOUBT }'


@pytest.fixture(scope="session")
def shared_store(database_server) -> list[str]:
    """Flags that name the database of the shared server."""
    return database_server.flags(database_server.new_database())


@pytest.fixture(scope="session")
def admin_token(shared_store) -> str:
    assert onced_program.run("migrate", *shared_store).returncode == 0
    made = onced_program.run("bootstrap", *shared_store)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture(scope="session")
def server(shared_store, admin_token, tmp_path_factory):
    server = Onced(tmp_path_factory.mktemp("server"), *shared_store, "--policy-refresh-interval=20ms")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def admin(server, admin_token):
    caller = Caller(server.address, admin_token)
    yield caller
    caller.close()


@pytest.fixture(scope="session")
def commands() -> dict[str, list[str]]:
    """How the program of each language is started."""
    made = {"python": driving.python_command()}
    try:
        made["node"] = driving.node_command()
    except driving.NodeUnavailable as why:
        print(f"SKIPPED: no Node consumer: {why}")
        made["node"] = str(why)
    return made


@pytest.fixture
def start_program(commands, tmp_path):
    """start_program(language) → Program that the test may kill."""
    programs = []

    def start_one(language: str) -> driving.Program:
        if isinstance(commands[language], str):
            pytest.skip(commands[language])
        program = driving.Program(language, commands[language], tmp_path / f"{language}-{len(programs)}.log")
        programs.append(program)
        return program

    yield start_one
    for program in programs:
        program.stop()


@pytest.fixture(scope="session")
def programs(commands, tmp_path_factory):
    """A program per language, for all tests."""
    running = {}

    def program(language: str) -> driving.Program:
        if isinstance(commands[language], str):
            pytest.skip(commands[language])
        if language not in running:
            running[language] = driving.Program(language, commands[language], tmp_path_factory.mktemp("programs") / f"{language}.log")
        return running[language]

    yield program
    for one in running.values():
        one.stop()


class Link:
    """The network between consumers and a server, which a test can break or lead elsewhere."""

    def __init__(self, address: str):
        self._gate = TcpGate(*self._split(address), statements=False)
        self.address = f"127.0.0.1:{self._gate.port}"

    @staticmethod
    def _split(address: str) -> tuple[str, int]:
        host, port = address.rsplit(":", 1)
        return host, int(port)

    def hold_answers(self) -> None:
        """What the server says from now on does not arrive: the next thing is cut()."""
        self._gate.stall("down")

    def cut(self) -> None:
        """Connections are gone, with all that was held; the next ones are whole."""
        self._gate.cut_all()
        self._gate.resume()

    def lead_to(self, address: str) -> None:
        """Where later connections go, as a balancer would say."""
        self._gate.target = self._split(address)

    def close(self) -> None:
        self._gate.close()


@pytest.fixture
def nobody():
    """An address where nobody listens. A new one each time: a gRPC library remembers for a while whom it could not reach."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def link(server):
    link = Link(server.address)
    yield link
    link.close()


tenant_names = (f"tenant-{number}" for number in itertools.count(1))


@pytest.fixture
def token(admin, server):
    """token(role=…, patterns=…) → credential of this test's own tenant."""
    tenant = next(tenant_names)
    admin.create_tenant(tenant)
    admin.apply_policies(tenant, IN_DOUBT)
    server.wait_for_policies()
    return lambda **fields: admin.create_credential(tenant, **fields).token


@pytest.fixture
def consumer(server, programs, token):
    """consumer(language, …) → a consumer of this test's tenant at the shared server."""
    return lambda language, **options: programs(language).connect(server.address, options.pop("token", None) or token(), **options)


@pytest.fixture(params=["python", "node"])
def one(request, consumer):
    """A consumer, in every language in turn."""
    return consumer(request.param, name="one", handler_version="1.0")


@pytest.fixture(params=[("python", "node"), ("node", "python")], ids=["python-node", "node-python"])
def pair(request, consumer):
    """Two consumers of one tenant at the same server, each in a language of its own; every language in either role."""
    first, second = request.param
    return consumer(first, name="first"), consumer(second, name="second")
