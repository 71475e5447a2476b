"""Servers on loopback for the tests: start one on a free port, wait until it answers, end it with its owner.

`s3_server.py`, `gcs_server.py` and `azure_server.py` say which. Only the standard library is used, so that any Python runs
them as programs around a command.
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
from collections.abc import Callable, Mapping
from pathlib import Path

READY_SECS = 60.0
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Launch:
    """How to start a server, and the address that answers once it is up."""

    command: list[str]
    health: str
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Running:
    """A server that is up. Whoever called `launch` stops it; it also dies with the process that did."""

    port: int
    home: Path
    stop: Callable[[], None]


@dataclasses.dataclass
class Beside:
    """A server for a command to run beside: the variables the command sees, and how to stop it."""

    environment: Mapping[str, str]
    stop: Callable[[], None]


def program_of(variable: str) -> Path | None:
    """The program that a variable names, if it is set."""
    if not (path := os.environ.get(variable)):
        return None
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"{variable}={path} is not a program")
    return Path(path)


def launch(kind: str, prepare: Callable[[Path, int], Launch]) -> Running:
    """Starts what `prepare(home, port)` says and returns when it answers."""
    home = Path(tempfile.mkdtemp(prefix="lacus-server-"))
    for attempt in range(5):
        # The port is free now and may be taken in a moment: then the server exits and another is tried.
        port = _free_port()
        wanted = prepare(home, port)
        process, log = _spawn(wanted, home)
        if _is_ready(process, wanted.health):
            break
        _end(process)
        if attempt == 4:
            text = log.read_text(errors="replace")[-2000:]
            shutil.rmtree(home, ignore_errors=True)
            raise RuntimeError(f"{kind} ({wanted.command[0]}) did not come up:\n{text}")

    owner = os.getpid()

    def stop() -> None:
        # A forked child inherits the exit handlers; the server is not its to stop.
        if os.getpid() == owner:
            atexit.unregister(stop)
            _end(process)
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(stop)
    return Running(port, home, stop)


def run_beside(kind: str, command: list[str], is_up: bool, start: Callable[[], Beside | None]) -> int:
    """Runs a command with a server beside it, unless one is up already, and returns its exit code.

    `start` gives None where no server can be had: the command then runs without one, which is said loudly.
    """
    name = Path(sys.argv[0]).name
    if not command:
        print(f"usage: {name} COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    if is_up:
        os.execvp(command[0], command)
    try:
        server = start()
    except (OSError, RuntimeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    if server is None:
        print(f"\n!!! no {kind} server could be had: {kind} tests are SKIPPED\n", file=sys.stderr, flush=True)
        os.execvp(command[0], command)
    try:
        child = subprocess.Popen(command, env={**os.environ, **server.environment})
        # Ctrl-C reaches the command by itself, being in the same process group; a plain kill does not.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        code = child.wait()
    except FileNotFoundError as error:
        print(f"{name}: {error}", file=sys.stderr)
        code = 127
    finally:
        server.stop()
    return code if code >= 0 else 128 - code


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spawn(wanted: Launch, home: Path) -> tuple[subprocess.Popen[bytes], Path]:
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            wanted.command,
            env={**os.environ, **wanted.environment},
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


def _is_ready(process: subprocess.Popen[bytes], health: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    give_up = time.monotonic() + READY_SECS
    while time.monotonic() < give_up and process.poll() is None:
        try:
            direct.open(health, timeout=2).close()
            return True
        except urllib.error.HTTPError as error:
            # It answers, if only to refuse somebody without credentials.
            if error.code < 500:
                return True
        except OSError:
            pass
        time.sleep(0.02)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
