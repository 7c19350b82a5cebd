"""Verdicts about cases, of which some are expected to fail."""

import sys


def report(verdicts, differences):
    """Prints the cases that fail without being listed in `differences`, and those that are listed and agree; exits with 1 if
    there are any, or no cases at all. `verdicts` are names of cases, each with what is wrong or None."""
    failed = 0
    for name, wrong in verdicts:
        if wrong and name not in differences:
            failed += 1
            print("FAILED", name, wrong)
        elif not wrong and name in differences:
            failed += 1
            print("FAILED", name, "agrees now")
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    sys.exit(bool(failed or not verdicts))
