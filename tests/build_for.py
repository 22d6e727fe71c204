#!/usr/bin/env python3
"""build_for.py BUILD TEST...: builds what these tests of meson's need, and nothing else."""
import json
import os
import subprocess
import sys

build = os.path.realpath(sys.argv[1])


def introspect(what):
    return json.loads(subprocess.check_output(["meson", "introspect", "--" + what, build]))


files = {t["id"]: [os.path.relpath(f, build) for f in t["filename"]] for t in introspect("targets")}
made = {f for names in files.values() for f in names}
wanted = set()
for test in introspect("tests"):
    if test["name"] in sys.argv[2:]:
        program = os.path.relpath(test["cmd"][0], build)
        wanted |= {program} & made
        for needed in test["depends"]:
            wanted |= set(files[needed])
if not wanted:
    sys.exit("build_for.py: no such tests: " + " ".join(sys.argv[2:]))
sys.exit(subprocess.call(["ninja", "-C", build] + sorted(wanted)))
