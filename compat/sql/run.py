"""Compares the worker's answers with those of DuckDB for Python: run.py [unittest arguments ...]

DuckDB and pyarrow are installed into target/compat/sql with the versions and hashes of `requirements.txt`.
`PLAYMETER_SQL` sets the worker (default `target/release/playmeter-sql`).
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import install


if __name__ == "__main__":
    command = [install("sql"), "-m", "unittest", *(sys.argv[1:] or ["-v", "test_answers"])]
    sys.exit(subprocess.run(command, cwd=HERE).returncode)
