"""A server on loopback that speaks Google's protocol: fake-gcs-server, with `gcs_xml.py` before it.

    pytest      the fixtures `gcs_server` (one for the session) and `gcs_bucket` (a fresh bucket each)
    Rust        `scripts/with-gcs cargo test` runs this file as a program around the command

What is read:

    LACUS_TEST_FAKE_GCS       path of fake-gcs-server; unless set, the one `make gcs` built in .cache/fake-gcs-server
    LACUS_TEST_GCS_ENDPOINT   a server that is already up: it is used

What a command under `scripts/with-gcs` sees:

    LACUS_TEST_GCS_ENDPOINT   http://127.0.0.1:<port>
    LACUS_TEST_GCS_BUCKET     an empty bucket that is there already

Without a server the command runs with none of these set, which is said loudly.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from server_process import REPOSITORY, Beside, Launch, launch, program_of, run_beside


@dataclasses.dataclass
class GcsServer:
    """A server that is up. Whoever called `start` stops it; it also dies with the process that did."""

    endpoint: str
    stop: Callable[[], None] = lambda: None

    def make_bucket(self, name: str | None = None) -> str:
        """Makes an empty bucket and returns its name."""
        name = name or f"bucket-{uuid.uuid4().hex[:12]}"
        body = json.dumps({"name": name}).encode()
        request = urllib.request.Request(f"{self.endpoint}/storage/v1/b", body, {"Content-Type": "application/json"})
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()
        return name

    @property
    def storage_options(self) -> dict[str, str]:
        """The options that Lacus takes for this server."""
        return {"google_base_url": self.endpoint, "google_skip_signature": "true"}

    def environment(self, bucket: str) -> dict[str, str]:
        """The variables a command under `scripts/with-gcs` sees."""
        return {"LACUS_TEST_GCS_ENDPOINT": self.endpoint, "LACUS_TEST_GCS_BUCKET": bucket}


def find() -> Path | None:
    """The program of the server to start, or None."""
    if path := program_of("LACUS_TEST_FAKE_GCS"):
        return path
    found = REPOSITORY.glob(".cache/fake-gcs-server/*/fake-gcs-server")
    built = sorted(found, key=lambda path: path.stat().st_mtime)
    return built[-1] if built else None


def connect() -> GcsServer | None:
    """The server that LACUS_TEST_GCS_ENDPOINT names, if it does."""
    endpoint = os.environ.get("LACUS_TEST_GCS_ENDPOINT")
    return GcsServer(endpoint) if endpoint else None


def start(program: Path) -> GcsServer:
    """Starts a server on a free port and returns when it answers."""
    health = "http://127.0.0.1:{}/_internal/healthcheck"

    def server(_: Path, port: int) -> Launch:
        where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
        return Launch([str(program), *where, "-backend", "memory", "-log-level", "error"], health.format(port))

    behind = launch("fake-gcs-server", server)

    def front(_: Path, port: int) -> Launch:
        program = Path(__file__).with_name("gcs_xml.py")
        return Launch([sys.executable, str(program), str(port), str(behind.port)], health.format(port))

    try:
        before = launch("gcs_xml.py", front)
    except RuntimeError:
        behind.stop()
        raise

    def stop() -> None:
        before.stop()
        behind.stop()

    return GcsServer(f"http://127.0.0.1:{before.port}", stop)


try:
    import pytest
except ModuleNotFoundError:
    pass
else:

    @pytest.fixture(scope="session")
    def gcs_server() -> Iterator[GcsServer]:
        """The session's server of Google's protocol."""
        if (server := connect()) is None:
            if (found := find()) is None:
                pytest.skip("no server of Google's protocol: fake-gcs-server could not be had (run `make gcs`)")
            server = start(found)
        yield server
        server.stop()

    @pytest.fixture
    def gcs_bucket(gcs_server: GcsServer) -> str:
        """A bucket of the test's own."""
        return gcs_server.make_bucket()


def main(command: list[str]) -> int:
    """Runs a command with a server beside it and returns its exit code."""

    def server() -> Beside | None:
        if (found := find()) is None:
            return None
        server = start(found)
        return Beside(server.environment(server.make_bucket("lacus-test")), server.stop)

    return run_beside("Google", command, connect() is not None, server)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
