"""A server whose responses the test chooses."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RECEIPT = {"accepted": 1, "duplicate": 0, "late": 0, "limited": 0, "invalid": 0, "results": []}


class FakeServer:
    """Accepts everything after the responses in ``planned`` and records the requests. ``None`` cuts the connection."""

    def __init__(
        self,
        planned: list[dict[str, Any] | None] | None = None,
        *,
        routes: dict[str, list[dict[str, Any] | None]] | None = None,
        defaults: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """``routes`` are planned for a method and path, ``defaults`` answer those for which nothing is planned."""
        self.planned = list(planned or [])
        self.routes = {route: list(responses) for route, responses in (routes or {}).items()}
        self.defaults = defaults or {}
        self.requests: list[dict[str, Any]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.requests.append(
                    {
                        "method": self.command,
                        "path": self.path,
                        "headers": dict(self.headers),
                        "bytes": body,
                        "body": json.loads(body or b"null"),
                    }
                )
                response = fake.next_response(f"{self.command} {self.path.split('?')[0]}")
                if response is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                body = response.get("body") or {"type": f"/problems/{response.get('code')}", "status": response["status"]}
                text = b"" if response["status"] == 304 else json.dumps(body).encode()
                self.send_response(response["status"])
                if "retry_after_s" in response:
                    self.send_header("Retry-After", str(response["retry_after_s"]))
                if "etag" in response:
                    self.send_header("ETag", response["etag"])
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST

            def log_message(self, *_: Any) -> None:
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except (OSError, ValueError):
                    pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next_response(self, route: str) -> dict[str, Any] | None:
        if self.routes.get(route):
            return self.routes[route].pop(0)
        if self.planned:
            return self.planned.pop(0)
        return self.defaults.get(route, {"status": 202, "body": RECEIPT})

    def events(self) -> list[dict[str, Any]]:
        """All events that were sent, in order."""
        batches = [request["body"]["events"] for request in self.requests if request["path"] == "/v1/events"]
        return [event for batch in batches for event in batch]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
