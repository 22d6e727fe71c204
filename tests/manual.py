#!/usr/bin/env python3
"""manual.py - the manual has every option and every counter, as the program declares them.

	tests/manual.py WEIRCTL [--write]

In a page the lines between

	.\\" from NAME: tests/manual.py writes what follows
	.\\" end

are made of what the program says: of "weirctl options" in weir.ini(5), NAME being a
section, and of filter/base/counters.h in weir(8). They have to be what would be made now;
--write puts it there. What stands around them is written by hand, and so are the attributes
of rules, each of which has to have an entry of its own.
"""
import difflib
import os
import re
import subprocess
import sys
import textwrap

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BEGIN = re.compile(r'^\.\\" from (\S+): tests/manual\.py writes what follows$')
END = '.\\" end'


def prose(text):
    """Lines of mdoc(7): each sentence begins one, and none looks like a macro."""
    out = []
    for sentence in re.split(r"(?<=\.)\s+(?=[A-Z])", text.replace("\\", "\\e")):
        for line in textwrap.wrap(sentence, 78, break_long_words=False,
                                  break_on_hyphens=False):
            out.append("\\&" + line if line[0] in ".'" else line)
    return out


def argument(text):
    """As arguments of a macro."""
    return text.replace("\\", "\\e").replace('"', "\\(dq")


def options(weirctl):
    """section: lines, and the names of a rule's attributes, from what weirctl prints."""
    told = subprocess.run([weirctl, "options"], check=True, capture_output=True,
                          text=True, timeout=60).stdout
    told, _, rules = told.partition("\n[site], ")
    sections = {}
    entry = re.compile(r"^(\S+) = (.*?)    \((.*)\)$")
    for block in re.split(r"\n(?=\S)", told.strip()):
        first, *rest = block.split("\n")
        section = re.match(r"^\[(\w+)", first)
        if section:
            lines = sections.setdefault(section[1], [])
            continue
        found = entry.match(first)
        if not found:
            sys.exit(f"manual.py: weirctl options says {first!r}")
        name, kind, more = found.groups()
        lines.append(f".It Cm {name} Li = {argument(kind)}")
        lines += prose(" ".join(" ".join(rest).split()))
        lines += prose(more[0].upper() + more[1:] + ".")
    attributes = re.findall(r"^(\w+)=", rules, re.M)
    if not attributes:
        sys.exit("manual.py: weirctl options has no attributes of rules")
    return sections, attributes


def counters():
    """The lines of all counters, gauges among them."""
    with open(os.path.join(TOP, "filter/base/counters.h"), encoding="utf-8") as f:
        table = re.search(r"#define COUNTERS\(.*?\n\n", f.read(), re.S)[0]
    rows = re.findall(
        r'(COUNTER|GAUGE)\((\w+),[\s\\]*((?:"(?:[^"\\]|\\.)*"[\s\\]*)+)\)', table)
    if len(rows) != len(re.findall(r"\b(?:COUNTER|GAUGE)\(", table)):
        sys.exit("manual.py: filter/base/counters.h reads otherwise than it did")
    lines = []
    for kind, name, help_ in rows:
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', help_)).replace('\\"', '"')
        lines.append(f".It Li {name}" + (" Pq gauge" if kind == "GAUGE" else ""))
        lines += prose(text)
    return lines


def rewritten(page, sources):
    """The page as it ought to be; takes what it has used out of sources."""
    out, inside = [], False
    for line in page:
        begin = BEGIN.match(line)
        if inside and line != END:
            continue
        inside = False
        out.append(line)
        if begin:
            inside = True
            out += sources.pop(begin[1], None) or sys.exit(
                f"manual.py: nothing is called {begin[1]}, or it stands there twice")
    return out


def main():
    args = [a for a in sys.argv[1:] if a != "--write"]
    write = "--write" in sys.argv
    if len(args) != 1:
        sys.exit("usage: tests/manual.py WEIRCTL [--write]")
    wrong = 0
    sections, attributes = options(args[0])
    for name, sources, entries in (("weir.ini.5", sections, attributes),
                                   ("weir.8", {"counters": counters()}, [])):
        path = os.path.join(TOP, "contrib/man", name)
        with open(path, encoding="utf-8") as f:
            page = f.read().splitlines()
        right = rewritten(page, sources)
        if sources:
            print(f"contrib/man/{name} has no place for {', '.join(sources)}")
            wrong = 1
        listed = {word for line in page if line.startswith(".It Cm ")
                  for word in line[len(".It Cm "):].replace(",", " ").split()}
        for entry in set(entries) - listed:
            print(f"contrib/man/{name} has no entry for {entry} of a rule")
            wrong = 1
        if write:
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(right) + "\n")
        elif page != right:
            print("\n".join(difflib.unified_diff(
                page, right, f"contrib/man/{name}", "as the program has it", lineterm="")))
            print("tests/manual.py WEIRCTL --write puts it right")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
