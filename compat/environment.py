"""Python environments with pinned packages, one for each folder that has a requirements.txt: python3 compat/environment.py

Installs into target/compat what is not installed yet. A test calls `install` with the name of its folder, which downloads
nothing after that.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = ROOT / "target" / "compat"
# The file that is written last: without it an interrupted installation starts again from an empty folder.
MARKER = ".version"
# The Autobahn suite was never ported to Python 3.
PYTHON_2 = {"autobahn"}


def install(name):
    """Installs the packages of compat/`name` unless they are installed. Returns the Python that has them.

    Python 2 has no `venv`: it finds its packages if `packages(name)` is in its path.
    """
    requirements, folder = HERE / name / "requirements.txt", packages(name)
    if name not in PYTHON_2:
        return install_venv(requirements, folder)
    python = python27()
    if not is_installed(requirements, folder):
        start_empty(requirements, folder)
        run_pip(python, requirements, folder, "--no-deps", "--target", folder)
    return python


def packages(name):
    """Returns the folder with the packages of compat/`name`."""
    return TARGET / name


def install_venv(requirements, folder):
    """Installs a virtual environment in the folder unless it is installed. Returns its Python."""
    python = folder / "bin" / "python"
    if not is_installed(requirements, folder):
        start_empty(requirements, folder)
        venv.create(folder, with_pip=True)
        run_pip(python, requirements, folder)
    return python


def is_installed(requirements, folder):
    marker = folder / MARKER
    return marker.exists() and marker.read_text() == version(requirements)


def start_empty(requirements, folder):
    """Deletes what an earlier or interrupted installation left."""
    print(f"installing {requirements.relative_to(ROOT)} into {folder.relative_to(ROOT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)


def version(requirements):
    return hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()


def run_pip(python, requirements, folder, *options):
    """Installs the packages and then marks the folder as complete."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    # As root, pip warns that it may change the system. Here it installs into the folder only.
    environment = os.environ | {"PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run([*map(str, [*command, *options, "-r", requirements])], env=environment)
    if done.returncode:
        sys.exit(f"FAILED installing {requirements.relative_to(ROOT)}: pip exited with {done.returncode}")
    (folder / MARKER).write_text(version(requirements))


def python27():
    """Returns the path of a Python 2.7 with pip."""
    candidates = []
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True).stdout.strip()
        candidates += sorted(map(str, pathlib.Path(root).glob("versions/2.7*/bin/python2.7")), reverse=True)
    candidates.append(shutil.which("python2.7"))
    for path in filter(None, candidates):
        if subprocess.run([path, "-c", "import pip"], capture_output=True).returncode == 0:
            return path
    return sys.exit("FAILED the Autobahn suite needs Python 2.7 with pip; `pyenv install 2.7.18` installs it")


def main():
    for requirements in sorted(HERE.glob("*/requirements.txt")):
        install(requirements.parent.name)


if __name__ == "__main__":
    main()
