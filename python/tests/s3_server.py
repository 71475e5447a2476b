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

import atexit
import ctypes
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

KEY, SECRET, REGION = "lacus-test", "lacus-test-secret", "us-east-1"
READY_SECS = 60.0
REPOSITORY = Path(__file__).resolve().parents[2]


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
        if path := os.environ.get(variable):
            if not os.access(path, os.X_OK):
                raise FileNotFoundError(f"{variable}={path} is not a program")
            return kind, Path(path)
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
    home = Path(tempfile.mkdtemp(prefix="lacus-s3-"))
    for attempt in range(5):
        # The port is free now and may be taken in a moment: then the server exits and another is tried.
        port = _free_port()
        process, log = _spawn(kind, program, home, port)
        if _is_ready(process, f"http://127.0.0.1:{port}", kind):
            break
        _end(process)
        if attempt == 4:
            text = log.read_text(errors="replace")[-2000:]
            shutil.rmtree(home, ignore_errors=True)
            raise RuntimeError(f"{kind} at {program} did not come up:\n{text}")

    owner = os.getpid()

    def stop() -> None:
        # A forked child inherits the exit handlers; the server is not its to stop.
        if os.getpid() == owner:
            atexit.unregister(stop)
            _end(process)
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(stop)
    data = home / "data" if kind == "minio" else None
    return S3Server(kind, f"http://127.0.0.1:{port}", data, stop=stop)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spawn(kind: str, program: Path, home: Path, port: int) -> tuple[subprocess.Popen[bytes], Path]:
    environment = dict(os.environ)
    if kind == "minio":
        data = home / "data"
        data.mkdir(exist_ok=True)
        command = [str(program), "server", "--address", f"127.0.0.1:{port}", "--quiet", str(data)]
        # No web console (it would listen on a second port) and no look for updates.
        environment |= {
            "MINIO_ROOT_USER": KEY,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_REGION": REGION,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }
    else:
        command = [str(program), "-H", "127.0.0.1", "-p", str(port)]
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            # Out of the terminal's process group: Ctrl-C reaches the tests first, they stop the server.
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),
        )
    return process, log


def _die_with(parent: int) -> Callable[[], None] | None:
    """What the child runs before it becomes the server: ask the kernel to kill it when we die, in
    whatever way. Elsewhere than on Linux the exit handler has to do."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    pr_set_pdeathsig = 1

    def before_exec() -> None:
        prctl(pr_set_pdeathsig, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def _is_ready(process: subprocess.Popen[bytes], endpoint: str, kind: str) -> bool:
    health = endpoint + ("/minio/health/ready" if kind == "minio" else "/moto-api/")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    give_up = time.monotonic() + READY_SECS
    while time.monotonic() < give_up and process.poll() is None:
        try:
            direct.open(health, timeout=2).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
    if not command:
        print("usage: s3_server.py COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    if connect():
        os.execvp(command[0], command)
    try:
        found = find()
        server = start(*found) if found else None
    except (FileNotFoundError, RuntimeError) as error:
        print(f"s3_server.py: {error}", file=sys.stderr)
        return 1
    if server is None:
        print("\n!!! no S3 server could be had: S3 tests are SKIPPED\n", file=sys.stderr, flush=True)
        os.execvp(command[0], command)
    if server.kind != "minio":
        print(f"\n!!! S3 tests run against {server.kind}, no real server\n", file=sys.stderr, flush=True)
    try:
        environment = dict(os.environ, **server.environment(server.make_bucket("lacus-test")))
        child = subprocess.Popen(command, env=environment)
        # Ctrl-C reaches the command by itself, being in the same process group; a plain kill does not.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        code = child.wait()
    except FileNotFoundError as error:
        print(f"s3_server.py: {error}", file=sys.stderr)
        code = 127
    finally:
        server.stop()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
