"""Runs published Python clients against a server: run.py [unittest arguments ...]

The clients are installed into target/compat/python with the versions and hashes of requirements.txt. `PLAYMETER_BINARY`
sets the server binary (default `target/release/playmeter`).
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import install


if __name__ == "__main__":
    command = [install("python"), "-m", "unittest", *(sys.argv[1:] or ["-v", "test_clients"])]
    sys.exit(subprocess.run(command, cwd=HERE).returncode)
