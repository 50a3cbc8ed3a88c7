"""The jobs of what comes over UDP: StatsD's lines and RTCP's reports.

CPU time is by packet or line that arrived, as the server's own account says; what was sent and did not arrive is lost.
"""

from dataclasses import dataclass, replace

from . import pairs
from .datagrams import (
    NodeRtcp,
    NodeStatsd,
    RtcpFloor,
    RtcpPlaymeter,
    StatsdExporter,
    StatsdPlaymeter,
    Telegraf,
    UdpFloor,
    send,
    settled,
)
from .jobs import Job, Result, compare, present
from .servers import Server

LINES = 40
FLOWS = 100_000
FEW_FLOWS = 10_000
# The floor runs for so long after the last packet: started, warmed up and ended by a clock of its own.
FLOOR_SPARE_S = 3
RATE_MIN = 100
RATE_PRECISION = 1.1
# A generator that stays below this share of what it was asked for can do no more.
REACHED = 0.95


@dataclass(frozen=True)
class Stream:
    """A server under one stream of packets."""

    name: str
    server: type[Server]
    # What the generator is told.
    options: tuple
    # What is counted: `lines` or `packets`.
    unit: str = "packets"
    # "ours" is compared with each "peer" and "floor"; "other" is shown beside them.
    role: str = "other"

    def run(self, result, settings, **changed):
        """One run: its row, and checks of what arrived."""
        options = dict(self.options) | changed
        with self.server() if not issubclass(self.server, UdpFloor) else timed(self.server, settings) as server:
            report = send(server, settings, **options)
            sent = report["sent"]["lines" if "lines" in options else "packets"]
            arrived = settled(server, sent)
            flows = server.flows() if hasattr(server, "flows") else None
        self.check(result, report, sent, arrived, flows)
        return self.row(report, sent, arrived)

    def check(self, result, report, sent, arrived, flows):
        why = f"{sent:,} sent, {arrived:,} arrived, {max(0, 1 - arrived / sent):.2%} lost"
        # A peer that loses is no failure of the run; to have more than was sent is one for everybody.
        passed = arrived == sent if self.role in ("ours", "other") else 0 < arrived <= sent
        result.checks.append({"check": f"{self.name}: arrived", "passed": passed, "why": why})
        if flows is not None:
            expected = min(report["setup"]["flows"], sent)
            passed = flows == expected or self.role == "peer" and arrived < sent
            result.checks.append({"check": f"{self.name}: flows", "passed": passed, "why": f"{flows:,} of {expected:,}"})

    def row(self, report, sent, arrived):
        cpu, share = report["server_cpu"], arrived / sent
        each = cpu["us_per_line"] if self.unit == "lines" else cpu["us_per_packet"]
        return {
            "subject": self.name,
            "offered": offered(report["setup"]),
            "cpu_us": each / share if share else None,
            "lost": 1 - share,
            "cores": cpu["cores"],
            "server_cores": cpu["cores"],
            "memory_mib": report["server_memory_bytes"] / 2**20,
            "events_per_second": report["measured"]["packets_per_second"] * share,
            "lag_p99_us": report["lag_us"]["p99"],
            "generator_cores": report["generator_cores"],
            "load_average": report["machine"]["load_average"],
            "waiting_for_cpu": report["machine"]["waiting_for_cpu"],
        }


def timed(floor, settings):
    """The floor, told how long it runs."""
    server = floor()
    server.seconds = settings.warmup + settings.seconds + FLOOR_SPARE_S
    return server


def offered(setup):
    what = f"{setup['lines']} lines a packet, {setup['names']} names" if setup["load"] == "statsd" else f"{setup['flows']:,} flows"
    return f"{setup['rate']:,.0f} packets/s, {what}, from {setup['sockets']} ports"


