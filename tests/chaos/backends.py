#!/usr/bin/env python3
"""Everything that can befall a backend, one thing after the other, under constant load.

	backends.py [--short | --seconds N] [--build DIRECTORY] [--only FAULT,...]

One weir passes requests on to healthy backends (a FastCGI application, php-fpm, a CGI
program) and to others, which the faults are played on: each breaks for a while, is
mended, and must then be as good as before. They come in turn, as often as they fit into N
seconds (600; --short is one turn of short ones, about half a minute). --only takes some
of them: backends.py --only help lists them.

Of each fault the table shows

	requests  sent to the broken backend while it was broken
	right     how many got the answer that belongs to the fault, as JSON: all, or it is a
	          failure; behind it which answers there were
	slowest   of them, in seconds, and behind the stroke what it may take
	pair      answers of 200 from a backend of two addresses, of which this is one. Where
	          an answer had begun the address is as good as any; else it is left out, or
	          the other is asked at once
	healthy   answers of 200 from all others: all, or it is a failure
	ms        latency of those (p50/p99); the first row has it without any fault
	back s    from "mended" to "all is well", of the broken backend

and at the end what weir holds, beside what it held at the start. What a CGI program has
left behind is its own affair and may run on; the script ends it. Exits with 1 when
anything is not as promised.
"""
import collections
import sys
import time

from backends_scene import (BACK_S, CONNECT_S, GROWTH, HEALTHY, SILENCE_S, SLACK_S, STREAMS,
                            TOTAL_S, Props, holds, start_weir)
from stage import (Broken, Stage, half_and_most, percentile, read_arguments, say, table,
                   wait_until)


class Act:
    """What happened while one fault was on stage."""

    def __init__(self, name, phase, stream, answers, lasts, pair):
        self.name, self.phase, self.stream, self.lasts = name, phase, stream, lasts
        self.answers, self.pair = answers.split(), pair
        self.began = time.monotonic()
        self.broke = self.mending = self.mended = self.ended = None

    def breaks(self):
        self.broke = time.monotonic()

    def mends(self, mend=lambda: None):
        """What ends from here on may go well, and what begins when mend() is done has to."""
        self.mending = time.monotonic()
        mend()
        self.mended = time.monotonic()


#
# The faults. Each breaks something, says so with act.breaks(), waits, and has act.mends()
# mend it. What its requests may be answered while it is broken are words, a status or "cut";
# lasts is the longest time an answer may take.
#

FAULTS = {}


def fault(name, stream, answers, lasts, pair=0.0):
    def add(function):
        FAULTS[name] = (function, stream, answers, lasts, pair)
        return function
    return add


def plays(part):
    def play(props, act, length):
        props.actor.part = getattr(props.actor, part)
        act.breaks()
        time.sleep(length)
        act.mends(lambda: setattr(props.actor, "part", props.actor.well))
    return play


@fault("refused", "bad", "503", CONNECT_S, pair=1)
def refused(props, act, length):
    props.actor.leave()
    act.breaks()
    time.sleep(length)
    act.mends(props.actor.listen)


fault("silent", "bad", "504", SILENCE_S, pair=0.6)(plays("silent"))
fault("RST before", "bad", "502", 0, pair=1)(plays("reset_before"))
fault("RST within", "bad", "cut", 0)(plays("reset_within"))
fault("slow header", "bad", "504", TOTAL_S, pair=0.6)(plays("slow_header"))
fault("endless header", "bad", "502", 0)(plays("endless_header"))
fault("OVERLOADED", "bad", "503", 0, pair=1)(plays("overloaded"))
fault("nonsense", "bad", "502", 0, pair=0.6)(plays("nonsense"))


@fault("php worker killed", "fpm", "200 502 503 cut", SILENCE_S)
def workers_killed(props, act, length):
    act.breaks()
    until = time.monotonic() + length
    while time.monotonic() < until:
        props.kill_php_worker()
        time.sleep(0.1)
    act.mends()


