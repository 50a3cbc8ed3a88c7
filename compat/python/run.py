"""Runs published Python clients against a server: run.py [unittest arguments ...]

The clients are installed into target/python-clients with the versions and hashes of requirements.txt. `PLAYMETER_BINARY`
sets the server binary (default `target/release/playmeter`).
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "python-clients"


def install():
    """Returns the Python of an environment with the clients; installs them unless these versions are installed."""
    requirements = HERE / "requirements.txt"
    version = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    marker, python = TARGET / ".version", TARGET / "bin" / "python"
    if not marker.exists() or marker.read_text() != version:
        shutil.rmtree(TARGET, ignore_errors=True)
        venv.create(TARGET, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*command, "-r", str(requirements)], check=True)
        marker.write_text(version)
    return python


if __name__ == "__main__":
    command = [install(), "-m", "unittest", *(sys.argv[1:] or ["-v", "test_clients"])]
    sys.exit(subprocess.run(command, cwd=HERE).returncode)
