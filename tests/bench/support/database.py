"""A MariaDB server of the benchmark's own."""

import pathlib
import subprocess
import time

LAUNCHER = pathlib.Path(__file__).resolve().parents[2] / "support/mariadb"

# MariaDB's default size of the log, which the launcher's fast start cuts down; and a connection for each of 256 direct callers.
SETTINGS = ["innodb_log_file_size=96M", "max_connections=400"]
BINLOG = ["log_bin=binlog", "server_id=1", "sync_binlog=1", "binlog_format=ROW"]


class Database:
    """Durable (innodb_flush_log_at_trx_commit=1), and with what `settings` say."""

    def __init__(self, folder: pathlib.Path, settings: list[str]):
        self.folder = folder
        self.binlog = any(setting.startswith("log_bin=") for setting in settings)
        command = [LAUNCHER, "start", folder]
        for setting in SETTINGS + settings:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = (line.split("=", 1) for line in (folder / "env").read_text().splitlines() if "=" in line)
        env = {name: value.strip("'\"") for name, value in lines}
        self.host, self.port = env["ONCE_TEST_MYSQL_HOST"], env["ONCE_TEST_MYSQL_PORT"]
        self.user, self.password_file = env["ONCE_TEST_MYSQL_USER"], env["ONCE_TEST_MYSQL_PASSWORD_FILE"]
        self.pid = int(pathlib.Path(env["ONCE_TEST_MYSQL_PID_FILE"]).read_text())

    def stop(self) -> None:
        subprocess.run([LAUNCHER, "stop", self.folder], check=True, stdout=subprocess.DEVNULL)

    def sql(self, statement: str, schema: str = "") -> list[list[str]]:
        client = ["mariadb", f"--defaults-file={self.folder / 'admin.cnf'}", "-N", "-B", "-e", statement, schema]
        out = subprocess.run([word for word in client if word], check=True, capture_output=True, text=True).stdout
        return [line.split("\t") for line in out.splitlines()]

    def status(self, *names: str) -> dict[str, int]:
        quoted = ",".join(f"'{name}'" for name in names)
        return {name: int(value) for name, value in self.sql(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({quoted})")}

    def counters(self) -> dict[str, float]:
        """`autocommits`: transactions of whatever kind, once for each engine (with a binlog it is one, too)."""
        found = self.status("Handler_commit", "Com_commit", "Innodb_data_fsyncs", "Syncs")
        return {
            "autocommits": found["Handler_commit"] / (2 if self.binlog else 1),
            "commits": found["Com_commit"],
            "fsyncs": found["Innodb_data_fsyncs"] + found["Syncs"],  # of InnoDB's log and files, of the binlog
        }

    def set_buffer_pool(self, megabytes: int) -> None:
        """Also writes out what is dirty, so that the next measurement does not pay for it."""
        self.sql(f"SET GLOBAL innodb_buffer_pool_size={megabytes * 1024 * 1024}; SET GLOBAL innodb_max_dirty_pages_pct=0")
        deadline = time.monotonic() + 600
        while self.status("Innodb_buffer_pool_pages_dirty")["Innodb_buffer_pool_pages_dirty"] > 200:
            if time.monotonic() > deadline:
                raise RuntimeError("the dirty pages were not written")
            time.sleep(0.2)
        self.sql("SET GLOBAL innodb_max_dirty_pages_pct=90")

    def megabytes_of(self, schema: str, *tables: str) -> float:
        quoted = ",".join(f"'{table}'" for table in tables)
        self.sql(f"ANALYZE TABLE {','.join(tables)}", schema)
        query = f"SELECT SUM(data_length) FROM information_schema.tables WHERE table_schema='{schema}' AND table_name IN ({quoted})"
        return float(self.sql(query)[0][0]) / 1024 / 1024
