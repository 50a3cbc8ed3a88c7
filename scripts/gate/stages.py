"""The stages of the checks, and the long tests."""

import random
import sys
from pathlib import Path

from .machine import find_missing_space
from .runner import Stage
from .steps import Check, Command, Doctests, NodeTests, Nextest, Script, Vitest

BINARY = "target/release/playmeter"
ECHO = "target/release/examples/echo"
TOOLS = "target/tools/bin"
# Injected faults are compiled in and stay off unless a test sets PLAYMETER_INJECTED_FAULT; `make build` compiles them out.
CARGO = ["--locked", "--workspace", "--features", "playmeter/fault-injection,playmeter/sftp"]
NEXTEST = [f"{TOOLS}/cargo-nextest", "nextest", "run", "--cargo-profile", "release", *CARGO]
NODE_PACKAGES = ["web", "examples/letters", "sdk/js", "geo", "sql"]
NODE_PACKAGES += [f"compat/{name}" for name in ("ddp", "collectors", "capture", "openapi")]
# The program embeds what these targets build.
ASSETS = ["web", "letters", "sdk", "geo"]
# Every run of the gate makes the same random choices, so that what failed can be repeated.
GATE_SEED = 1
GATE_ENVIRONMENT = {"CARGO_TERM_COLOR": "never", "CARGO_INCREMENTAL": "0", "PROPTEST_RNG_SEED": str(GATE_SEED)}


def python(name, *arguments, **options):
    """A Python program that counts its own checks."""
    return Script(name, ["python3", *arguments], **options)


def download(name, *argv):
    """Something that comes from a package registry, and is there already unless this is the first run."""
    return Command(name, list(argv), tries=3)


def make(*targets):
    return ["make", "--no-print-directory", *targets]


def deps(root):
    """Everything that is downloaded, before anything is built: a registry that does not answer is found at once."""
    steps = [Check("free disk", lambda: find_missing_space(root))]
    steps += [download("Debian packages", "scripts/tools"), download("Rust packages", "cargo", "fetch", "--locked")]
    steps += [download("cargo tools", "scripts/cargo-tools")]
    for folder in NODE_PACKAGES:
        steps.append(download(f"Node packages of {folder}", *make(f"{folder}/node_modules/.package-lock.json")))
    steps += [download("Python packages", "python3", "compat/environment.py")]
    steps += [download("Python tools of the SDKs", *make("target/gdtoolkit/installed", "target/mypy/installed"))]
    steps += [download("Go programs", "scripts/go-tools"), download("Telegraf", "scripts/telegraf")]
    steps += [download("S3 server", "python3", "compat/s3/run.py", "--fetch")]
    steps += [download("Debian for packages", "python3", "packaging/roots.py", "--fetch")]
    return Stage("deps", steps, is_required=True)


def lint():
    clippy = ["cargo", "clippy", "--release", *CARGO, "--all-targets", "--", "-D", "warnings"]
    steps = [
        python("runner", "-m", "unittest", "discover", "-s", "scripts"),
        Command("format", ["cargo", "fmt", "--all", "--check"]),
        Command("deny", [f"{TOOLS}/cargo-deny", "--locked", "check", "bans", "licenses", "sources"]),
        Command("assets", make(*ASSETS)),
        Command("clippy", clippy),
        Command("svelte-check", ["npm", "run", "check"], cwd="web"),
    ]
    return Stage("lint", steps, needs=("deps",))


def build():
    """One build for everything that is tested: the program, the examples and the tests share their crates."""
    tests = ["cargo", "test", "--release", *CARGO, "--no-run"]
    steps = [Command("assets", make(*ASSETS, "sql-library")), Command("cargo", tests)]
    return Stage("build", steps, needs=("deps",), is_required=True)


def web():
    steps = [
        Vitest("dashboard", "web"),
        Command("size of the dashboard", ["npm", "run", "size"], cwd="web"),
        Command("types of the demo game", ["npm", "run", "check"], cwd="examples/letters"),
        Vitest("demo game", "examples/letters"),
        NodeTests("dashboard in a browser", "web/e2e", server=BINARY),
        NodeTests("demo game in a browser", "examples/letters/e2e", server=BINARY),
    ]
    return after_build("web", steps)


