"""A server on loopback that speaks Azure's protocol: Azurite.

    pytest      the fixtures `azure_server` (one for the session) and `azure_container` (a fresh container each)
    Rust        `scripts/with-azure cargo test` runs this file as a program around the command

What is read:

    LACUS_TEST_AZURITE          path of azurite-blob; unless set, the one `make azure` installed in .cache/azurite
    LACUS_TEST_AZURE_ENDPOINT   a server that is already up (with the rest of its group below): it is used

What a command under `scripts/with-azure` sees:

    LACUS_TEST_AZURE_ENDPOINT                       http://127.0.0.1:<port>/<account>
    LACUS_TEST_AZURE_CONTAINER                      an empty container that is there already
    LACUS_TEST_AZURE_ACCOUNT, LACUS_TEST_AZURE_KEY

Without a server the command runs with none of these set, which is said loudly.
"""

from __future__ import annotations

import base64
import dataclasses
import email.utils
import hashlib
import hmac
import os
import sys
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from server_process import REPOSITORY, Beside, Launch, launch, program_of, run_beside

ACCOUNT, KEY = "lacustest", base64.b64encode(b"no secret: of a server on loopback").decode()


@dataclasses.dataclass
class AzureServer:
    """A server that is up. Whoever called `start` stops it; it also dies with the process that did."""

    endpoint: str
    account: str = ACCOUNT
    key: str = KEY
    stop: Callable[[], None] = lambda: None

    def make_container(self, name: str | None = None) -> str:
        """Makes an empty container and returns its name."""
        name = name or f"container-{uuid.uuid4().hex[:12]}"
        path = urllib.parse.urlsplit(self.endpoint).path
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
        # Shared Key: the method, eleven headers that are not sent, those of Microsoft, and what is asked for.
        signed = "".join(f"{header}:{value}\n" for header, value in sorted(headers.items()))
        text = f"PUT\n{chr(10) * 11}{signed}/{self.account}{path}/{name}\nrestype:container"
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{name}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=headers)
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()
        return name

    @property
    def storage_options(self) -> dict[str, str]:
        """The options that Lacus takes for this server."""
        return {
            "azure_storage_endpoint": self.endpoint,
            "azure_storage_account_name": self.account,
            "azure_storage_account_key": self.key,
        }

    def environment(self, container: str) -> dict[str, str]:
        """The variables a command under `scripts/with-azure` sees."""
        return {
            "LACUS_TEST_AZURE_ENDPOINT": self.endpoint,
            "LACUS_TEST_AZURE_CONTAINER": container,
            "LACUS_TEST_AZURE_ACCOUNT": self.account,
            "LACUS_TEST_AZURE_KEY": self.key,
        }


def find() -> Path | None:
    """The program of the server to start, or None."""
    if path := program_of("LACUS_TEST_AZURITE"):
        return path
    found = REPOSITORY.glob(".cache/azurite/*/node_modules/.bin/azurite-blob")
    installed = sorted(found, key=lambda path: path.stat().st_mtime)
    return installed[-1] if installed else None


def connect() -> AzureServer | None:
    """The server that LACUS_TEST_AZURE_ENDPOINT names, if it does."""
    get = os.environ.get
    if not (endpoint := get("LACUS_TEST_AZURE_ENDPOINT")):
        return None
    return AzureServer(endpoint, get("LACUS_TEST_AZURE_ACCOUNT", ACCOUNT), get("LACUS_TEST_AZURE_KEY", KEY))


def start(program: Path) -> AzureServer:
    """Starts a server on a free port and returns when it answers."""

    def prepare(_: Path, port: int) -> Launch:
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        command = [str(program), *where, "--silent", "--inMemoryPersistence", "--disableTelemetry"]
        return Launch(command, f"http://127.0.0.1:{port}/", {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"})

    running = launch("Azurite", prepare)
    return AzureServer(f"http://127.0.0.1:{running.port}/{ACCOUNT}", stop=running.stop)


try:
    import pytest
except ModuleNotFoundError:
    pass
else:

    @pytest.fixture(scope="session")
    def azure_server() -> Iterator[AzureServer]:
        """The session's server of Azure's protocol."""
        if (server := connect()) is None:
            if (found := find()) is None:
                pytest.skip("no server of Azure's protocol: Azurite could not be had (run `make azure`)")
            server = start(found)
        yield server
        server.stop()

    @pytest.fixture
    def azure_container(azure_server: AzureServer) -> str:
        """A container of the test's own."""
        return azure_server.make_container()


def main(command: list[str]) -> int:
    """Runs a command with a server beside it and returns its exit code."""

    def server() -> Beside | None:
        if (found := find()) is None:
            return None
        server = start(found)
        return Beside(server.environment(server.make_container("lacus-test")), server.stop)

    return run_beside("Azure", command, connect() is not None, server)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
