"""Tests of the runner, with injected failures: python3 -m unittest discover -s scripts

Each kind of check is run for real, on a small project in a temporary folder. Needs what `make test-deps` installs.
"""

import io
import os
import re
import sys
import tempfile
import time
import unittest
from dataclasses import replace
from pathlib import Path

from gate import stages
from gate.machine import Machine
from gate.outcome import Outcome
from gate.runner import FLAKY_MAX, Stage, run, select
from gate.shell import Shell
from gate.steps import Check, Command, Doctests, Nextest, NodeTests, Script, Vitest, read_counts, read_junit, run_units
from gate.summary import list_names, summarize

ROOT = Path(__file__).resolve().parent.parent
GATE = stages.gate(ROOT)
LINES_MAX = 40

# Passes if the file `passes` exists, and creates it: it fails once. With `fails` beside it, it always fails.
FAILS_ONCE_JS = """
import fs from 'node:fs'
export function check(folder) {
  const passes = fs.existsSync(`${folder}/passes`) && !fs.existsSync(`${folder}/fails`)
  fs.writeFileSync(`${folder}/passes`, '')
  if (!passes) throw new Error('injected')
}
"""
UNITTEST = """
import pathlib, unittest
class Injected(unittest.TestCase):
    def test_passes(self): pass
    @unittest.skip("injected")
    def test_skipped(self): pass
    def test_injected(self):
        folder = pathlib.Path(__file__).parent
        passes = (folder / "passes").exists() and not (folder / "fails").exists()
        (folder / "passes").touch()
        self.assertTrue(passes)
unittest.main()
"""
RUST = """
//! ```
//! assert!(injected::holds());
//! ```

/// Returns true the second time, unless a file forbids it.
pub fn holds() -> bool {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let passes = folder.join("passes").exists() && !folder.join("fails").exists();
    std::fs::write(folder.join("passes"), "").unwrap();
    passes
}

#[test]
fn injected() {
    assert!(holds());
}

#[test]
fn passes() {}

#[test]
#[ignore = "injected"]
fn skipped() {}
"""


