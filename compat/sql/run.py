"""Compares the worker's answers with those of DuckDB for Python: run.py [unittest arguments ...]

DuckDB and pyarrow are installed into target/python-sql with the versions and hashes of `requirements.txt`.
`PLAYMETER_SQL` sets the worker (default `target/release/playmeter-sql`).
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "python-sql"


def install():
    """Returns the Python of an environment with the libraries; installs them unless these versions are installed."""
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
    command = [install(), "-m", "unittest", *(sys.argv[1:] or ["-v", "test_answers"])]
    sys.exit(subprocess.run(command, cwd=HERE).returncode)
