"""Reads files of the archive with other programs: run.py ARCHIVE_EVENTS

Generates events, archives them with the example ARCHIVE_EVENTS of the crate `archive`, and reads every column with
DuckDB, pyarrow, pandas and chDB. The readers are installed into target/compat/archive with the versions and hashes of
requirements.txt.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import install


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    example = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(subprocess.run([install("archive"), HERE / "readers.py", example]).returncode)
