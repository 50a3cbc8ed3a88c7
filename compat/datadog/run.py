"""Runs Datadog's Python client against a collector on a Unix socket: run.py BINARY

The client is installed into target/compat/datadog with the versions and hashes of requirements.txt.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import install


if __name__ == "__main__":
    sys.exit(subprocess.run([install("datadog"), HERE / "metrics.py", *sys.argv[1:]]).returncode)
