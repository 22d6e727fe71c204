#!/usr/bin/python3
"""Counts tests in meson's testlog.json: prints "PASSED FAILED".

Criterion closes a program's output with "Synthesis: Tested: 5 | Passing: 5 | ...";
those are summed. A program without that line is one test, and one that failed in
a way its own count does not show (a crash, a time-out) is one failure.
"""
import json
import re
import sys

SYNTHESIS = re.compile(
    r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")

passed = failed = 0
with open(sys.argv[1]) as log:
    for line in log:
        test = json.loads(line)
        output = re.sub(r"\x1b\[[0-9;]*m", "", test.get("stdout", "") + test.get("stderr", ""))
        counts = SYNTHESIS.findall(output)
        good = sum(int(c[1]) for c in counts)
        bad = sum(int(c[2]) + int(c[3]) for c in counts)
        if test["result"] == "OK":
            passed += good if counts else 1
            failed += bad
        else:
            passed += good
            failed += max(bad, 1)
print(passed, failed)
