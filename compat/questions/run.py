"""Compares the answers to questions over raw events with those of DuckDB: run.py [EVENTS] [--omit]

Generates events (2,000,000 unless given), sends them to a server, and asks each kind of question. DuckDB reads the events
as they were generated, not the server's files, and answers in SQL. DuckDB is installed by `compat/archive`.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import install


if __name__ == "__main__":
    python = install("archive")
    sys.exit(subprocess.run([python, HERE / "answers.py", *sys.argv[1:]]).returncode)
