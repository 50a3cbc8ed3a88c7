"""The jobs over UDP: StatsD lines and RTCP reports.

CPU time is per packet or line received, as counted by the server; packets sent but not received are lost.
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
    wait_for_count,
)
from .jobs import Job, Result, add_ratios, available
from .servers import Server

LINES = 40
FLOWS = 100_000
FEW_FLOWS = 10_000
# The floor runs this much longer than the generator: it starts earlier and stops by its own clock.
FLOOR_SPARE_S = 3
RATE_MIN = 100
RATE_PRECISION = 1.1
# A generator that reaches less than this share of the requested rate is at its limit.
REACHED_SHARE = 0.95


@dataclass(frozen=True)
class Stream:
    """A server under one stream of packets."""

    name: str
    server: type[Server]
    # Options of the generator.
    options: tuple
    # What is counted: `lines` or `packets`.
    unit: str = "packets"
    # "ours" is compared with each "peer" and "floor"; "other" is only shown.
    role: str = "other"

    def run(self, result, settings, **changed):
        """Runs the stream once; returns its row and adds checks to the result."""
        options = dict(self.options) | changed
        with self.server() if not issubclass(self.server, UdpFloor) else timed(self.server, settings) as server:
            report = send(server, settings, **options)
            sent = report["sent"]["lines" if "lines" in options else "packets"]
            received_count = wait_for_count(server, sent)
            flows = server.flows() if hasattr(server, "flows") else None
        self.check(result, report, sent, received_count, flows)
        return self.row(report, sent, received_count)

    def check(self, result, report, sent, received_count, flows):
        why = f"{sent:,} sent, {received_count:,} received, {max(0, 1 - received_count / sent):.2%} lost"
        # Loss at a peer does not fail the run; receiving more than was sent always does.
        passed = received_count == sent if self.role in ("ours", "other") else 0 < received_count <= sent
        result.checks.append({"check": f"{self.name}: received", "passed": passed, "why": why})
        if flows is not None:
            expected = min(report["setup"]["flows"], sent)
            passed = flows == expected or self.role == "peer" and received_count < sent
            why = f"{flows:,} of {expected:,}"
            result.checks.append({"check": f"{self.name}: flows", "passed": passed, "why": why})

    def row(self, report, sent, received_count):
        cpu, share = report["server_cpu"], received_count / sent
        each = cpu["us_per_line"] if self.unit == "lines" else cpu["us_per_packet"]
        return {
            "subject": self.name,
            "offered": describe_load(report["setup"]),
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
    """Returns the floor, configured with its duration."""
    server = floor()
    server.seconds = settings.warmup + settings.seconds + FLOOR_SPARE_S
    return server


def describe_load(setup):
    if setup["load"] == "statsd":
        what = f"{setup['lines']} lines per packet, {setup['names']} names"
    else:
        what = f"{setup['flows']:,} flows"
    return f"{setup['rate']:,.0f} packets/s, {what}, from {setup['sockets']} ports"


def statsd(settings):
    """2a"""
    result = Result()
    for title, unit, lines, rate, fast_rate in (
        ("1 line per packet", "packets", 1, 20_000, 150_000),
        (f"{LINES} lines per packet", "lines", LINES, 4_000, 30_000),
    ):
        options = (("load", "statsd"), ("lines", lines), ("rate", rate))
        fast_options = (("load", "statsd"), ("lines", lines), ("rate", fast_rate))
        streams = [
            Stream(f"playmeter, {title}", StatsdPlaymeter, options, unit, "ours"),
            Stream(f"statsd_exporter, {title}", StatsdExporter, options, unit, "peer"),
            Stream(f"telegraf, {title}", Telegraf, options, unit, "peer"),
            Stream(f"node-statsd, {title}", NodeStatsd, options, unit, "peer"),
            Stream(f"floor-udp, {title}", UdpFloor, options, unit, "floor"),
            Stream(f"playmeter, {title}, {fast_rate:,} packets/s", StatsdPlaymeter, fast_options, unit),
            Stream(f"floor-udp, {title}, {fast_rate:,} packets/s", UdpFloor, fast_options, unit, "fast floor"),
        ]
        measure(result, streams, settings)
    result.notes.append(
        f"CPU us is per packet with 1 line per packet, per line with {LINES}; every server flushes each second"
    )
    return result


def rtcp(settings):
    """2b"""
    result = Result()
    rate, fast_rate = 8_000, 100_000
    slow_options = (("load", "rtcp"), ("flows", FEW_FLOWS), ("rate", rate))
    many_options = (("load", "rtcp"), ("flows", FLOWS), ("rate", fast_rate))
    streams = [
        Stream("playmeter", RtcpPlaymeter, slow_options, role="ours"),
        Stream("node-rtcp", NodeRtcp, slow_options, role="peer"),
        Stream("floor-udp", RtcpFloor, slow_options, role="floor"),
        Stream(f"playmeter, {FLOWS:,} flows, {fast_rate:,} packets/s", RtcpPlaymeter, many_options),
        Stream(f"floor-udp, {FLOWS:,} flows, {fast_rate:,} packets/s", RtcpFloor, many_options, role="fast floor"),
    ]
    # The warm-up is long enough for every flow to report once before the measurement.
    measure(result, streams, replace(settings, warmup=max(settings.warmup, 2.0)))
    few, many_options = (pairs.summary(result.rows[streams[number].name], "memory_mib") for number in (0, 3))
    result.figures["bytes of memory per flow"] = (many_options["median"] - few["median"]) * 2**20 / (FLOWS - FEW_FLOWS)
    return result


def measure(result, streams, settings):
    """Runs the streams in interleaved rounds and compares the cost."""
    part = Result()
    streams = available(streams, part)
    runs = pairs.alternate(streams, lambda stream: stream.run(part, settings), settings.rounds, settings.log)
    part.rows = {stream.name: rows for stream, rows in runs.items()}
    add_ratios(part, streams)
    result.rows |= part.rows
    result.peers |= part.peers
    result.floors |= part.floors
    result.checks += part.checks
    result.notes += [note for note in part.notes if note not in result.notes]
    remarks = {f"{stream.server.name}: {stream.server.remark}" for stream in streams}
    result.notes += sorted(remarks.difference(result.notes))
    if settings.find_max:
        compared = [stream for stream in streams if stream.role in ("ours", "peer")]
        result.highest |= {stream.name: highest_rate(stream, settings) for stream in compared}


def highest_rate(stream, settings):
    """Finds the highest rate without loss, within a tenth, or the highest rate that the generator reaches."""
    short = replace(settings, seconds=min(settings.seconds, 2.0), warmup=0.5)
    best, lossy_rate, rate = None, None, dict(stream.options)["rate"]
    while rate > RATE_MIN:
        row = stream.run(Result(), short, rate=rate)
        received_count, lost = row["events_per_second"], row["lost"]
        settings.log(f"  highest  {stream.name}: {received_count:,.0f} packets/s, {lost:.2%} lost")
        if lost:
            lossy_rate = min(rate, received_count / (1 - lost)) if lost < 1 else rate
        else:
            best = row
        best_rate = best["events_per_second"] if best else None
        if lossy_rate is None:
            is_found = best and best_rate < rate * REACHED_SHARE
        else:
            is_found = best and lossy_rate <= best_rate * RATE_PRECISION
        if is_found:
            return {"packets_per_second": best_rate, "generator_cores": best["generator_cores"]}
        rate = rate * 2 if lossy_rate is None else lossy_rate / 2 if best is None else (best_rate * lossy_rate) ** 0.5
    return {"missing": "lost packets at every rate"}


JOBS = {
    "2a": Job(
        "StatsD over UDP",
        f"at most 1.8 us of CPU per packet of one line, 0.07 us per line at {LINES} per packet, nothing lost",
        statsd,
    ),
    "2b": Job("RTCP into flows", f"at most 2 us of CPU per packet; {FLOWS:,} flows at the same time", rtcp),
}
