#!/usr/bin/env python3
"""Puts a server on the internet, loses it and restores it: python3 packaging/acceptance.py --package FILE.deb --root FOLDER

The folder holds a new Debian 12. The package is installed there and configured as `docs/howto/tls.md` says, with Pebble as
the certificate authority, and the unit's command runs as its own user on ports 443 and 80. Chromium trusts the authority,
signs in over HTTPS, sends events with the JavaScript client that the server serves, and sees them on the dashboard. Then a
backup is taken, the data folder is deleted and restored: the counts are equal, and signing in works.

All of it runs in a network namespace that has a loopback interface only. Needs root. `packaging/test.py` calls it.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from roots import REPOSITORY, Root, check, run, running, skip

NAME = "stats.example"
DATA = "/var/lib/playmeter"
BACKUPS = "/var/backups/playmeter"
DIRECTORY_PORT, MANAGEMENT_PORT, DNS_PORT, RESOLVER_PORT = 14000, 15000, 8053, 8055
# Only what is broken takes so long: a loaded machine is slow.
TIMEOUT_S = 180
# Each browser sends it three times, with the values 1, 2 and 3.
EVENT = "accepted_word"

# The block "With certificates from Let's Encrypt" of the guide, with the settings that name another authority.
ACME_SETTINGS = re.compile(r"With certificates from.*?```toml\n(.*?)```", re.DOTALL)
AUTHORITY = f'directory_url = "https://127.0.0.1:{DIRECTORY_PORT}/dir"\nca_file = "/etc/playmeter/authority.pem"\n'


def wait_until(description, holds):
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        result = holds()
        if result:
            return result
        time.sleep(0.1)
    sys.exit(f"FAILED {description}: not within {TIMEOUT_S} s")


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def go_program(name):
    """Returns the path of a program that `make test-deps` builds, or `None`."""
    built = Path.home() / "go/bin" / name
    return str(built) if built.exists() else shutil.which(name)


class Authority:
    """Pebble and its DNS server, which resolves every name to this machine."""

    def __init__(self, work):
        self.work = work
        self.certificate, key = work / "authority.pem", work / "authority.key"
        subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        subject += ["-addext", "basicConstraints=critical,CA:FALSE"]
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        run("openssl", "req", "-x509", *kind, "-keyout", key, "-out", self.certificate, *subject)
        settings = {
            "listenAddress": f"127.0.0.1:{DIRECTORY_PORT}",
            "managementListenAddress": f"127.0.0.1:{MANAGEMENT_PORT}",
            "certificate": str(self.certificate),
            "privateKey": str(key),
            "httpPort": 80,
            "tlsPort": 443,
            "profiles": {"default": {"description": "a test", "validityPeriod": 7_776_000}},
        }
        (work / "pebble.json").write_text(json.dumps({"pebble": settings}))
        self.processes = []

    def __enter__(self):
        off = [argument for name in ("http01", "https01", "tlsalpn01", "doh") for argument in (f"-{name}", "")]
        addresses = ["-dnsserver", f"127.0.0.1:{DNS_PORT}", "-management", f"127.0.0.1:{RESOLVER_PORT}"]
        self.start("pebble-challtestsrv", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", *addresses, *off)
        self.start("pebble", "-config", self.work / "pebble.json", "-dnsserver", f"127.0.0.1:{DNS_PORT}")
        wait_until("the authority listens", lambda: is_listening(DIRECTORY_PORT) and is_listening(MANAGEMENT_PORT))
        return self

    def start(self, name, *arguments):
        # By default Pebble rejects 5 % of the valid nonces, to test that clients repeat such a request. The server does not
        # do that yet: one rejected nonce fails its whole attempt, so this test would fail now and then.
        environment = os.environ | {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}
        log = (self.work / f"{name}.log").open("w")
        command = [go_program(name), *map(str, arguments)]
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def root_certificate(self):
        """Returns the file with the root certificate, which is new at each start."""
        context = ssl.create_default_context(cafile=self.certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", MANAGEMENT_PORT, context=context)
        connection.request("GET", "/roots/0")
        file = self.work / "root.pem"
        file.write_bytes(connection.getresponse().read())
        return file

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class Server:
    """The service, run as its unit says."""

    def __init__(self, root):
        unit = (root.path / "lib/systemd/system/playmeter.service").read_text()
        self.root, self.command = root, re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
        capabilities = re.search(r"^AmbientCapabilities=CAP_(.*)$", unit, re.MULTILINE).group(1).lower()
        self.user = [
            "setpriv",
            "--reuid=playmeter",
            "--regid=playmeter",
            "--init-groups",
            "--no-new-privs",
            f"--inh-caps=-all,+{capabilities}",
            f"--ambient-caps=-all,+{capabilities}",
            f"--bounding-set=-all,+{capabilities}",
        ]
        self.log = root.path.parent / "server.log"

    def start(self):
        command = ["chroot", self.root.path, *self.user, "--", *self.command]
        with self.log.open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, cwd="/")
        wait_until("the server listens", lambda: is_listening(443) or process.poll() is not None)
        if process.poll() is not None:
            sys.exit(f"FAILED the server ended\n{self.log.read_text()}")
        return process


class Client:
    """Requests over HTTPS that trust one root certificate."""

    def __init__(self, root_certificate):
        self.context = ssl.create_default_context(cafile=root_certificate)

    def connect(self):
        stream = socket.create_connection(("127.0.0.1", 443), timeout=TIMEOUT_S)
        return self.context.wrap_socket(stream, server_hostname=NAME)

    def certificate(self):
        """Returns the certificate of the server; `None` if there is no valid one."""
        try:
            with self.connect() as stream:
                return stream.getpeercert(binary_form=True)
        except OSError:
            return None

    def get(self, path, key):
        connection = http.client.HTTPConnection(NAME)
        connection.sock = self.connect()
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def counts(client, bootstrap):
    """Returns the figures of the events that the browsers send."""
    figures = {}
    for measure in ("count", "sum", "max"):
        path = f"/v1/query?metric={EVENT}&step=all&measure={measure}"
        _, result = client.get(path, bootstrap["secret_key"])
        figures[measure] = result["series"][0]["total"]
    return figures


def browse(work, home, action, **arguments):
    """Runs one action of `acceptance.mjs` in Chromium, whose trusted certificates are in the home folder."""
    environment = os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    file = work / f"{action}.json"
    file.write_text(json.dumps(arguments | {"profile": str(home / "profile")}))
    return run("node", REPOSITORY / "packaging/acceptance.mjs", action, file, env=environment)


def trust(home, certificate):
    """Adds a root certificate to those that Chromium trusts."""
    folder = home / ".pki/nssdb"
    folder.mkdir(parents=True)
    run("certutil", "-d", f"sql:{folder}", "-N", "--empty-password")
    run("certutil", "-d", f"sql:{folder}", "-A", "-t", "C,,", "-n", "Pebble", "-i", certificate)


def install(package, root, authority):
    shutil.copy(package, root.path / "tmp/playmeter.deb")
    root.run("dpkg", "--install", "/tmp/playmeter.deb")
    shutil.copy(authority.certificate, root.path / "etc/playmeter/authority.pem")
    guide = (REPOSITORY / "docs/howto/tls.md").read_text()
    settings = ACME_SETTINGS.search(guide).group(1) + AUTHORITY
    (root.path / "etc/playmeter/playmeter.toml").write_text(f'data = "{DATA}"\n{settings}')
    root.run("install", "-d", "-o", "playmeter", "-g", "playmeter", "-m", "0700", BACKUPS)


def new_home(work, name, certificate=None):
    """Returns a new home folder of Chromium, which trusts the certificate."""
    home = work / name
    home.mkdir()
    if certificate:
        trust(home, certificate)
    return home


def use_and_back_up(package, root, work):
    """Installs and uses the server, takes a backup and kills it. Returns what must be the same after the restore."""
    with Authority(work) as authority:
        install(package, root, authority)
        process = Server(root).start()
        with running(process):
            trusted = authority.root_certificate()
            client = Client(trusted)
            certificate = wait_until("a certificate", client.certificate)
            check(certificate, "the authority issued a certificate over TLS-ALPN-01")
            bootstrap = json.loads((root.path / DATA.strip("/") / "bootstrap.json").read_text())
            url, key = bootstrap["url"], bootstrap["public_key"]
            check(url == f"https://{NAME}", "links begin with the public URL")
            browse(work, new_home(work, "stranger"), "refused", url=url)
            check(True, "Chromium refuses the certificate of an authority that it does not trust")
            home = new_home(work, "home", trusted)
            browse(work, home, "use", link=bootstrap["sign_in_url"], url=url, key=key, event=EVENT)
            check(True, "Chromium is redirected to HTTPS, signs in, sends events by the JavaScript client and sees them")
            status, _ = client.get(f"/v1/query?metric={EVENT}", "pm_sk_wrong")
            check(status == 401, "a wrong key is refused")
            before = counts(client, bootstrap)
            check((before["count"], before["sum"]) == (3, 6), f"the counts are those of the browser: {before}")
            made = json.loads(root.run_as_service("playmeter", "backup", "--data", DATA, "--to", BACKUPS, "--json"))
            check(made, "a backup is taken while the server runs")
            process.send_signal(signal.SIGKILL)
            process.wait()
    return trusted, certificate, bootstrap, before


def restore(root):
    """Deletes the data folder and restores the backup."""
    shutil.rmtree(root.path / DATA.strip("/"))
    root.run("install", "-d", "-o", "playmeter", "-g", "playmeter", "-m", "0700", DATA)
    root.run_as_service("playmeter", "restore", "--from", BACKUPS, "--data", DATA)
    report = json.loads(root.run_as_service("playmeter", "verify", "--data", DATA, "--json"))
    check(report["agrees"], "the data is deleted and restored, and verify agrees")


def check_restored(root, work, trusted, certificate, bootstrap, before):
    """Starts the server on the restored folder, without an authority."""
    client, url, key = Client(trusted), bootstrap["url"], bootstrap["public_key"]
    process = Server(root).start()
    with running(process):
        restored = wait_until("the certificate is used", client.certificate)
        check(restored == certificate, "the certificate is in the backup: no authority is needed")
        check(counts(client, bootstrap) == before, "the counts after the restore are those before it")
        browse(work, work / "home", "return", url=url)
        check(True, "the browser is still signed in")
        shown = root.run_as_service("playmeter", "keys", "sign-in", "--data", DATA)
        link = re.search(r"https://\S+", shown).group(0)
        browse(work, new_home(work, "second", trusted), "use", link=link, url=url, key=key, event=EVENT)
        after = counts(client, bootstrap)
        check((after["count"], after["sum"]) == (6, 12), "another browser signs in and its events are added")
        process.send_signal(signal.SIGTERM)
        check(process.wait(TIMEOUT_S) == 0, "the service stops on SIGTERM")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", required=True, type=Path)
    parser.add_argument("--root", required=True, type=Path, help="folder with an installed Debian; it is not changed")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (go_program("pebble") and go_program("pebble-challtestsrv")):
        skip("pebble is not installed; `make test-deps` builds it if Go is installed")
    if not args.inside:
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, "--inside"])
    run("ip", "link", "set", "lo", "up")
    with tempfile.TemporaryDirectory(prefix="playmeter-acceptance-") as folder:
        work = Path(folder)
        try:
            with Root(args.root, work / "root") as root:
                kept = use_and_back_up(args.package, root, work)
                restore(root)
                check_restored(root, work, *kept)
        except SystemExit:
            for log in sorted(work.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-10_000:]}")
            raise
    print("the server was installed, used, lost and restored")


if __name__ == "__main__":
    main()