class Project:
    """A small project with a check of every kind, each of which fails once, or always."""

    def __init__(self, folder, always):
        self.folder, self.always = Path(folder), always
        (self.folder / "target").mkdir()

    def _write(self, name, files):
        for path, text in files.items():
            (self.folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name / path).write_text(text)
        if self.always:
            (self.folder / name / "fails").touch()
        return name

    def inject(self, step):
        """Returns a step of this kind that fails."""
        return getattr(self, f"inject_{type(step).__name__.lower()}")(step)

    def inject_check(self, step):
        return Check(step.name, lambda: "injected")

    def inject_command(self, step):
        return replace(step, argv=["sh", "-c", "echo injected; exit 3"], cwd=".", pause_s=0)

    def inject_script(self, step):
        folder = self._write(f"script-{step.name}", {"injected.py": UNITTEST})
        return replace(step, argv=[sys.executable, f"{folder}/injected.py"], cwd=".", environment={})

    def inject_nodetests(self, step):
        test = "import { test } from 'node:test'\nimport { check } from './once.mjs'\n"
        test += "test('injected', () => check(import.meta.dirname))\ntest('skipped', { skip: true }, () => {})\n"
        files = {"a.test.mjs": test, "b.test.mjs": "import { test } from 'node:test'\ntest('passes', () => {})\n"}
        return replace(step, folder=self._write(f"node-{step.name}", files | {"once.mjs": FAILS_ONCE_JS}), server=None)

    def inject_vitest(self, step):
        test = "import { test } from 'vitest'\nimport { check } from './once.mjs'\n"
        test += "test('injected', () => check(import.meta.dirname))\ntest.skip('skipped', () => {})\n"
        files = {"a.test.ts": test, "b.test.ts": "import { test } from 'vitest'\ntest('passes', () => {})\n"}
        folder = self._write(f"vitest-{step.name}", files | {"once.mjs": FAILS_ONCE_JS, "package.json": "{}"})
        os.symlink(ROOT / "web/node_modules", self.folder / folder / "node_modules")
        return replace(step, folder=folder)

    def _crate(self, name):
        manifest = '[package]\nname = "injected"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n'
        toolchain = (ROOT / "rust-toolchain.toml").read_text()
        return self._write(name, {"Cargo.toml": manifest, "src/lib.rs": RUST, "rust-toolchain.toml": toolchain})

    def inject_nextest(self, step):
        folder = self._crate(f"nextest-{step.name}")
        # The settings of the repository, without those of single tests, which this project does not have.
        settings = re.split(r"(?m)^# Tests that compare", (ROOT / ".config/nextest.toml").read_text())[0]
        self._write(folder, {".config/nextest.toml": settings})
        return replace(step, argv=[ROOT / stages.NEXTEST[0], "nextest", "run", "--offline"], cwd=folder)

    def inject_doctests(self, step):
        folder = self._crate(f"doctests-{step.name}")
        argv = ["cargo", "test", "--offline", "--doc", "--manifest-path", f"{folder}/Cargo.toml"]
        return replace(step, argv=argv)


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="playmeter-check-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def project(self, always):
        path = self.folder / f"project-{len(list(self.folder.iterdir()))}"
        path.mkdir()
        return Project(path, always)

    def run_stages(self, folder, injected):
        """Returns the exit code and the last lines."""
        out = io.StringIO()
        code = run(folder, injected, {"CARGO_TARGET_DIR": str(self.folder / "target")}, out)
        return code, out.getvalue().splitlines()[-LINES_MAX:]

    def stage(self, *steps, name="stage", **options):
        return Stage(name, list(steps), **options)

    def test_one_injected_failure_of_each_stage_is_named_in_the_last_lines(self):
        for stage in GATE:
            with self.subTest(stage=stage.name):
                project = self.project(always=True)
                # The last step, and those before it pass.
                passing = [Command(step.name, ["true"]) for step in stage.steps[:-1]]
                injected = project.inject(stage.steps[-1])
                code, lines = self.run_stages(project.folder, [replace(stage, steps=[*passing, injected])])
                self.assertEqual(code, 1)
                self.assertIn("Failed:", lines)
                named = rf"^  {stage.name}: .*(injected|src/lib\.rs|{re.escape(injected.name)})"
                self.assertTrue(any(re.match(named, line) for line in lines), lines)
                self.assertRegex(lines[-1], r"^\d+ passed, 1 failed, \d+ skipped$")

    def test_each_kind_of_step_names_what_failed(self):
        project = self.project(always=True)
        kinds = {type(step): step for stage in GATE for step in stage.steps}
        self.assertEqual(len(kinds), 7)
        code, lines = self.run_stages(project.folder, [self.stage(*map(project.inject, kinds.values()))])
        self.assertEqual(code, 1)
        text = "\n".join(lines)
        for name in ["test_injected", "a.test.mjs: injected", "a.test.ts: injected", "injected injected", "src/lib.rs"]:
            self.assertIn(name, text)
        self.assertRegex(lines[-1], r"^4 passed, 7 failed, 4 skipped$")

    def test_tests_that_fail_once_are_listed_as_flaky(self):
        project = self.project(always=False)
        kinds = {type(step): step for stage in GATE for step in stage.steps}
        injected = [project.inject(kinds[kind]) for kind in (NodeTests, Vitest, Nextest)]
        injected.append(project.inject(Script("script", [])))
        code, lines = self.run_stages(project.folder, [self.stage(*injected)])
        self.assertEqual(code, 0, lines)
        self.assertIn("Flaky: failed and then passed:", lines)
        for name in ["test_injected", "a.test.mjs: injected", "a.test.ts: injected", "injected injected"]:
            self.assertIn(name, "\n".join(lines))
        # A flaky test is among those that passed.
        self.assertEqual(lines[-1], "8 passed, 0 failed, 4 skipped")

    def test_failure_outside_of_the_tests_is_flaky_if_everything_passes_then(self):
        runs = iter([{"a": Outcome(passed=1), "step": Outcome(failed=["step: crashed"])}, {"a": Outcome(passed=1)}])
        shell = Shell(self.folder, {}, self.folder / "log", io.StringIO())
        self.addCleanup(shell.close)
        expected = Outcome(passed=1, flaky=["step: crashed"], flaky_units=1)
        self.assertEqual(run_units(shell, "step", lambda _: next(runs)), expected)

    def test_comparison_with_stored_data_is_run_once_only(self):
        project = self.project(always=False)
        injected = project.inject(Script("kill.py", [], is_retried=False))
        code, lines = self.run_stages(project.folder, [self.stage(injected)])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        steps = {step.name: step for stage in GATE if stage.name == "torture" for step in stage.steps}
        for name in ["torture/kill.py", "torture/fill.py", "torture/fault_injection.py"]:
            self.assertFalse(steps[name].is_retried, name)
            self.assertEqual(steps[name].argv[-2:], ["--seed", 1], name)

    def test_too_many_flaky_tests_fail_the_run(self):
        for count, code in [(FLAKY_MAX, 0), (FLAKY_MAX + 1, 1)]:
            project = self.project(always=False)
            injected = [project.inject(Script(f"script-{number}", [])) for number in range(count)]
            self.assertEqual(self.run_stages(project.folder, [self.stage(*injected)])[0], code)

    def test_flaky_tests_of_one_script_are_one_of_those_that_may_be_flaky(self):
        fails_once = f"[ -e again ] || seq -f 'FAILED test %g' {FLAKY_MAX + 1}; touch again; echo '  ok  '"
        step = Script("script", ["sh", "-c", fails_once])
        code, lines = self.run_stages(self.folder, [self.stage(step)])
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertIn(f"{FLAKY_MAX + 1} flaky", "\n".join(lines))

    def test_failed_stage_does_not_stop_the_others_unless_they_need_it(self):
        failed, passed = Command("injected", ["false"]), Command("after", ["true"])
        required = self.stage(failed, passed, name="first", is_required=True)
        code, lines = self.run_stages(self.folder, [required, self.stage(passed, name="second")])
        self.assertEqual(code, 1)
        self.assertIn("not run    second", lines)
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")
        optional = self.stage(failed, passed, name="first")
        code, lines = self.run_stages(self.folder, [optional, self.stage(passed, name="second")])
        self.assertEqual((code, lines[-1]), (1, "2 passed, 1 failed, 0 skipped"))
        names = [stage.name for stage in GATE if stage.is_required]
        self.assertEqual(names, ["deps", "build"])

    def test_download_is_tried_three_times(self):
        count = 'echo x >>count; [ "$(wc -l <count)" -eq 3 ]'
        step = Command("download", ["sh", "-c", count], tries=3, pause_s=0)
        self.assertEqual(self.run_stages(self.folder, [self.stage(step)])[0], 0)
        deps = next(stage for stage in GATE if stage.name == "deps")
        self.assertEqual({step.tries for step in deps.steps if isinstance(step, Command)}, {3})

    def test_error_of_the_runner_fails_its_step_only(self):
        broken = Check("broken", lambda: 1 / 0)
        code, lines = self.run_stages(self.folder, [self.stage(broken, Command("after", ["true"]))])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertTrue(any("broken: ZeroDivisionError" in line for line in lines), lines)

    def node_files(self, folder, **files):
        (self.folder / folder).mkdir()
        for name, text in files.items():
            (self.folder / folder / f"{name}.test.mjs").write_text(text)
        return NodeTests(folder, folder)

    def test_failed_hook_of_a_suite_fails_its_file(self):
        hook = "import { describe, it, after } from 'node:test'\n"
        hook += "describe('suite', () => { after(() => { throw new Error('injected') }); it('passes', () => {}) })\n"
        step = self.node_files("hooks", a=hook, b="import { test } from 'node:test'\ntest('passes', () => {})\n")
        code, lines = self.run_stages(self.folder, [self.stage(step)])
        self.assertEqual((code, lines[-1]), (1, "2 passed, 1 failed, 0 skipped"))
        self.assertIn("  stage: hooks/a.test.mjs: suite", lines)

    def test_file_that_exits_before_its_tests_fails(self):
        step = self.node_files("exits", a="process.exit(0)\n", b="import 'node:test'\n")
        code, lines = self.run_stages(self.folder, [self.stage(step)])
        self.assertEqual((code, lines[-1]), (1, "0 passed, 2 failed, 0 skipped"))
        self.assertIn("  stage: exits/a.test.mjs: no test was run", lines)

    def test_file_without_tests_and_program_that_is_missing_fail(self):
        step = self.node_files("empty", a="throw new Error('injected')\n")
        (self.folder / "none.py").write_text("import unittest\nunittest.main()\n")
        steps = [step, NodeTests("nothing", "missing"), Script("missing", ["no-such-program"])]
        steps.append(Script("none", [sys.executable, "none.py"]))
        code, lines = self.run_stages(self.folder, [self.stage(*steps)])
        self.assertEqual((code, lines[-1]), (1, "0 passed, 4 failed, 0 skipped"))

    def test_every_name_is_in_the_last_lines_however_many_there_are(self):
        names = [f"test {number}" for number in range(300)]
        lines = list_names("Failed", names)
        self.assertLessEqual(len(lines), 11)
        for name in names:
            self.assertTrue(any(name in line.strip().split("; ") for line in lines), name)
        outcome = Outcome(failed=names, flaky=names)
        machine = Machine(self.folder, self.folder)
        summary = summarize([(stage.name, 1, outcome) for stage in GATE], ["long"], outcome, machine)
        # An empty line is before them.
        self.assertLess(len(summary), LINES_MAX)
        self.assertRegex(summary[-3], r"^rustc 1\..*, node v\d+.*, Chromium \d+")
        state = r"^\d+ CPUs, load .*, CPU pressure (\d+ % of the run|unknown), .* GB of disk free, fsync p99 at the start .* ms$"
        self.assertRegex(summary[-2], state)

    def test_processes_that_a_step_leaves_are_ended(self):
        shell = Shell(self.folder, {}, self.folder / "log", io.StringIO())
        self.addCleanup(shell.close)
        finished = shell.run(["sh", "-c", "sleep 1000 & echo $!"])
        self.assertEqual(finished.code, 0)
        self.wait_until_ended(int(finished.lines[0]))

    def test_step_that_hangs_is_ended(self):
        shell = Shell(self.folder, {}, self.folder / "log", io.StringIO())
        self.addCleanup(shell.close)
        finished = shell.run(["sh", "-c", "echo $$; sleep 1000"], timeout_s=0.5)
        self.assertIsNone(finished.code)
        self.assertEqual(finished.lines[-1], "ended after 0.5 s")
        self.wait_until_ended(int(finished.lines[0]))

    def test_step_that_hangs_may_end_what_it_has_started(self):
        shell = Shell(self.folder, {}, self.folder / "log", io.StringIO())
        self.addCleanup(shell.close)
        # Like the tests of nextest, in a group of its own.
        script = "setsid sleep 1000 & child=$!; trap 'kill $child; exit' TERM; echo $child; wait"
        finished = shell.run(["sh", "-c", script], timeout_s=0.5)
        self.assertIsNone(finished.code)
        self.wait_until_ended(int(finished.lines[0]))

    def wait_until_ended(self, process):
        deadline_s = time.monotonic() + 180
        while Path(f"/proc/{process}").exists() and " Z " not in Path(f"/proc/{process}/stat").read_text():
            self.assertLess(time.monotonic(), deadline_s)
            time.sleep(0.01)

    def test_stages_are_selected_with_what_they_need(self):
        names = [stage.name for stage in select(GATE, ["sql"])]
        self.assertEqual(names, ["deps", "build", "sql"])
        with self.assertRaisesRegex(ValueError, "no stage nope; the stages are deps, lint, build, rust"):
            select(GATE, ["nope"])
        every = "deps lint build rust sql web sdk compat websocket packages s3 torture"
        self.assertEqual(" ".join(stage.name for stage in GATE), every)


