"""An S3 server on loopback for the tests: MinIO, or moto where MinIO cannot be had.

    pytest      the fixtures `s3_server` (one for the session) and `s3_bucket` (a fresh bucket each)
    Rust        `scripts/with-s3 cargo test` runs this file as a program around the command
    by hand     `scripts/with-s3 bash`

What is read:

    LACUS_TEST_MINIO         path of a MinIO binary; unless set, the one `make` built in .cache/minio
    LACUS_TEST_MOTO          path of `moto_server`, used where there is no MinIO
    LACUS_TEST_S3_ENDPOINT   a server that is already up (with the rest of its group below): it is used

What a command under `scripts/with-s3` sees:

    LACUS_TEST_S3_KIND       minio or moto
    LACUS_TEST_S3_ENDPOINT   http://127.0.0.1:<port>
    LACUS_TEST_S3_BUCKET     an empty bucket that is there already
    LACUS_TEST_S3_KEY, LACUS_TEST_S3_SECRET, LACUS_TEST_S3_REGION
    LACUS_TEST_S3_DATA       MinIO only: its directory. A directory made in it is a bucket.

Without any server the command runs with none of these set, which is said loudly; a test that needs S3
says that it was skipped. Only the standard library is used, so any Python runs this file.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from server_process import REPOSITORY, Beside, Launch, launch, program_of, run_beside

KEY, SECRET, REGION = "lacus-test", "lacus-test-secret", "us-east-1"


@dataclasses.dataclass
class S3Server:
    """A server that is up. Whoever called `start` stops it; it also dies with the process that did."""

    kind: str
    endpoint: str
    data: Path | None
    key: str = KEY
    secret: str = SECRET
    region: str = REGION
    stop: Callable[[], None] = lambda: None

    def make_bucket(self, name: str | None = None) -> str:
        """Makes an empty bucket and returns its name."""
        name = name or f"bucket-{uuid.uuid4().hex[:12]}"
        if self.data is not None:
            (self.data / name).mkdir()
        else:
            # moto checks no signatures.
            request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
            urllib.request.urlopen(request, timeout=10).close()
        return name

    @property
    def storage_options(self) -> dict[str, str]:
        """The options that Lacus, `deltalake` and polars take for this server."""
        return {
            "aws_endpoint_url": self.endpoint,
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": self.region,
            "aws_allow_http": "true",
        }

    def environment(self, bucket: str) -> dict[str, str]:
        """The variables a command under `scripts/with-s3` sees."""
        found = {
            "LACUS_TEST_S3_KIND": self.kind,
            "LACUS_TEST_S3_ENDPOINT": self.endpoint,
            "LACUS_TEST_S3_BUCKET": bucket,
            "LACUS_TEST_S3_KEY": self.key,
            "LACUS_TEST_S3_SECRET": self.secret,
            "LACUS_TEST_S3_REGION": self.region,
        }
        if self.data is not None:
            found["LACUS_TEST_S3_DATA"] = str(self.data)
        return found


def find() -> tuple[str, Path] | None:
    """The kind and the program of the server to start: (`minio` | `moto`, path), or None."""
    for kind, variable in (("minio", "LACUS_TEST_MINIO"), ("moto", "LACUS_TEST_MOTO")):
        if path := program_of(variable):
            return kind, path
    built = sorted(REPOSITORY.glob(".cache/minio/*/minio"), key=lambda path: path.stat().st_mtime)
    return ("minio", built[-1]) if built else None


def connect() -> S3Server | None:
    """The server that LACUS_TEST_S3_ENDPOINT names, if it does."""
    get = os.environ.get
    if not (endpoint := get("LACUS_TEST_S3_ENDPOINT")):
        return None
    data = get("LACUS_TEST_S3_DATA")
    return S3Server(
        kind=get("LACUS_TEST_S3_KIND", "unknown"),
        endpoint=endpoint,
        data=Path(data) if data else None,
        key=get("LACUS_TEST_S3_KEY", KEY),
        secret=get("LACUS_TEST_S3_SECRET", SECRET),
        region=get("LACUS_TEST_S3_REGION", REGION),
    )


def start(kind: str, program: Path) -> S3Server:
    """Starts a server on a free port and returns when it answers."""

    def prepare(home: Path, port: int) -> Launch:
        if kind != "minio":
            command = [str(program), "-H", "127.0.0.1", "-p", str(port)]
            return Launch(command, f"http://127.0.0.1:{port}/moto-api/")
        data = home / "data"
        data.mkdir(exist_ok=True)
        command = [str(program), "server", "--address", f"127.0.0.1:{port}", "--quiet", str(data)]
        # No web console (it would listen on a second port) and no look for updates.
        environment = {
            "MINIO_ROOT_USER": KEY,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_REGION": REGION,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }
        return Launch(command, f"http://127.0.0.1:{port}/minio/health/ready", environment)

    running = launch(kind, prepare)
    data = running.home / "data" if kind == "minio" else None
    return S3Server(kind, f"http://127.0.0.1:{running.port}", data, stop=running.stop)


try:
    import pytest
except ModuleNotFoundError:
    pass
else:

    @pytest.fixture(scope="session")
    def s3_server() -> Iterator[S3Server]:
        """The session's S3 server. Its `kind` says whether it is a real one."""
        if (server := connect()) is None:
            if (found := find()) is None:
                pytest.skip("no S3 server: neither MinIO nor moto could be had (run `make s3`)")
            server = start(*found)
        yield server
        server.stop()

    @pytest.fixture
    def s3_bucket(s3_server: S3Server) -> str:
        """A bucket of the test's own."""
        return s3_server.make_bucket()


def main(command: list[str]) -> int:
    """Runs a command with a server beside it and returns its exit code."""

    def server() -> Beside | None:
        if (found := find()) is None:
            return None
        server = start(*found)
        if server.kind != "minio":
            print(f"\n!!! S3 tests run against {server.kind}, no real server\n", file=sys.stderr, flush=True)
        return Beside(server.environment(server.make_bucket("lacus-test")), server.stop)

    return run_beside("S3", command, connect() is not None, server)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
