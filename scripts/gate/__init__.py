"""The checks that must pass before a change is merged, in stages; `scripts/check` runs them.

`stages.py` lists them, `steps.py` runs one, `runner.py` runs the stages, `summary.py` writes the last lines.
"""
