"""A private database server for a test program, by tests/support/mariadb or tests/support/mysql."""

import itertools
import os
import pathlib
import subprocess

from .stubs import ROOT


class DatabaseServer:
    def __init__(self, engine: str, folder: pathlib.Path, *options: str):
        self.launcher = ROOT / "tests" / "support" / engine
        self.folder = folder
        self._names = (f"once_{number}" for number in itertools.count(1))
        self.start(*options)

    @staticmethod
    def unavailable_because(engine: str) -> str:
        """Why the engine cannot be had; empty where it can."""
        answer = subprocess.run([ROOT / "tests" / "support" / engine, "available"], capture_output=True, text=True)
        return "" if answer.returncode == 0 else answer.stdout.strip() or "not available"

    def start(self, *options: str) -> None:
        subprocess.run([self.launcher, "start", self.folder, *options], check=True, stdout=subprocess.DEVNULL)
        self.env = dict(line.split("=", 1) for line in (self.folder / "env").read_text().splitlines())

    def stop(self) -> None:
        subprocess.run([self.launcher, "stop", self.folder], check=True)

    def kill(self) -> None:
        subprocess.run([self.launcher, "kill", self.folder], check=True)

    def sql(self, statement: str, admin: bool = False) -> str:
        client = self.folder / ("admin.cnf" if admin else "client.cnf")
        return subprocess.run(
            ["mariadb", f"--defaults-file={client}", "--batch", "--skip-column-names", "--execute", statement],
            check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
        ).stdout

    def new_database(self) -> str:
        name = next(self._names)
        self.sql(f"CREATE DATABASE {name}")
        return name

    @property
    def password_file(self) -> str:
        return self.env["ONCE_TEST_MYSQL_PASSWORD_FILE"]

    @property
    def password(self) -> str:
        return pathlib.Path(self.password_file).read_text().strip()

    @property
    def port(self) -> int:
        return int(self.env["ONCE_TEST_MYSQL_PORT"])

    def flags(self, database: str, parameters: str = "") -> list[str]:
        """The flags of onced that name this database."""
        uri = f"mysql://{self.env['ONCE_TEST_MYSQL_USER']}@127.0.0.1:{self.port}/{database}{parameters}"
        # MySQL's default authentication needs TLS or the server's public key for the first login of a user.
        return [f"--mysql-uri={uri}", f"--mysql-password-file={self.password_file}"]