def sdk():
    server = ["scripts/with-server", BINARY, "--"]
    unittest = ["python3", "-W", "error", "-m", "unittest", "discover", "-s", "sdk/python/tests"]
    godot = sorted(str(path) for path in Path("sdk/godot/addons/playmeter").glob("*.gd"))
    steps = [
        Command("types of JavaScript", ["npm", "run", "check"], cwd="sdk/js"),
        Vitest("JavaScript", "sdk/js"),
        Command("size of JavaScript", ["npm", "run", "size"], cwd="sdk/js"),
        NodeTests("JavaScript in a browser", "sdk/js/e2e", server=BINARY),
        Script("Python", [*server, *unittest], environment={"PYTHONPATH": "sdk/python/src"}),
        Command("types of Python", ["target/mypy/bin/mypy", "--strict", "sdk/python/src"]),
        Command("Unity", [*server, "scripts/test-unity"]),
        Command("syntax of Godot", ["target/gdtoolkit/bin/gdparse", *godot]),
        Command("style of Godot", ["target/gdtoolkit/bin/gdlint", *godot]),
    ]
    return after_build("sdk", steps)


def compat():
    """Published clients and readers against the server."""
    steps = [NodeTests("Playtomic", "compat/playtomic"), NodeTests("DDP", "compat/ddp")]
    steps += [NodeTests("Prometheus", "compat/prometheus"), python("Datadog", "compat/datadog/run.py", BINARY)]
    steps += [NodeTests(name, f"compat/{name}") for name in ("collectors", "capture", "openapi")]
    steps += [python("Python", "compat/python/run.py")]
    steps += [python("archive", "compat/archive/run.py", "target/release/examples/archive_events")]
    steps += [python("questions", "compat/questions/run.py")]
    return after_build("compat", steps)


def torture():
    """Short runs of the crash and overload tests. `long` has their long runs, which also judge latencies."""
    steps = [
        python("unit tests of torture", "-m", "unittest", "discover", "-s", "torture", "-p", "test_*.py"),
        python("unit tests of bench", "-m", "unittest", "discover", "-s", "bench"),
        script("torture/kill.py", "--cycles", 20, "--seconds-max", 1.0, "--seed", GATE_SEED, is_retried=False),
        script("torture/watch.py", "--subscribers", 500, "--seconds", 5),
        script("torture/slow.py", "--connections", 1000),
        script("torture/queries.py", "--events", 100_000),
        script("torture/fill.py", "--cycles", 1, "--seed", GATE_SEED, is_retried=False),
        script("torture/loss.py", "--packets", 4000),
        script("torture/fault_injection.py", "--seed", GATE_SEED, is_retried=False),
    ]
    return after_build("torture", steps)


def script(path, *arguments, **options):
    return python(path, path, "--binary", BINARY, *arguments, **options)


def after_build(name, steps):
    """A stage that tests the built program."""
    return Stage(name, steps, needs=("deps", "build"))


def gate(root):
    """What `make test` runs, in order."""
    doctests = Doctests("examples in documentation", ["cargo", "test", "--release", *CARGO, "--doc"])
    return [
        deps(root),
        lint(),
        build(),
        after_build("rust", [Nextest("tests", NEXTEST, "target/nextest/default/junit.xml"), doctests]),
        after_build("sql", [python("answers", "compat/sql/run.py")]),
        web(),
        sdk(),
        compat(),
        after_build("websocket", [python("Autobahn", "compat/autobahn/run.py", ECHO)]),
        after_build("packages", [python("packages", "packaging/test.py", "--binary", BINARY)]),
        after_build("s3", [python("backups", "compat/s3/run.py", BINARY)]),
        torture(),
    ]


def long():
    """What `make torture` runs: hours, with random seeds, which are printed. Nothing is retried, and latencies are judged."""
    timeout = {"timeout_s": 48 * 3600}
    once = timeout | {"is_retried": False}
    seed = random.SystemRandom().randrange(10**9)
    ignored = [*NEXTEST, "--profile", "long", "--run-ignored", "only", "--no-capture"]
    schemathesis = "test_clients.Clients.test_schemathesis_finds_nothing"
    examples = {"SCHEMATHESIS_SEED": str(seed), "SCHEMATHESIS_EXAMPLES": "100"}
    seeded = timeout | {"environment": {"PROPTEST_RNG_SEED": str(seed)}}
    steps = [
        Nextest(f"tests, PROPTEST_RNG_SEED={seed}", ignored, "target/nextest/long/junit.xml", **seeded),
        script("torture/kill.py", "--cycles", 1000, **once),
        script("torture/watch.py", "--subscribers", 10_000, "--seconds", 60, **once),
        script("torture/slow.py", "--connections", 10_000, "--seconds", 10, "--ratio-max", 2.0, **once),
        script("torture/queries.py", "--events", 720_000, "--ratio-max", 2.0, "--memory-mib-max", 2048, **once),
        script("torture/fill.py", "--cycles", 10, **once),
        script("torture/loss.py", "--packets", 100_000, **once),
        script("torture/fault_injection.py", **once),
        python("schemathesis", "compat/python/run.py", "-v", schemathesis, environment=examples, **once),
    ]
    return after_build("long", steps)
