#!/usr/bin/python3
"""Counts tests in meson's testlog.json: a line "PASSED FAILED", then a few lines about
each program that failed: its name, and what Criterion says of the assertions. What could
not be run is told on standard error.

Criterion closes a program's output with "Synthesis: Tested: 5 | Passing: 5 | ...";
those are summed. A program without that line is one test, and one that failed in
a way its own count does not show (a crash, a time-out) is one failure.
"""
import json
import re
import sys

SYNTHESIS = re.compile(
    r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
TELLING = re.compile(r"\[(----|FAIL)\]|Sanitizer|runtime error|^wrong|^FAILED|^not ok")
SKIPPED = re.compile(r"^\S+::\S+ is not run: .*", re.MULTILINE)
LINES = 20  # about one program

passed = failed = 0
told = []
with open(sys.argv[1]) as log:
    for line in log:
        test = json.loads(line)
        output = re.sub(r"\x1b\[[0-9;]*m", "",
                        test.get("stdout", "") + "\n" + test.get("stderr", ""))
        for skipped in SKIPPED.findall(output):
            print(skipped, file=sys.stderr)
        counts = SYNTHESIS.findall(output)
        good = sum(int(c[1]) for c in counts)
        bad = sum(int(c[2]) + int(c[3]) for c in counts)
        if test["result"] == "OK":
            passed += good if counts else 1
            failed += bad
        else:
            passed += good
            failed += max(bad, 1)
        if test["result"] != "OK" or bad:
            lines = [l for l in output.splitlines() if TELLING.search(l)]
            told.append(f"{test['name']}: {test['result']}")
            told += ["    " + l for l in (lines or output.splitlines()[-LINES:])[:LINES]]
print(passed, failed)
print("\n".join(told))
