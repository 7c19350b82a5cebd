"""Runs the Python tests of safetensors, from its source distribution, with Lodstone in its place.

    python safetensors_tests.py SDIST DIR FRAMEWORK

SDIST is the archive, DIR a directory to run in, FRAMEWORK "torch" or "paddle": the tests that need it are run. The
package `upstream/shim` exposes Lodstone under the names of safetensors. `upstream/exceptions.py` lists the tests that
are expected to fail, with reasons: the run fails if such a test passes or does not exist, or if a module is not listed.

Prints a line for each test and each skipped module, and then `N passed, M failed`.
"""

import os
import pathlib
import sys
import tarfile

import pytest
from upstream.exceptions import EXCEPTIONS, LEFT_OUT, MODULES

HERE = pathlib.Path(__file__).resolve().parent


class Recorder:
    """The outcome of each test by name: a status and a description."""

    def __init__(self):
        self.outcomes = {}

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = ("FAILED", last_line(report.longreprtext))

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.removeprefix("tests/")
        if report.failed:
            self.outcomes[name] = ("FAILED", last_line(report.longreprtext))
        elif hasattr(report, "wasxfail"):
            self.outcomes[name] = ("ok", "fails, as it does with safetensors")
        elif report.skipped:
            self.outcomes[name] = ("skipped", report.longrepr[2].removeprefix("Skipped: "))
        elif report.when == "call":
            self.outcomes[name] = ("ok", "")


def last_line(text):
    lines = [line for line in text.splitlines() if line.startswith("E ")]
    return (lines or text.splitlines() or [""])[-1].removeprefix("E").strip()


def unpack(archive, directory):
    """Extracts the tests of a source distribution into `directory/tests`."""
    with tarfile.open(archive) as file:
        for member in file.getmembers():
            _, _, path = member.name.partition("/bindings/python/tests/")
            if path and member.isfile():
                target = directory / "tests" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.extractfile(member).read())
    return {path.name for path in (directory / "tests").glob("test_*.py")}


def compared(outcomes, expected):
    """Returns the outcomes, with expected failures replaced."""
    for name, reason in expected.items():
        kind, what = outcomes.get(name, ("FAILED", "there is no such test"))
        listed = f"is listed as an exception ({reason})"
        if kind == "FAILED" and name in outcomes:
            outcomes[name] = ("exception", reason)
        else:
            outcomes[name] = ("FAILED", f"{listed}, but: {what or 'it passes'}")
    return outcomes


def main(archive, directory, framework):
    os.chdir(directory)
    modules = unpack(archive, pathlib.Path.cwd())
    sys.path.insert(0, str(HERE / "upstream/shim"))
    recorder = Recorder()
    chosen = sorted(name for name, needs in MODULES.items() if needs == framework)
    options = ["-p", "no:terminal", "-p", "no:cacheprovider", "--rootdir", ".", "-c", os.devnull]
    pytest.main([*options, *(f"tests/{name}" for name in chosen)], plugins=[recorder])
    import safetensors

    if not safetensors.__file__.startswith(str(HERE)):
        sys.exit(f"the tests were run with {safetensors.__file__}")
    expected = {name: reason for name, reason in EXCEPTIONS.items() if name.split("::")[0] in chosen}
    outcomes = compared(recorder.outcomes, expected)
    for name in sorted(modules ^ {*MODULES, *LEFT_OUT}):
        outcomes[name] = ("FAILED", "the module is not listed, or does not exist")
    for name, reason in LEFT_OUT.items():
        print(f"skipped {name}: {reason}")
    for name, (kind, what) in sorted(outcomes.items()):
        print(f"{kind} {name}" + (f": {what}" if what else ""))
    kinds = ("ok", "skipped", "exception", "FAILED")
    count = {kind: sum(found == kind for found, _ in outcomes.values()) for kind in kinds}
    print(f"{count['skipped']} skipped by safetensors itself, {count['exception']} listed exceptions")
    print(f"{count['ok']} passed, {count['FAILED']} failed")
    sys.exit(1 if count["FAILED"] or not count["ok"] else 0)


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 4 else sys.exit(__doc__)
