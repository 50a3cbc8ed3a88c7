"""Reads files of the archive with other programs: run.py ARCHIVE_EVENTS

Generates events, archives them with the example ARCHIVE_EVENTS of the crate `archive`, and reads every column with
DuckDB, pyarrow, pandas and chDB. The readers are installed into target/archive-readers with the versions and hashes of
requirements.txt.
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "archive-readers"


def install():
    """Returns the Python of an environment with the readers; installs them unless these versions are installed."""
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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    example = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(subprocess.run([install(), HERE / "readers.py", example]).returncode)
