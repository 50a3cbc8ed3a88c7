"""Leaderboards, player levels, achievements, the feed, and variables."""

from __future__ import annotations

import threading
from typing import Any, Callable, Mapping

from .api import Api, segment
from .errors import PlaymeterError
from .http import Http


class Board:
    """A leaderboard. It is created by its first score."""

    def __init__(self, api: Api, table: str) -> None:
        self._api = api
        self._path = f"/v1/boards/{segment(table)}/scores"

    def submit(self, score: float, **details: object) -> dict[str, Any]:
        """Submits a score. Details: ``player``, ``name``, ``subscore``, ``fields``, ``source``, ``code``."""
        return self._api.write("POST", self._path, {**self._api.identity(), **details, "score": score})

    def list(self, **query: object) -> dict[str, Any]:
        """Returns a page: ``window``, ``page``, ``per_page``, ``by``, ``filter``, ``friends``, ``around``..."""
        return self._api.get(self._path, self._api.friends(query))

    def save_and_list(self, score: float, query: Mapping[str, object] | None = None, **details: object) -> dict[str, Any]:
        """Submits a score and returns the page that contains it; its row is marked ``submitted``."""
        value = {**self._api.identity(), **details, "score": score}
        return self._api.write("POST", self._path + ":saveAndList", value, self._api.friends(query or {}))


class Levels:
    """Levels that players have made."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def save(self, name: str, data: str, **details: object) -> dict[str, Any]:
        """Saves a level. The same name and data again returns the existing level, with ``duplicate``."""
        return self._api.write("POST", "/v1/levels", {**self._api.identity("player_name"), "name": name, "data": data, **details})

    def load(self, level: str) -> dict[str, Any]:
        return self._api.get(f"/v1/levels/{segment(level)}")

    def list(self, data: bool = False, **query: object) -> dict[str, Any]:
        """Returns a page: ``mode``, ``filter``, ``friends``, ``player``, ``page``, ``per_page``..."""
        return self._api.get("/v1/levels", {**self._api.friends(query), "data": 1 if data else None})

    def rate(self, level: str, rating: int) -> dict[str, Any]:
        """Rates a level from 1 to 10; replaces an earlier rating."""
        return self._api.write("POST", f"/v1/levels/{segment(level)}/rating", {"player": self._api.player, "rating": rating})

    def flag(self, level: str, reason: str | None = None) -> Any:
        """Flags a level for the moderators."""
        return self._api.write("POST", f"/v1/levels/{segment(level)}/flags", {"player": self._api.player, "reason": reason})


class Achievements:
    """Achievements of the player and of friends."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def grant(self, key: str) -> dict[str, Any]:
        """Grants an achievement. ``granted`` is false if the player already had it."""
        return self._api.write("POST", f"/v1/achievements/{segment(key)}/grants", self._api.identity())

    def list(self, **query: object) -> list[dict[str, Any]]:
        """Lists all achievements; those of the player have ``granted_at``."""
        query = {"player": self._api.player, **self._api.friends(query)}
        achievements: list[dict[str, Any]] = self._api.get("/v1/achievements", query)["achievements"]
        return achievements


class Feed:
    """The activities of the players that the player follows."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self, **query: object) -> dict[str, Any]:
        """Returns a page: ``mode`` (``latest``, ``fair``), ``n``, ``before``."""
        return self._api.get(f"/v1/feed/{segment(self._api.player)}", query)

    def post(self, text: str, props: Mapping[str, object] | None = None) -> dict[str, Any]:
        return self._api.write("POST", "/v1/feed", {**self._api.identity(), "text": text, "props": props})

    def follow(self, player: str) -> None:
        self._api.write("PUT", self._follows() + "/" + segment(player))

    def unfollow(self, player: str) -> None:
        self._api.write("DELETE", self._follows() + "/" + segment(player))

    def follows(self) -> dict[str, Any]:
        return self._api.get(self._follows())

    def _follows(self) -> str:
        return f"/v1/players/{segment(self._api.player)}/follows"


class GameVars:
    """Variables: the defaults, then the last values from the server."""

    def __init__(self, http: Http, viewer: Callable[[], Mapping[str, object]], defaults: Mapping[str, Any]) -> None:
        self._http = http
        self._viewer = viewer
        self._defaults = dict(defaults)
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._etag: tuple[Mapping[str, object], str] | None = None

    def get(self, name: str) -> Any:
        """Returns the value of the server, or the default. Raises ``KeyError`` if there is neither."""
        return self.all()[name]

    def all(self) -> dict[str, Any]:
        with self._lock:
            return {**self._defaults, **self._values}

    def load(self) -> bool:
        """Loads the variables once. Returns false if that fails; the current values then stay."""
        viewer = self._viewer()
        with self._lock:
            known = self._etag
        headers = {"If-None-Match": known[1]} if known and known[0] == viewer else {}
        try:
            response = self._http.send("GET", "/v1/vars", query=viewer, headers=headers)
        except PlaymeterError:
            return False
        if response.status == 200 and isinstance(response.data, dict):
            with self._lock:
                self._values = response.data
                self._etag = (viewer, response.etag) if response.etag else None
        return True


