#!/usr/bin/env python3
"""Builds the container image and runs `docs/howto/container.md`: python3 packaging/image.py --context FOLDER --root FOLDER

The context is the one that `scripts/release` writes, the root folder holds a Debian 12 and is the base image, so that no
registry is needed. buildah builds the image from `packaging/Dockerfile` and runs the command of the image as its user. The
commands of the page are run: an event is accepted, is still counted in a new container on the same volume, and SIGTERM
ends the server with exit code 0. All of it runs in a network namespace with a loopback interface only. Needs root.
`packaging/test.py` calls it.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from roots import REPOSITORY, check, run, skip

URL = "http://127.0.0.1:8080"
# Only what is broken takes so long: a loaded machine is slow.
TIMEOUT_S = 180
USER = 10001


def commands():
    """Returns the commands of the page, each as a list of words."""
    page = (REPOSITORY / "docs/howto/container.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def find(all_commands, *words):
    """Returns the only command that contains these words."""
    found = [command for command in all_commands if all(word in command for word in words)]
    check(len(found) == 1, f"the page has the command {' '.join(words)}")
    return found[0]


class Images:
    """Images and containers in a folder."""

    def __init__(self, work):
        self.options = ["--root", work / "images", "--runroot", work / "run", "--storage-driver", "vfs"]

    def __call__(self, *arguments):
        return run("buildah", *self.options, *arguments, cwd=REPOSITORY).strip()

    def import_base(self, root, name):
        container = self("from", "scratch")
        self("add", "--quiet", container, root, "/")
        self("commit", "--quiet", container, name)
        self("rm", container)


class Container:
    """A container of the image, whose volumes are folders."""

    def __init__(self, images, image, arguments, volumes, log):
        self.images, self.log = images, log
        self.name = images("from", "--pull-never", image)
        self.options = ["--isolation", "chroot"]
        for volume, folder in volumes.items():
            self.options += ["-v", f"{folder}:{volume}"]
        for index, argument in enumerate(arguments):
            if argument == "-e":
                self.options += ["-e", arguments[index + 1]]
        config = json.loads(images("inspect", "--type", "image", image))["OCIv1"]["config"]
        self.command = config["Entrypoint"] + config["Cmd"]

    def start(self):
        command = ["buildah", *self.images.options, "run", *self.options, self.name, "--", *self.command]
        with self.log.open("a") as log:
            self.process = subprocess.Popen([*map(str, command)], stdout=log, stderr=log)
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s and self.process.poll() is None:
            try:
                return urllib.request.urlopen(f"{URL}/healthz", timeout=5).read()
            except OSError:
                time.sleep(0.1)
        sys.exit(f"FAILED the container does not answer\n{self.log.read_text()}")

    def run(self, *command):
        return self.images("run", *self.options, self.name, "--", *command)

    def server(self):
        """Returns the process of the server, which is a descendant of buildah."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text()
            except OSError:
                continue
            process, rest = int(fields.split()[0]), fields.rpartition(")")[2].split()
            parents[process] = (int(rest[1]), fields.split("(", 1)[1].rpartition(")")[0])
        for process, (parent, name) in parents.items():
            while name == "playmeter" and parent in parents:
                if parent == self.process.pid:
                    return process
                parent = parents[parent][0]
        return sys.exit("FAILED the process of the server is not found")

    def stop(self):
        """Stops the server as `docker stop` does, and returns the exit code."""
        os.kill(self.server(), signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)

    def remove(self):
        if self.process.poll() is None:
            os.kill(self.server(), signal.SIGKILL)
            self.process.wait(TIMEOUT_S)
        self.images("rm", self.name)


def request(bootstrap, method, path, body=None):
    headers = {"Authorization": f"Bearer {bootstrap['secret_key']}", "Content-Type": "application/json"}
    sent = urllib.request.Request(URL + path, data=body, method=method, headers=headers)
    with urllib.request.urlopen(sent, timeout=TIMEOUT_S) as response:
        return json.loads(response.read())


def total(bootstrap):
    return request(bootstrap, "GET", "/v1/query?metric=contained&step=all")["series"][0]["total"]


def check_image(context, root, work):
    page, images = commands(), Images(work)
    images.import_base(root, "docker.io/library/debian:12-slim")
    build = [str(context) if word == "target/dist/image" else word for word in find(page, "docker", "build")[2:]]
    images("bud", "--isolation", "chroot", "--pull-never", *build)
    check(True, "the image is built from the Dockerfile")
    arguments = find(page, "run", "127.0.0.1:8080:8080")
    data, backups = work / "data", work / "backups"
    for folder in (data, backups):
        folder.mkdir()
        os.chown(folder, USER, USER)
    volumes = {"/var/lib/playmeter": data, "/backups": backups}
    first = Container(images, arguments[-1], arguments, volumes, work / "first.log")
    try:
        first.start()
        user = Path(f"/proc/{first.server()}").stat().st_uid
        check(user == USER, f"the command of the image runs as the user {USER}")
        bootstrap = json.loads((data / "bootstrap.json").read_text())
        link = bootstrap["sign_in_url"]
        check(link.startswith("http://localhost:8080/"), "links begin with the URL in the environment")
        receipt = request(bootstrap, "POST", "/v1/events", b'{"event":"contained"}')
        check(receipt["accepted"] == 1, "an event is accepted")
        for words in (("sign-in",), ("verify",), ("backup",)):
            shown = first.run(*find(page, "exec", *words)[3:])
            check(shown, f"the command {words[0]} of the page succeeds")
        check(any(backups.iterdir()), "the backup is in the mounted folder")
        check(find(page, "docker", "stop") and first.stop() == 0, "the server stops on SIGTERM with exit code 0")
    finally:
        first.remove()
    second = Container(images, arguments[-1], arguments, volumes, work / "second.log")
    try:
        second.start()
        check(total(bootstrap) == 1, "the event is counted in a new container on the same volume")
        check(second.stop() == 0, "it stops")
    finally:
        second.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", required=True, type=Path)
    parser.add_argument("--root", required=True, type=Path, help="folder with an installed Debian; it is not changed")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not shutil.which("buildah"):
        skip("buildah is not installed; `make test-deps` installs it")
    if not args.inside:
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv, "--inside"])
    run("ip", "link", "set", "lo", "up")
    work = Path(tempfile.mkdtemp(prefix="playmeter-image-"))
    try:
        check_image(args.context.resolve(), args.root.resolve(), work)
    finally:
        # buildah mounts devices in a namespace of its own; nothing is deleted if one of them were visible here.
        if str(work) in Path("/proc/mounts").read_text():
            sys.exit(f"FAILED something is still mounted below {work}")
        shutil.rmtree(work)
    print("the image was built and run")


if __name__ == "__main__":
    main()
