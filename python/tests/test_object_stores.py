"""Object stores: the same contract on servers of Amazon's, Google's and Azure's protocols, and servers that must be refused."""

from __future__ import annotations

import http.server
import multiprocessing
import pickle
import socketserver
import threading
import urllib.parse
from typing import Any

import numpy as np
import pytest
from media import picture, png
from s3_server import S3Server
from same import assert_same
from workers import put_many, read_and_put

import lacus

PROCESSES = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture(params=["s3", "gcs", "azure"])
def place(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """A URL on a server, and the options for it."""
    server = request.getfixturevalue(f"{request.param}_server")
    container = request.getfixturevalue({"azure": "azure_container"}.get(request.param, f"{request.param}_bucket"))
    scheme = {"s3": "s3", "gcs": "gs", "azure": "az"}[request.param]
    return f"{scheme}://{container}/some/where", server.storage_options


def test_the_contract(place: tuple[str, dict[str, str]], rng: np.random.Generator) -> None:
    url, options = place
    assert not lacus.exists(url, storage_options=options)
    with pytest.raises(lacus.NotFoundError, match="some/where"):
        lacus.open(url, storage_options=options)
    ds = lacus.create(url, storage_options=options)
    with pytest.raises(lacus.ConflictError):
        lacus.create(url, storage_options=options)
    value = rng.random((64, 100, 80))
    sparse = np.where(rng.random((50, 60)) < 0.05, rng.random((50, 60)), 0)
    ds.put("x", value, chunk_shape=(8, 100, 80), metadata={"k": 1})
    ds.put_all({f"s/{layout}": 0 for layout in ("COO", "CSF")})
    for layout in ("COO", "CSR", "CSC", "CSF", "BSGS"):
        ds.put(f"s/{layout}", sparse, layout=layout)
    again = lacus.open(url, storage_options=options)
    assert_same(again["x"][...], value)
    assert_same(again["x"][5:40:3, ::-1, 7], value[5:40:3, ::-1, 7])
    for layout in ("COO", "CSR", "CSC", "CSF", "BSGS"):
        assert_same(np.asarray(again[f"s/{layout}"]), sparse, layout)
        assert_same(again[f"s/{layout}"][10:20, ::2], sparse[10:20, ::2], layout)
    again["x"][3, 10:20] = 7
    value[3, 10:20] = 7
    again["x"].append(value[:3])
    ds.refresh()
    assert_same(ds["x"][...], np.concatenate([value, value[:3]]))
    ds.rename("s/COO", "t")
    del ds["s/CSR"]
    ds.compact()
    assert_same(np.asarray(lacus.open(url, storage_options=options)["t"]), sparse)
    first, second = (lacus.open(url, at=version, storage_options=options) for version in (1, 2))
    assert_same(first["x"][...], second["x"][...])
    assert ds.history()[0].operation == "COMPACT"
    assert_same(np.asarray(pickle.loads(pickle.dumps(ds))["t"]), sparse)
    lacus.delete(url, storage_options=options)
    assert not lacus.exists(url, storage_options=options)


def test_a_whole_story(place: tuple[str, dict[str, str]], rng: np.random.Generator) -> None:
    url, options = place
    ds = lacus.create(url, storage_options=options)
    value = rng.random((40, 50))
    ds.put("x", value, chunk_shape=(4, 50))
    ds.add_column("label", "class_label", class_names=["cat", "dog", "owl"])
    ds.add_column("image", "image", compression="png")
    pictures = [png(picture(rng, 4 + i, 5)) for i in range(6)]
    ds.extend({"label": [i % 2 for i in range(6)], "image": pictures})
    first = ds.commit("First")

    ds.checkout("dev", create=True)
    ds["x"][3] = 1
    ds["label"][1] = "owl"
    ds.append({"label": "dog", "image": pictures[0]})
    ds.commit("On dev")
    main = lacus.open(url, storage_options=options)
    main["x"][7] = 9
    main.delete_rows(5)
    main.commit("On main")
    assert main.merge("dev").outcome == "committed"
    value[3], value[7] = 1, 9
    assert_same(main["x"][...], value)
    assert main["label"].names(list(range(6))) == ["cat", "owl", "cat", "dog", "cat", "dog"]
    assert_same(main["image"][5], main["image"][0])
    old = lacus.open(url, at=first, storage_options=options)
    assert len(old) == 6 and old["label"].names(1) == "dog" and main.tag("v1", first) == first

    # What only dev had goes with it; what the commits name stays.
    ds.checkout("main")
    ds.branches.create("gone", at="dev")
    gone = lacus.open(url, branch="gone", storage_options=options)
    gone.put("y", rng.random((100, 100)))
    gone.commit("For nobody")
    main.branches.delete("gone", force=True)
    main.branches.delete("dev")
    report = main.gc(dry_run=False, grace=0)
    assert report.removed and not main.gc(grace=0).removable
    assert main.check().healthy
    again = lacus.open(url, storage_options=options)
    assert_same(again["x"][...], value)
    assert len(again) == 6 and len(lacus.open(url, at="v1", storage_options=options)) == 6
    with pytest.raises(lacus.NotFoundError, match="gone"):
        lacus.open(url, branch="gone", storage_options=options)
    lacus.delete(url, storage_options=options)
    assert not lacus.exists(url, storage_options=options)


def test_large_values_go_in_parts(place: tuple[str, dict[str, str]], rng: np.random.Generator) -> None:
    url, options = place
    ds = lacus.create(url, storage_options=options)
    value = rng.integers(0, 256, (40, 1 << 20), dtype=np.uint8)
    ds.put("x", value, compression=None)
    assert_same(ds["x"][...], value)
    assert_same(ds["x"][17, 1000:2000], value[17, 1000:2000])


def test_processes_write_at_once(place: tuple[str, dict[str, str]]) -> None:
    url, options = place
    ds = lacus.create(url, storage_options=options)
    barrier = PROCESSES.Barrier(4)
    writers = [PROCESSES.Process(target=put_many, args=(url, f"w{w}", 6, options, barrier)) for w in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert ds.refresh() == 24 and len(ds.keys()) == 24
    for w in range(4):
        for i in range(6):
            assert_same(ds[f"w{w}/{i}"][...], np.full((20, 30), i, np.int32))


def test_forked_children_have_connections_of_their_own(place: tuple[str, dict[str, str]]) -> None:
    url, options = place
    ds = lacus.create(url, storage_options=options)
    value = np.arange(40_000).reshape(40, 1000)
    ds.put("x", value, chunk_shape=(1, 1000))
    for _ in range(3):
        assert_same(ds["x"][3], value[3])
        children = [PROCESSES.Process(target=read_and_put, args=(ds["x"], number)) for number in range(3)]
        for child in children:
            child.start()
        # All three and their parent at once.
        assert_same(ds["x"][...], value)
        for child in children:
            child.join(60)
            assert child.exitcode == 0
    ds.refresh()
    assert ds.keys() == ["child0", "child1", "child2", "x"]


def test_wrong_credentials(s3_server: S3Server, s3_bucket: str) -> None:
    if s3_server.kind != "minio":
        pytest.skip("moto checks no credentials")
    options = s3_server.storage_options | {"aws_secret_access_key": "wrong"}
    for call in (lacus.create, lacus.open, lacus.exists):
        with pytest.raises(lacus.UnavailableError):
            call(f"s3://{s3_bucket}/x", storage_options=options)
    with pytest.raises(lacus.LacusError):
        lacus.create(f"s3://no-such-{s3_bucket}/x", storage_options=s3_server.storage_options)


class FakeS3:
    """A small S3 server that misbehaves on purpose.

    answers="always"   takes every put, also those that say "only if absent"
    answers="refused"  says 403 to everything
    answers="never"    takes a request and does not answer
    """

    def __init__(self, answers: str = "always") -> None:
        self.answers = answers
        self.objects: dict[str, bytes] = {}
        self.stopped = threading.Event()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), "ETag": '"1"', **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if fake.answers == "never":
                    fake.stopped.wait(60)
                    return
                if fake.answers == "refused":
                    error = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
                    return self.answer(403, error)
                url = urllib.parse.urlsplit(self.path)
                query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
                if "list-type" in query:
                    return self.answer(200, fake.listing(query))
                if self.command == "POST":
                    return self.answer(200, b"<DeleteResult></DeleteResult>")
                if self.command == "PUT":
                    fake.objects[url.path] = body
                    return self.answer(200)
                if self.command == "DELETE":
                    fake.objects.pop(url.path, None)
                    return self.answer(204)
                if url.path not in fake.objects:
                    return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                modified = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
                return self.answer(200, fake.objects[url.path], modified)

            do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            # More than the puts that race in a probe.
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def listing(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        keys = [path.split("/", 2)[2] for path in self.objects]
        found = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>1</ETag><Size>1</Size></Contents>"
            for key in keys
            if key.startswith(prefix)
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        return text.encode()

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "aws_endpoint_url": self.endpoint,
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_region": "us-east-1",
        }

    def __enter__(self) -> FakeS3:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()


def test_a_server_that_ignores_conditions_is_refused() -> None:
    with FakeS3() as server:
        for _ in range(2):
            with pytest.raises(lacus.InvalidError, match="does not honour conditional puts"):
                lacus.create("s3://bucket/x", storage_options=server.storage_options)
        assert not any("_delta_log" in path for path in server.objects)


def test_a_server_that_refuses() -> None:
    with FakeS3(answers="refused") as server:
        for call in (lacus.create, lacus.open, lacus.exists, lacus.delete):
            with pytest.raises(lacus.UnavailableError):
                call("s3://bucket/x", storage_options=server.storage_options)