@fault("php-fpm killed", "fpm", "503", CONNECT_S)
def php_killed(props, act, length):
    props.fpm.kill()
    act.breaks()
    time.sleep(length)
    act.mends(props.start_fpm)


def misbehaves(manners):
    def play(props, act, length):
        props.set_manners(manners)
        act.breaks()
        time.sleep(length)
        act.mends(lambda: props.set_manners(""))
    return play


# A child has the answer's pipe for ever, with its parent gone or not.
fault("CGI leaves a child", "cgi", "200", SILENCE_S)(misbehaves("sleep 77777 &\n"))
fault("CGI stays", "cgi", "200", SILENCE_S)(misbehaves(
    "printf 'Content-Type: text/plain\\nContent-Length: 0\\n\\n'; sleep 77777 &\nwait\n"))
fault("CGI hangs", "cgi", "504", SILENCE_S)(misbehaves("trap '' TERM\nsleep 77777\n"))


#
# What they show
#


def answer_of(request):
    """A status, "cut", or what is never right: a word with a question mark."""
    if request.how == "cut" and request.status == 200:
        return "cut"
    if request.how != "whole":
        return request.how + "?"
    if request.status != 200 and request.code != request.status * 100:
        return f"{request.status} without its JSON?"
    return str(request.status)


class Judge:
    def __init__(self, requests):
        self.requests = sorted(requests, key=lambda r: r.began)
        self.wrong = []

    def blame(self, act, text):
        self.wrong.append(f"{act.name}: {text}")

    def healthy(self, act, began, ended, usual):
        """Cells: share and latency; the latency's p99."""
        mine = [r for r in self.requests if r.stream in HEALTHY and began <= r.began < ended]
        others = {"bad", "fpm", "cgi"} - {act.stream if act else None}
        good = mine + [r for r in self.requests if r.stream in others
                       and began <= r.began < ended]
        bad = [r for r in good if answer_of(r) != "200"]
        if bad and act:
            self.blame(act, f"{len(bad)} healthy requests failed, the first one of "
                       f"/{bad[0].stream}: {answer_of(bad[0])}")
        p99 = percentile([r.ms() for r in mine], 0.99)
        if act and p99 > usual * 10 + 20:
            self.blame(act, f"healthy requests took {p99:.1f} ms (p99), usually {usual:.1f}")
        share = 100 * (len(good) - len(bad)) / max(len(good), 1)
        return (f"{share:.2f} %", half_and_most([r.ms() for r in mine])), p99

    def during(self, act):
        """Cells about the broken backend: requests, right, slowest."""
        met = [r for r in self.requests if r.stream == act.stream
               and act.broke + 0.05 <= r.began < act.mended]
        mine = [r for r in met if r.ended < act.mending]
        answers = collections.Counter(map(answer_of, mine))
        wrong = [answer for answer in answers if answer not in act.answers]
        if not mine:
            self.blame(act, "no request met it")
        for answer in wrong:
            self.blame(act, f"{answers[answer]} answers are {answer}")
        for r in met:
            if r.ended >= act.mending and answer_of(r) not in act.answers + ["200"]:
                self.blame(act, f"while it was mended an answer is {answer_of(r)}")
        slowest = max((r.ended - r.began for r in mine), default=0)
        if slowest > act.lasts + SLACK_S:
            self.blame(act, f"an answer took {slowest:.1f} s")
        right = sum(n for answer, n in answers.items() if answer in act.answers)
        return (len(mine), f"{100 * right / max(len(mine), 1):.2f} %  "
                + " ".join(f"{n}x{answer}" for answer, n in sorted(answers.items())),
                f"{slowest:.2f}/{act.lasts}")

    def both(self, act):
        """The cell of the backend that has a second address."""
        if act.stream != "bad":
            return "-"
        mine = [r for r in self.requests if r.stream == "pair"
                and act.broke <= r.began < act.mending]
        good = sum(answer_of(r) == "200" for r in mine)
        share = good / max(len(mine), 1)
        if share < act.pair:
            self.blame(act, f"of two addresses: {good} of {len(mine)} good answers")
        return f"{100 * share:.0f} %"

    def back(self, act):
        """Seconds, of the broken backend and of the pair."""
        late = [r.began - act.mended for r in self.requests
                if r.stream in (act.stream, "pair") and act.mended <= r.began < act.ended
                and answer_of(r) != "200"]
        back = max(late, default=0)
        if back > BACK_S:
            self.blame(act, f"it was well again only after {back:.2f} s")
        return f"{back:.2f}"

    def row(self, act, usual):
        requests, right, slowest = self.during(act)
        (healthy, latency), _ = self.healthy(act, act.began, act.ended, usual)
        return (act.name, requests, right, slowest, self.both(act), healthy, latency,
                self.back(act))


