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
import argparse
import collections
import os
import signal
import socket
import struct
import sys
import threading
import time

from stage import (TOP, Broken, Stage, milliseconds, percentile, say, table, wait_until, write)

CONNECT_S, SILENCE_S, TOTAL_S, GRACE_S = 0.5, 1, 2, 0.5
SLACK_S = 2  # what a busy machine may add to any of these
BACK_S = 1
STAYING = b"sleep\x0077777\x00"
GROWTH = 24 << 20  # bytes that weir may have more at the end

PHP = os.path.join(TOP, "contrib/handlers/hello.php")
STREAMS = {
    "application": "30 /application/{n}",
    "php": "15 /php/{n} " + PHP,
    "program": "4 /program/{n}",
    "bad": "20 /bad/{n}",
    "pair": "20 /pair/{n}",
    "fpm": "15 /fpm/{n} " + PHP,
    "cgi": "4 /cgi/{n}",
}
HEALTHY = ("application", "php", "program")

WEIR_INI = """endpoints = {dir}/endpoints/*.ini
[store]
type = memory
[backend application]
fastcgi = unix:{dir}/application.sock
[backend php]
fastcgi = unix:{dir}/php.sock
[backend bad]
fastcgi = {bad}
{limits}
[backend pair]
fastcgi = {pair}
fastcgi = unix:{dir}/application.sock
fail_timeout = 500ms
{limits}
[backend fpm]
fastcgi = unix:{dir}/fpm.sock
{limits}
[backend program]
cgi = {dir}/programs
[backend cgi]
cgi = {dir}/programs
kill_grace = 500ms
{limits}
"""
LIMITS = """connect_timeout = 500ms
first_byte_timeout = 1s
idle_timeout = 1s
timeout = 2s"""
PROGRAM = """#!/bin/sh
printf 'Content-Type: text/plain\\n\\nhello\\n'
"""
# What it does beside that is in a file that the script writes.
CGI = """#!/bin/sh
. {dir}/manners
printf 'Content-Type: text/plain\\n\\nhello\\n'
"""


def record(kind, content):
    return struct.pack("!BBHHBx", 1, kind, 1, len(content), 0) + content


def stdout(text):
    return record(6, text)


def end(protocol_status=0):
    return record(3, struct.pack("!LB3x", 0, protocol_status))


class Actor:
    """A FastCGI application that plays the part it is given. A connection keeps the part
    that it began with."""

    def __init__(self):
        self.part = self.well
        self.open = 0
        self.listener = None
        self.port = None
        self.listen()

    @property
    def address(self):
        return f"tcp:127.0.0.1:{self.port}"

    def listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port or 0))
        self.port = self.listener.getsockname()[1]
        self.listener.listen(511)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def leave(self):
        """Nobody listens any longer."""
        # accept() in the other thread is woken by this, and not by close().
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self, listener):
        while True:
            try:
                s, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s, self.part), daemon=True).start()

    def serve(self, s, part):
        self.open += 1
        try:
            with s:
                if self.read_request(s):
                    part(s)
        except OSError:
            pass  # weir has left, as it should when this takes too long
        self.open -= 1

    @staticmethod
    def read_request(s):
        """To the end of its body."""
        with s.makefile("rb") as file:
            while True:
                head = file.read(8)
                if len(head) < 8:
                    return False
                kind, n, padding = struct.unpack("!xB2xHBx", head)
                file.read(n + padding)
                if kind == 5 and n == 0:
                    return True

    @staticmethod
    def reset(s):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    # The parts

    @staticmethod
    def well(s):
        s.sendall(stdout(b"Content-Type: text/plain\r\n\r\nhello\n") + end())

    @staticmethod
    def silent(s):
        s.recv(1)

    def reset_before(self, s):
        self.reset(s)

    def reset_within(self, s):
        s.sendall(stdout(b"Content-Type: text/plain\r\n\r\n" + b"x" * 1000))
        time.sleep(0.02)
        self.reset(s)

    @staticmethod
    def slow_header(s):
        s.sendall(stdout(b"X-Slow: "))
        while True:
            s.sendall(stdout(b"a"))
            time.sleep(0.1)

    @staticmethod
    def endless_header(s):
        while True:
            s.sendall(stdout(b"X-Endless: " + b"a" * 1000 + b"\r\n"))

    @staticmethod
    def overloaded(s):
        s.sendall(end(2))

    @staticmethod
    def nonsense(s):
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\nthis is no FastCGI\n")


#
# The faults. Each breaks something, says so with act.breaks(), waits, mends it, and says so
# with act.mends(). What its requests may be answered while it is broken are words, a
# status or "cut"; lasts is the longest time an answer may take.
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
        props.actor.part = props.actor.well
        act.mends()
    return play


@fault("refused", "bad", "503", CONNECT_S, pair=1)
def refused(props, act, length):
    props.actor.leave()
    act.breaks()
    time.sleep(length)
    props.actor.listen()
    act.mends()


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
    props.start_fpm()
    act.mends()


def misbehaves(manners):
    def play(props, act, length):
        props.set_manners(manners)
        act.breaks()
        time.sleep(length)
        props.set_manners("")
        act.mends()
    return play