class ReadCountsTest(unittest.TestCase):
    def check(self, text, passed, failed, skipped):
        self.assertEqual(read_counts(text.splitlines()), Outcome(passed, skipped, failed))

    def test_unittest(self):
        self.check("Ran 3 tests in 0.1s\n\nOK", 3, [], 0)
        self.check("Ran 3 tests in 0.1s\n\nOK (skipped=1)", 2, [], 1)
        failed = "FAIL: test_a (m.T.test_a)\nERROR: test_b (m.T.test_b)\nRan 4 tests in 1s\n\nFAILED (failures=1, errors=1, skipped=1)"
        self.check(failed, 1, ["test_a (m.T.test_a)", "test_b (m.T.test_b)"], 1)
        subtests = "ERROR: test_a (m.T.test_a) [1]\nERROR: test_a (m.T.test_a) (x=2)\nERROR: tearDownClass (m.T)\n"
        failed = f"{subtests}Ran 2 tests in 1s\n\nFAILED (errors=3)"
        self.check(failed, 1, ["test_a (m.T.test_a) [1] and 1 more", "tearDownClass (m.T)"], 0)

    def test_junit(self):
        cases = '<testcase name="a"><flakyFailure/></testcase><testcase name="b"/><testcase name="c"><failure/></testcase>'
        text = f'<testsuites><testsuite name="s">{cases}</testsuite></testsuites>'
        self.assertEqual(read_junit(text), Outcome(passed=2, failed=["s c"], flaky=["s a"], flaky_units=1))

    def test_scripts(self):
        self.check("  ok    a\n  FAIL  b: 2 problems\n5 passed, 1 failed (--seed 1)", 5, ["b: 2 problems"], 0)
        self.check("FAILED no query succeeded\n0 passed, 1 failed", 0, ["no query succeeded"], 0)
        self.check("  ok    one\n  ok    two", 2, [], 0)
        self.check("SKIPPED: mounting is not permitted", 0, [], 1)
        self.check("3 passed, 2 failed", 3, ["2 checks"], 0)


if __name__ == "__main__":
    unittest.main()