HEAD = ("fault", "requests", "right", "slowest/limit s", "pair", "healthy", "ms", "back s")


def show_weir(weir, props, before, after, wrong, sanitized):
    rows = []
    for name, then in before.items():
        now = after[name]
        rows.append((name, then, now))
        if name == "memory, KiB":
            if now > then + GROWTH // 1024 and not sanitized:
                wrong.append(f"weir has grown by {(now - then) // 1024} MiB")
        elif now > then:
            wrong.append(f"{name}: {then} at the start, {now} at the end")
    if not weir.process.runs():
        wrong.append(f"weir has ended:\n{weir.process.tail()}")
    say("")
    table(("weir has", "at the start", "at the end"), rows)


#
# The play
#


def play(load, props, faults, seconds, short):
    acts = []
    until = time.monotonic() + seconds
    while not acts or (not short and time.monotonic() < until):
        for name, (function, *promises) in faults.items():
            act = Act(name, f"{name.replace(' ', '-')}.{len(acts)}", *promises)
            load.phase(act.phase)
            time.sleep(0.2)
            # Long enough that some whose answer takes its time are over.
            function(props, act, (1 if short else 8) + act.lasts)
            time.sleep(BACK_S + 0.1)
            act.ended = time.monotonic()
            acts.append(act)
            say(f"  {act.ended - act.began:6.1f} s  {name}")
            if not short and time.monotonic() > until:
                break
    load.phase("end")
    return acts


def main():
    arguments = read_arguments("backends", FAULTS)
    faults = {name: FAULTS[name] for name in arguments.faults}
    usual_s = 2 if arguments.short else 10
    with Stage(arguments.build) as stage:
        props = Props(stage)
        weir = start_weir(stage, props)
        warm = stage.load(STREAMS, {"weir": weir.socket})
        time.sleep(0.5)
        warm.end()
        wait_until(lambda: not weir.counters()["exchanges_open"], 10, 0.05)
        time.sleep(0.3)
        before = holds(weir, props)
        load = stage.load(STREAMS, {"weir": weir.socket})
        began = time.monotonic()
        time.sleep(usual_s)
        acts = play(load, props, faults, arguments.seconds, arguments.short)
        judge = Judge(load.end())
        # Programs may take their grace, and what was left behind is not waited for.
        wait_until(lambda: all(now <= before[name] for name, now in holds(weir, props).items()
                               if name != "memory, KiB"), 10, 0.1)
        after = holds(weir, props)
        cells, usual = judge.healthy(None, began, began + usual_s, None)
        rows = [("none", "-", "-", "-", "-", *cells, "-")]
        rows += [judge.row(act, usual) for act in acts]
        say("")
        table(HEAD, rows)
        show_weir(weir, props, before, after, judge.wrong, stage.is_sanitized())
    say("")
    for line in judge.wrong:
        say(f"WRONG  {line}")
    say(f"{len(judge.requests)} requests, {len(acts)} faults, "
        + (f"{len(judge.wrong)} things wrong" if judge.wrong else "all as promised"))
    return 1 if judge.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as why:
        sys.exit(f"chaos: {why}")
