"""The half of Google's XML protocol that fake-gcs-server lacks, translated into the JSON protocol that it has.

    object_store ──XML──► this program ──JSON──► fake-gcs-server

fake-gcs-server 1.56 reads and deletes by the XML protocol, which `object_store` speaks, but answers "invalid uploadType" to a
plain put, knows no uploads by parts and no copies, lists without pages or `start-after`, and looks for conditions
(`x-goog-if-generation-match`) nowhere but in its JSON uploads. There they are honoured truly, under a lock: of puts that race,
one wins. So puts become JSON uploads here, and who wins stays the server's decision.

    python gcs_xml.py PORT PORT-OF-FAKE-GCS-SERVER
"""

from __future__ import annotations

import hashlib
import http.client
import http.server
import json
import socketserver
import sys
import threading
import urllib.parse
import uuid
import xml.etree.ElementTree as ElementTree
from xml.sax.saxutils import escape

PAGE = 1000
Headers = dict[str, str]
Answer = tuple[int, Headers, bytes]

# Parts of uploads by their upload's id, then by number.
UPLOADS: dict[str, dict[int, bytes]] = {}
LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a client, with one of its own to the server."""

    protocol_version = "HTTP/1.1"
    # Without it the small packets of an answer wait for each other.
    disable_nagle_algorithm = True
    upstream_port = 0

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.upstream_port)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def ask(self, method: str, path: str, body: bytes = b"", headers: Headers | None = None) -> Answer:
        """What the server behind answers."""
        sent = {"Host": f"127.0.0.1:{self.upstream_port}", "Content-Length": str(len(body)), **(headers or {})}
        self.upstream.request(method, path, body, sent)
        answer = self.upstream.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        length = len(body)
        if self.command == "HEAD":
            length = int(headers.get("Content-Length", "0"))
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        if bucket in ("storage", "_internal"):
            self.reply(*self.ask(self.command, self.path, body, {"Content-Type": "application/json"}))
        elif "uploads" in query or "uploadId" in query:
            self.reply(*self.by_parts(bucket, key, query, body))
        elif self.command == "PUT" and "x-goog-copy-source" in self.headers:
            self.reply(*self.copy(bucket, key))
        elif self.command == "PUT":
            self.reply(*self.put(bucket, key, body))
        elif self.command == "GET" and not key:
            self.reply(*self.list(bucket, query))
        else:
            wanted = {name: self.headers[name] for name in ("Range",) if name in self.headers}
            self.reply(*self.ask(self.command, self.path, body, wanted))

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = handle_any

    def put(self, bucket: str, key: str, body: bytes) -> Answer:
        query = {"uploadType": "media", "name": key}
        if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
            query["ifGenerationMatch"] = generation
        path = f"/upload/storage/v1/b/{quote(bucket)}/o?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"
        status, headers, found = self.ask("POST", path, body, {"Content-Type": "application/octet-stream"})
        if status != 200:
            return status, headers, found
        made = json.loads(found)
        return 200, {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]}, b""

    def copy(self, bucket: str, key: str) -> Answer:
        # Not the server's own copy, which looks at no condition.
        status, headers, found = self.ask("GET", "/" + self.headers["x-goog-copy-source"].lstrip("/"))
        if status == 200:
            status, headers, found = self.put(bucket, key, found)
        return status, headers, found or b"<CopyObjectResult/>"

    def by_parts(self, bucket: str, key: str, query: Headers, body: bytes) -> Answer:
        if "uploads" in query:
            upload = uuid.uuid4().hex
            with LOCK:
                UPLOADS[upload] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, text.encode()
        with LOCK:
            parts = UPLOADS.get(query["uploadId"])
        if parts is None:
            return 404, {}, b"<Error><Code>NoSuchUpload</Code></Error>"
        if self.command == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, {"ETag": tag(body)}, b""
        if self.command == "POST":
            found = ElementTree.fromstring(body)
            listed = [(int(part.findtext("PartNumber", "0")), part.findtext("ETag", "")) for part in found]
            if any(number not in parts or tag(parts[number]) != etag for number, etag in listed):
                return 400, {}, b"<Error><Code>InvalidPart</Code></Error>"
            status, headers, answered = self.put(bucket, key, b"".join(parts[number] for number, _ in listed))
            if status != 200:
                return status, headers, answered
            text = f"<ETag>{escape(headers['ETag'])}</ETag>"
            text = f"<CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>"
            answer = 200, headers, text.encode()
        else:
            answer = 204, {}, b""
        with LOCK:
            UPLOADS.pop(query["uploadId"], None)
        return answer

    def list(self, bucket: str, query: Headers) -> Answer:
        known = {name: query[name] for name in ("prefix", "delimiter") if name in query}
        status, headers, found = self.ask("GET", f"/{quote(bucket)}?{urllib.parse.urlencode(known)}")
        if status != 200:
            # The server says 500 where Google says that there is no such bucket.
            return 404 if b"no bucket named" in found else status, headers, found
        entries: list[tuple[str, str]] = []
        for element in ElementTree.fromstring(found):
            if element.tag in ("Contents", "CommonPrefixes"):
                name = element.findtext("Key") or element.findtext("Prefix") or ""
                entries.append((name, ElementTree.tostring(element, encoding="unicode")))
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        entries = sorted(entry for entry in entries if entry[0] > after)
        most = min(int(query.get("max-keys", PAGE)), PAGE)
        text = "".join(element for _, element in entries[:most])
        if len(entries) > most:
            text += f"<NextContinuationToken>{escape(entries[most - 1][0])}</NextContinuationToken>"
        return 200, {"Content-Type": "application/xml"}, f"<ListBucketResult>{text}</ListBucketResult>".encode()

    def log_message(self, *_: object) -> None:
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def tag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


if __name__ == "__main__":
    Handler.upstream_port = int(sys.argv[2])
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