def statsd(settings):
    """2a"""
    result = Result()
    for title, unit, lines, rate, fast in (
        ("1 line a packet", "packets", 1, 20_000, 150_000),
        (f"{LINES} lines a packet", "lines", LINES, 4_000, 30_000),
    ):
        options = (("load", "statsd"), ("lines", lines), ("rate", rate))
        quick = (("load", "statsd"), ("lines", lines), ("rate", fast))
        streams = [
            Stream(f"playmeter, {title}", StatsdPlaymeter, options, unit, "ours"),
            Stream(f"statsd_exporter, {title}", StatsdExporter, options, unit, "peer"),
            Stream(f"telegraf, {title}", Telegraf, options, unit, "peer"),
            Stream(f"node-statsd, {title}", NodeStatsd, options, unit, "peer"),
            Stream(f"floor-udp, {title}", UdpFloor, options, unit, "floor"),
            Stream(f"playmeter, {title}, {fast:,} packets/s", StatsdPlaymeter, quick, unit),
            Stream(f"floor-udp, {title}, {fast:,} packets/s", UdpFloor, quick, unit, "floor of the fast"),
        ]
        measure(result, streams, settings)
    result.notes.append(f"CPU us is by packet with 1 line a packet, by line with {LINES}; every server flushes each second")
    return result


def rtcp(settings):
    """2b"""
    result = Result()
    rate, fast = 8_000, 100_000
    slow = (("load", "rtcp"), ("flows", FEW_FLOWS), ("rate", rate))
    many = (("load", "rtcp"), ("flows", FLOWS), ("rate", fast))
    streams = [
        Stream("playmeter", RtcpPlaymeter, slow, role="ours"),
        Stream("node-rtcp", NodeRtcp, slow, role="peer"),
        Stream("floor-udp", RtcpFloor, slow, role="floor"),
        Stream(f"playmeter, {FLOWS:,} flows, {fast:,} packets/s", RtcpPlaymeter, many),
        Stream(f"floor-udp, {FLOWS:,} flows, {fast:,} packets/s", RtcpFloor, many, role="floor of the fast"),
    ]
    # Every flow has reported once before it is measured.
    measure(result, streams, replace(settings, warmup=max(settings.warmup, 2.0)))
    few, many = (pairs.summary(result.rows[streams[number].name], "memory_mib") for number in (0, 3))
    result.figures["bytes of memory a flow"] = (many["median"] - few["median"]) * 2**20 / (FLOWS - FEW_FLOWS)
    return result


def measure(result, streams, settings):
    """Runs the streams in turns and compares what they cost."""
    part = Result()
    streams = present(streams, part)
    runs = pairs.alternate(streams, lambda stream: stream.run(part, settings), settings.rounds, settings.say)
    part.rows = {stream.name: rows for stream, rows in runs.items()}
    compare(part, streams)
    result.rows |= part.rows
    result.peers |= part.peers
    result.floors |= part.floors
    result.checks += part.checks
    result.notes += [note for note in part.notes if note not in result.notes]
    said = {f"{stream.server.name}: {stream.server.remark}" for stream in streams}
    result.notes += sorted(said.difference(result.notes))
    if settings.find_max:
        result.highest |= {stream.name: highest(stream, settings) for stream in streams if stream.role in ("ours", "peer")}


def highest(stream, settings):
    """The highest rate at which nothing is lost, to a tenth; or what the generator reaches."""
    short = replace(settings, seconds=min(settings.seconds, 2.0), warmup=0.5)
    held, too_much, rate = None, None, dict(stream.options)["rate"]
    while rate > RATE_MIN:
        row = stream.run(Result(), short, rate=rate)
        arrived, lost = row["events_per_second"], row["lost"]
        settings.say(f"  highest  {stream.name}: {arrived:,.0f} packets/s, {lost:.2%} lost")
        if lost:
            too_much = min(rate, arrived / (1 - lost)) if lost < 1 else rate
        else:
            held = row
        reached = held["events_per_second"] if held else None
        if held and (reached < rate * REACHED if too_much is None else too_much <= reached * RATE_PRECISION):
            return {"packets_per_second": reached, "generator_cores": held["generator_cores"]}
        rate = rate * 2 if too_much is None else too_much / 2 if held is None else (reached * too_much) ** 0.5
    return {"missing": "lost packets at every rate"}


JOBS = {
    "2a": Job(
        "StatsD over UDP",
        f"at most 1.8 us of CPU a packet of one line, 0.07 us a line at {LINES} a packet, nothing lost",
        statsd,
    ),
    "2b": Job("RTCP into flows", f"at most 2 us of CPU a packet; {FLOWS:,} flows at once", rtcp),
}