# A child has the answer's pipe for ever, with its parent gone or not.
fault("CGI leaves a child", "cgi", "200", SILENCE_S)(misbehaves("sleep 77777 &\n"))
fault("CGI stays", "cgi", "200", SILENCE_S)(misbehaves(
    "printf 'Content-Type: text/plain\\nContent-Length: 0\\n\\n'; sleep 77777 &\nwait\n"))
fault("CGI hangs", "cgi", "504", SILENCE_S)(misbehaves("trap '' TERM\nsleep 77777\n"))


class Props:
    """The backends."""

    def __init__(self, stage):
        self.stage = stage
        self.actor = Actor()
        stage.echo("application", 2)
        self.start_php("php")
        self.start_fpm()
        self.programs = stage.path("programs")
        os.mkdir(self.programs)
        stage.at_end(self.end)
        self.set_manners("")
        write(stage.path("programs/program"), PROGRAM, 0o755)
        write(stage.path("programs/cgi"), CGI.format(dir=stage.dir), 0o755)

    def start_php(self, name):
        root = os.geteuid() == 0
        path, conf = self.stage.path(name + ".sock"), self.stage.path(name + ".conf")
        write(conf, "[global]\ndaemonize = no\nerror_log = /dev/stderr\n"
              f"[chaos]\nlisten = {path}\nlisten.backlog = 511\n"
              + ("user = root\ngroup = root\n" if root else "")
              + "pm = static\npm.max_children = 3\n")
        server = self.stage.start(name, ["php-fpm8.2", "-F", "-y", conf, *(["-R"] * root)])
        self.stage.expect(server, path)
        return server

    def start_fpm(self):
        self.fpm = self.start_php("fpm")

    def kill_php_worker(self):
        """The oldest; the others serve on, and a new one takes its place."""
        for pid in sorted(self.fpm.children())[:1]:
            os.kill(pid, signal.SIGKILL)

    def set_manners(self, text):
        """In one piece, also for a program that reads them now."""
        write(self.stage.path("manners.new"), text)
        os.rename(self.stage.path("manners.new"), self.stage.path("manners"))

    def left_behind(self):
        """Processes that CGI programs have left behind. Nobody ends them but who began
        them, which is this script."""
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read()
                if command == STAYING and os.readlink(f"/proc/{pid}/cwd") == self.programs:
                    left.append(int(pid))
            except OSError:
                pass
        return left

    def end(self):
        for pid in self.left_behind():
            os.kill(pid, signal.SIGKILL)


class Act:
    """What happened while one fault was on stage."""

    def __init__(self, name, phase, stream, answers, lasts, pair):
        self.name, self.phase, self.stream, self.lasts = name, phase, stream, lasts
        self.answers, self.pair = answers.split(), pair
        self.began = time.monotonic()
        self.broke = self.mended = self.ended = None

    def breaks(self):
        self.broke = time.monotonic()

    def mends(self):
        self.mended = time.monotonic()


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
        return (f"{share:.2f} %",
                f"{milliseconds(percentile([r.ms() for r in mine], 0.5))}/{milliseconds(p99)}"), p99

    def during(self, act):
        """Cells about the broken backend: requests, right, slowest."""
        mine = [r for r in self.requests if r.stream == act.stream
                and r.began >= act.broke + 0.05 and r.ended < act.mended]
        answers = collections.Counter(map(answer_of, mine))
        wrong = [answer for answer in answers if answer not in act.answers]
        if not mine:
            self.blame(act, "no request met it")
        for answer in wrong:
            self.blame(act, f"{answers[answer]} answers are {answer}")
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
                and act.broke <= r.began < act.mended]
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


def holds(weir, props):
    """What must not grow."""
    counters = weir.counters()
    time.sleep(0.1)  # its connection is a descriptor too
    children = weir.process.children()
    return {
        "descriptors": weir.process.files(),
        "zombies": sum(state == "Z" for state in children.values()),
        "children": len(children),
        "connections to the actor": props.actor.open,
        "requests": counters["exchanges_open"],
        "programs": counters["programs_running"],
        "addresses left out": counters["backend_addresses_out"],
        "memory, KiB": weir.process.memory() // 1024,
    }


#
# The play
#

def start_weir(stage, props):
    os.mkdir(stage.path("endpoints"))
    for name in STREAMS:
        write(stage.path(f"endpoints/{name}.ini"),
              f"[endpoint {name}]\nmatch = GET /{name}/{{n}}\nbackend = {name}\n"
              "@RateLimit = type=global count=100000 window=1s\n")
    return stage.weir("weir", WEIR_INI.format(
        dir=stage.dir, bad=props.actor.address, pair=props.actor.address, limits=LIMITS))


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


def read_arguments():
    parser = argparse.ArgumentParser(
        description="Faults of backends under constant load; see the head of this file.")
    parser.add_argument("--short", action="store_true", help="each fault once, and briefly")
    parser.add_argument("--seconds", type=int, default=600, help="how long (600)")
    parser.add_argument("--build", default=os.path.join(TOP, "build"),
                        help="the build directory")
    parser.add_argument("--only", help="faults, with commas between them")
    arguments = parser.parse_args()
    if arguments.only and set(arguments.only.split(",")) - set(FAULTS):
        parser.error("there is " + ", ".join(FAULTS))
    return arguments


def main():
    arguments = read_arguments()
    wanted = arguments.only.split(",") if arguments.only else FAULTS
    faults = {name: FAULTS[name] for name in FAULTS if name in wanted}
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
