"""The Playmeter client for Python: reliable events, variables, leaderboards, levels, achievements and feeds."""

from .client import Playmeter
from .errors import EventsLost, PlaymeterError, Refused, Unreachable

__all__ = ["EventsLost", "Playmeter", "PlaymeterError", "Refused", "Unreachable"]
