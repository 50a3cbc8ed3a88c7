"""The client against a real server: `scripts/with-server BINARY -- python3 -m unittest ...`."""

from __future__ import annotations

import json
import os
import unittest
import urllib.request
from typing import Any

from playmeter import Playmeter, Refused

URL = os.environ.get("PLAYMETER_URL", "")
PUBLIC_KEY = os.environ.get("PLAYMETER_PUBLIC_KEY", "")
SECRET_KEY = os.environ.get("PLAYMETER_SECRET_KEY", "")
RUN = os.urandom(4).hex()


def request(method: str, path: str, value: Any = None) -> Any:
    body = None if value is None else json.dumps(value).encode()
    headers = {"Authorization": f"Bearer {SECRET_KEY}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(URL + path, body, headers, method=method)) as response:
        return json.loads(response.read() or b"null")


@unittest.skipUnless(URL, "server-only")
class ServerTest(unittest.TestCase):
    def client(self, player: str, **options: Any) -> Playmeter:
        client = Playmeter(URL, PUBLIC_KEY, player=f"{player}-{RUN}", **options)
        self.addCleanup(client.close)
        return client

    def test_events_are_counted_once(self) -> None:
        with self.client("ann") as game:
            for number in range(1_200):
                game.track(f"jump_{RUN}", value=number)
        series = request("GET", f"/v1/query?metric=jump_{RUN}&step=all")["series"]
        self.assertEqual(series[0]["total"], 1_200)

    def test_scores_are_signed_and_ranked(self) -> None:
        ann, bo = self.client("ann", name="Ann"), self.client("bo", name="Bo")
        self.assertEqual(ann.board(f"stars_{RUN}").submit(120)["rank"], 1)
        page = bo.board(f"stars_{RUN}").save_and_list(130, {"per_page": 10})
        self.assertEqual([(row["name"], row.get("submitted", False)) for row in page["rows"]], [("Bo", True), ("Ann", False)])
        page = ann.board(f"stars_{RUN}").list(friends=[ann.player])
        self.assertEqual([row["score"] for row in page["rows"]], [120])
        with self.assertRaises(Refused) as refused:
            ann.board(f"stars_{RUN}").submit("much")  # type: ignore[arg-type]
        self.assertEqual((refused.exception.status, refused.exception.field), (400, "score"))

    def test_levels_achievements_and_feed(self) -> None:
        request("PUT", f"/v1/achievements/first_{RUN}", {"name": "First"})
        ann, bo = self.client("ann", name="Ann"), self.client("bo", name="Bo")
        level = ann.levels.save(f"Maze {RUN}", "#..#")
        self.assertEqual(bo.levels.load(level["id"])["data"], "#..#")
        self.assertEqual(bo.levels.rate(level["id"], 8)["votes"], 1)
        bo.levels.flag(level["id"], "too dark")
        self.assertIn(level["id"], [one["id"] for one in bo.levels.list(player=ann.player)["levels"]])
        self.assertEqual([ann.achievements.grant(f"first_{RUN}")["granted"] for _ in range(2)], [True, False])
        granted = [one["key"] for one in ann.achievements.list() if one.get("granted_at")]
        self.assertEqual(granted, [f"first_{RUN}"])
        bo.feed.follow(ann.player)
        ann.feed.post("built a tower", {"floors": 9})
        self.assertIn("built a tower", [item.get("text") for item in bo.feed.list(n=20)["items"]])
        bo.feed.unfollow(ann.player)
        self.assertEqual(bo.feed.follows()["follows"], [])

    def test_variables_are_loaded(self) -> None:
        request("PUT", f"/v1/vars/speed_{RUN}", {"value": 3})
        game = self.client("ann", defaults={f"speed_{RUN}": 1, "only_here": 2})
        self.assertEqual((game.vars.get(f"speed_{RUN}"), game.vars.load(), game.vars.load()), (1, True, True))
        self.assertEqual((game.vars.get(f"speed_{RUN}"), game.vars.get("only_here")), (3, 2))

    def test_secret_key_submits_for_other_players(self) -> None:
        with Playmeter(URL, SECRET_KEY) as game:
            self.assertEqual(game.board(f"prizes_{RUN}").submit(9, player="cy")["rank"], 1)


if __name__ == "__main__":
    unittest.main()
