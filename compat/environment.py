"""Python environments with pinned packages."""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import venv

TARGET = pathlib.Path(__file__).resolve().parent.parent / "target"


def install(here, name):
    """Returns the Python of target/`name` with the packages of `here`/requirements.txt; installs them unless it has them."""
    requirements, folder = here / "requirements.txt", TARGET / name
    version = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    marker, python = folder / ".version", folder / "bin" / "python"
    if not marker.exists() or marker.read_text() != version:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*command, "-r", str(requirements)], check=True)
        marker.write_text(version)
    return python
