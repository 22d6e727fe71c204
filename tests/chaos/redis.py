#!/usr/bin/env python3
"""Everything that can befall Redis, one thing after the other, under constant load.

	redis.py [--short | --seconds N] [--build DIRECTORY] [--only FAULT,...]

Three weir processes count in one real redis-server; a fourth counts in memory, for
comparison. Each gets the same requests all the time, through lighttpd's or nginx's part
of the protocol to a FastCGI handler and back. The faults come in turn, as often as they
fit into N seconds (600; --short is one turn of short ones, about a minute). --only takes
some of them: redis.py --only help lists them.

Of each fault the table shows

	requests   sent to the three while it was on stage
	by rules   the share that was answered as the rules have it: all, or it is a failure
	5xx        from weir, but where a rule is closed: none, or it is a failure
	fallback   how many were decided without Redis
	open ms    latency (p50/p99) of requests that began while the breaker was open, and
	memory ms  of those to the memory store in the same seconds
	back s     from "Redis is back" to "Redis decides again", of the slowest process
	most       admitted within one window: by Redis, and by one process for itself;
	           behind the stroke what the rules promise
	unknown    charged by Redis but not admitted by it: questions whose answer was lost
	changes    log lines of all three about the state of Redis

Exits with 1 when anything is not as promised. What is promised without a figure here:
no request is charged twice, and log lines come once a change.

As root the servers are in two network namespaces with a wire between them, and losing
packets on that wire is one of the faults. Otherwise that one is left out.
"""
import argparse
import os
import signal
import socket
import sys
import time

from stage import (PATIENCE_S, TOP, Broken, Stage, milliseconds, percentile, say, table,
                   wait_until, write)

CALM_S = 0.5  # so long Redis decides everything before it is said to be back
BACK_S = 1.0
SETTLED_S = 0.3  # from the fallback's first decision until nobody waits any longer
GROWTH = 24 << 20  # bytes that a weir may have more at the end
LOST = "packets lost"
# Four times the default: a machine that tests other things beside this lets Redis wait.
TIMEOUT_MS = 200
WINDOW_S = 2
LIMIT = 60  # of /tight, in WINDOW_S, for all processes together
SHARE = LIMIT // 3
PASSWORD = "first"

STREAMS = {
    "wide": "60 /wide/{n}",  # never over its limit, so Redis is asked each time
    "tight": "60 /tight/{n}",  # always over it
    "open": "15 /open/{n}",
    "closed": "15 /closed/{n}",
}
LOCAL = ("wide", "tight")

ENDPOINT = """[endpoint {name}]
match = GET /{name}/{{n}}
backend = echo
{rules}
"""
# Counts what each fault is charged, in a key that lives on.
AUDIT = "@RateLimit = type=custom key={header:X-Phase} algorithm=fixed_window " \
    "count=9000000 window=30d name=audit\n"
RULES = {
    "wide": AUDIT + "@RateLimit = type=global count=100000 window=1s",
    "tight": AUDIT + f"@RateLimit = type=global count={{limit}} window={WINDOW_S}s",
    "open": "@RateLimit = type=global count=100000 window=1s on_error=open",
    "closed": "@RateLimit = type=global count=100000 window=1s on_error=closed",
}

WEIR_INI = """endpoints = {endpoints}/*.ini
[store]
{store}
timeout = {timeout}ms
[fallback]
policy = local
instances = 3
[log]
requests = all
[backend echo]
fastcgi = unix:{echo}
"""


class Redis:
    """The server and a client that shares no code with weir."""

    def __init__(self, stage, network):
        self.stage = stage
        self.namespace = network.name if network else None
        self.address = network.address if network else "127.0.0.1"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.socket = stage.path("redis.sock")
        self.url = f"redis://:{PASSWORD}@{self.address}:{self.port}/0"
        self.client = None
        os.mkdir(stage.path("data"))
        self.start()

    def start(self, *more):
        """Returns at once. With the file of every write, so that what was counted is
        there again after a SIGKILL."""
        self.process = self.stage.start("redis", [
            "redis-server", "--bind", self.address, "--port", str(self.port),
            "--unixsocket", self.socket, "--requirepass", PASSWORD, "--save", "",
            "--enable-debug-command", "yes", "--maxmemory-policy", "noeviction",
            "--dir", self.stage.path("data"), *(more or ("--appendonly", "yes"))],
            namespace=self.namespace)

    def command(self, *words, patience=PATIENCE_S):
        """The reply; an error is an OSError."""
        try:
            if not self.client:
                self.client = socket.socket(socket.AF_UNIX)
                self.client.connect(self.socket)
                self.client.settimeout(patience)
                self.file = self.client.makefile("rb")
                self.command("AUTH", PASSWORD)
            self.client.settimeout(patience)
            parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            self.client.sendall(b"*%d\r\n" % len(parts) + b"".join(
                b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))
            return self.reply()
        except OSError:
            self.hang_up()
            raise

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("redis hung up")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise OSError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        return [self.reply() for _ in range(int(rest))]

    def hang_up(self):
        if self.client:
            self.client.close()
        self.client = None

    def back(self):
        """Waits until it answers; the moment when it was asked."""
        def asked():
            now = time.monotonic()
            try:
                return self.command("PING") == "PONG" and now
            except OSError:
                return False
        now = wait_until(asked, 60, every=0.003)
        if not now:
            raise Broken(f"redis does not come back:\n{self.process.tail()}")
        return now

    def kill(self):
        self.process.kill()
        self.hang_up()

    def charged(self, phase):
        """Of both endpoints: what take.lua has written under the phase's name."""
        used = 0
        for key in self.command("KEYS", f"*{{{phase}}}*"):
            state = self.command("GET", key)
            if state[:2] != b"f1":
                raise Broken(f"{key} is not a fixed window: {state}")
            used += int.from_bytes(state[10:18], "big")
        return used


class Act:
    """What happened while one fault was on stage."""

    def __init__(self, fault, phase, lossless=False, forgets=False):
        self.fault, self.phase = fault, phase
        self.lossless = lossless  # not one question may be lost
        self.forgets = forgets  # Redis, what it has charged
        self.losses = []  # moments at which it forgot what it had counted of /tight
        self.began = self.ended = None
        self.over = None  # when Redis was in order again
        self.charged = None


def pause(seconds):
    time.sleep(seconds)


#
# The faults. Each breaks something, waits, mends it, and sets act.over to the moment from
# which Redis is in order; length is what --short and the long form give it.
#

FAULTS = {}


def fault(name, short, long, **promises):
    def add(function):
        FAULTS[name] = (function, short, long, promises)
        return function
    return add


@fault("SIGKILL", 2, 8)
def killed(redis, act, length):
    redis.kill()
    pause(length)
    redis.start()
    act.over = redis.back()


@fault("SIGSTOP", 2.5, 30)
def stopped(redis, act, length):
    redis.process.signal(signal.SIGSTOP)
    pause(length)
    act.over = time.monotonic()
    redis.process.signal(signal.SIGCONT)
    redis.back()


@fault("empty script cache", 0, 0)
def restarted(redis, act, length):
    redis.process.signal(signal.SIGTERM)
    redis.process.popen.wait(PATIENCE_S)
    redis.kill()
    redis.start()
    act.over = redis.back()
    # Also of those that were faster than this line.
    redis.command("SCRIPT", "FLUSH")


@fault("DEBUG SLEEP", 1.5, 6)
def asleep(redis, act, length):
    redis.command("DEBUG", "SLEEP", length, patience=length + PATIENCE_S)
    act.over = time.monotonic()


@fault("maxmemory", 2, 8)
def out_of_memory(redis, act, length):
    redis.command("CONFIG", "SET", "maxmemory", "1mb")
    pause(length)
    act.over = time.monotonic()
    redis.command("CONFIG", "SET", "maxmemory", "0")


@fault("READONLY", 2, 8)
def replica(redis, act, length):
    redis.command("REPLICAOF", "127.0.0.1", "1")
    pause(length)
    act.over = time.monotonic()
    redis.command("REPLICAOF", "NO", "ONE")


@fault("LOADING", 0, 0, forgets=True)
def loading(redis, act, length):
    redis.kill()
    act.losses.append(time.monotonic())
    redis.start("--appendonly", "no", "--dbfilename", "large.rdb")
    act.over = redis.back()


def after_loading(redis, act):
    """Back to the file of writes, which has not seen the last seconds."""
    redis.kill()
    act.losses.append(time.monotonic())
    redis.start()
    redis.back()


@fault("CLIENT KILL", 2, 8)
def cut_off(redis, act, length):
    end = time.monotonic() + length
    while time.monotonic() < end:
        redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        pause(0.2)
    act.over = time.monotonic()


@fault("SCRIPT FLUSH", 2, 8, lossless=True)
def flushed(redis, act, length):
    end = time.monotonic() + length
    while time.monotonic() < end:
        redis.command("SCRIPT", "FLUSH")
        pause(0.02)
    act.over = time.monotonic()


@fault("wrong type", 2, 8)
def wrong_type(redis, act, length):
    key = redis.command("KEYS", "rate:global:{tight}:*")[0]
    redis.command("MULTI")
    redis.command("DEL", key)
    redis.command("RPUSH", key, "no count")
    act.losses.append(time.monotonic())
    redis.command("EXEC")
    pause(length)
    act.over = time.monotonic()
    redis.command("DEL", key)


@fault("AUTH changed", 2, 8)
def password_changed(redis, act, length):
    redis.command("CONFIG", "SET", "requirepass", "second")
    redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    pause(length)
    act.over = time.monotonic()
    redis.command("CONFIG", "SET", "requirepass", PASSWORD)


def packets_lost(networks):
    def lose(redis, act, length):
        for network in networks:
            network.lose()
        pause(length)
        for network in networks:
            network.deliver()
        act.over = time.monotonic()
    return lose


#
# What they show
#

def is_right(request):
    """Answered as the rules have it."""
    if request.how != "whole" or not request.decided:
        return False
    if request.stream == "tight" and request.status == 429:
        return request.code == 42900
    if request.stream == "closed" and request.decided == "fallback":
        return request.status == 503 and request.code == 50300
    return request.status == 200


def is_failure_of_weir(request):
    return request.status >= 500 and request.stream != "closed"


def most_within(requests, limit_at):
    """The most that surely fell into one window (they began and ended in it), and whether
    that was ever more than limit_at(begin, end) allows."""
    most, too_many = 0, False
    for i, first in enumerate(requests):
        end = first.began + WINDOW_S
        n = 0
        for request in requests[i:]:
            if request.began > end:
                break
            n += request.ended <= end
        most = max(most, n)
        too_many = too_many or n > limit_at(first.began, end)
    return most, too_many


def seconds_until_calm(requests, since):
    """From since until Redis decides everything for half a second on end, or None."""
    calm = since
    for request in requests:
        if request.began >= calm + CALM_S:
            return calm - since
        if request.began >= since and request.decided == "fallback":
            calm = request.began
    return None


def while_open(requests, until):
    """What the fallback decided once it was in charge: after its first decisions, some
    of which had waited for Redis."""
    fallback = [r for r in requests if r.decided == "fallback"]
    if not fallback:
        return [], None
    since = min(r.ended for r in fallback) + SETTLED_S
    return [r for r in fallback if r.stream in LOCAL and since <= r.began < until], since


def half_and_most(took):
    return f"{milliseconds(percentile(took, 0.5))}/{milliseconds(percentile(took, 0.99))}"


class Judge:
    """Makes a row of each act, and collects what is not as promised."""

    def __init__(self, requests, weirs, memory):
        self.wrong, self.weirs, self.memory = [], weirs, memory
        self.requests = sorted(requests, key=lambda r: r.began)
        decided = {weir.name: weir.requests() for weir in [*weirs, memory]}
        for request in self.requests:
            request.decided = decided[request.target].get(request.number, ("", 0))[0]
        self.events = {weir.name: weir.events("redis is ") for weir in weirs}
        self.while_open, self.beside = [], []  # milliseconds, of all acts

    def blame(self, act, text):
        self.wrong.append(f"{act.fault}: {text}")

    def admitted(self, act, acts):
        """The cell: the most within a window / what is promised, twice."""
        losses = [at for other in acts for at in other.losses]
        # A window that begins before the act and reaches into it is this act's too.
        passed = [r for r in self.of_weirs if r.stream == "tight" and r.status == 200
                  and act.began - WINDOW_S <= r.began < act.ended]

        def promised(begin, end):
            # What Redis forgets in the middle of a window it admits again.
            return LIMIT * (1 + sum(begin - 0.1 <= at <= end + 0.1 for at in losses))

        by_redis, too_many = most_within([r for r in passed if r.decided == "redis"], promised)
        if too_many:
            self.blame(act, f"Redis admitted {by_redis} within {WINDOW_S} s")
        alone = 0
        for weir in self.weirs:
            n, too_many = most_within([r for r in passed if r.target == weir.name
                                       and r.decided == "fallback"], lambda *window: SHARE)
            alone = max(alone, n)
            if too_many:
                self.blame(act, f"{weir.name} alone admitted {n} within {WINDOW_S} s")
        limit = LIMIT * 2 if act.losses else LIMIT
        return f"{by_redis}/{limit} {alone}/{SHARE}"

    def back(self, act):
        """The slowest process's time."""
        times = [seconds_until_calm([r for r in self.of_weirs if r.target == weir.name],
                                    act.over) for weir in self.weirs]
        if None in times:
            self.blame(act, "a process did not let Redis decide again")
            return None
        if max(times) > BACK_S:
            self.blame(act, f"Redis decided again only {max(times):.2f} s after it was back")
        return max(times)

    def latency(self, act, mine):
        open_requests, sinces = [], []
        for weir in self.weirs:
            found, since = while_open([r for r in mine if r.target == weir.name], act.over)
            open_requests += found
            sinces += [since] if found else []
        if not open_requests:
            return "-", "-"
        beside = [r.ms() for r in self.requests if r.target == self.memory.name
                  and r.stream in LOCAL and min(sinces) <= r.began < act.over]
        took = [r.ms() for r in open_requests]
        here, there = percentile(took, 0.99), percentile(beside, 0.99)
        if here is not None and there is not None and here > there * 10 + 10:
            self.blame(act, f"open: p99 {here:.1f} ms, in memory {there:.1f} ms")
        self.while_open += took
        self.beside += beside
        return half_and_most(took), half_and_most(beside)

    def unknown(self, act, mine):
        """Charged by Redis, admitted by somebody else."""
        admitted = sum(r.stream in LOCAL and r.status == 200 and r.decided == "redis"
                       for r in mine)
        lost = [r for r in mine if r.stream in LOCAL and r.decided == "fallback"]
        # Where one has waited too long it is the machine that was too slow.
        timed_out = any(r.ms() >= TIMEOUT_MS for r in lost)
        lost, unknown = len(lost), act.charged - admitted
        if act.lossless and not timed_out and (lost or unknown):
            self.blame(act, f"{lost} questions lost, {unknown} charged without an answer")
        elif unknown > lost:
            self.blame(act, f"{act.charged} charged for {admitted} admitted and {lost} lost")
        elif unknown < 0 and not act.forgets:
            self.blame(act, f"{act.charged} charged for {admitted} admitted")
        return "-" if act.forgets else unknown

    def changes(self, act):
        """Lines about the state of Redis; of each two opposites no one comes twice on end."""
        n = 0
        for weir in self.weirs:
            for pair in (("is down", "is up"), ("is no longer asked", "is asked again")):
                lines = [text for _, text in self.events[weir.name]
                         if any(word in text for word in pair)]
                for before, after in zip(lines, lines[1:]):
                    if any(word in before and word in after for word in pair):
                        self.wrong.append(f"{weir.name} says twice: {after.strip()}")
            n += sum(act.began <= at < act.ended for at, _ in self.events[weir.name])
        if n > 12 * len(self.weirs):
            self.blame(act, f"{n} log lines about the state of Redis")
        return n

    def row(self, act, acts):
        self.of_weirs = [r for r in self.requests if r.target != self.memory.name]
        mine = [r for r in self.of_weirs if r.phase == act.phase]
        bad = [r for r in mine if not is_right(r)]
        broken = sum(map(is_failure_of_weir, mine))
        if bad:
            r = bad[0]
            self.blame(act, f"{len(bad)} answers are wrong; the first: {r.target} /{r.stream}/"
                       f"{r.number} {r.how} status {r.status} code {r.code}, "
                       f"decided by {r.decided!r}")
        if broken:
            self.blame(act, f"{broken} answers of 5xx")
        share = 100 * (len(mine) - len(bad)) / max(len(mine), 1)
        fallback = sum(r.decided == "fallback" for r in mine)
        back = self.back(act)
        return (act.fault, len(mine), f"{share:.2f} %", broken, fallback,
                *self.latency(act, mine), "never" if back is None else f"{back:.2f}",
                self.admitted(act, acts), self.unknown(act, mine), self.changes(act))


HEAD = ("fault", "requests", "by rules", "5xx", "fallback", "open ms", "memory ms", "back s",
        "most redis, alone", "unknown", "changes")


#
# The play
#

def prepare_large_file(stage, keys):
    """What Redis will take a while to load."""
    path = stage.path("large.sock")
    server = stage.start("large", ["redis-server", "--port", "0", "--unixsocket", path,
                                   "--dir", stage.path("data"), "--dbfilename", "large.rdb",
                                   "--save", "", "--enable-debug-command", "yes"])
    stage.expect(server, path)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(120)
        s.connect(path)
        for order in (b"DEBUG POPULATE %d\r\n" % keys, b"SAVE\r\n"):
            s.sendall(order)
            if s.recv(100) != b"+OK\r\n":
                raise Broken(f"no large file:\n{server.tail()}")
    server.kill()


def start_weirs(stage, redis, network):
    echo = stage.echo("echo", 2)
    for limit in (LIMIT, SHARE):
        os.mkdir(stage.path(f"endpoints{limit}"))
        for name, rules in RULES.items():
            write(stage.path(f"endpoints{limit}/{name}.ini"),
                  ENDPOINT.format(name=name, rules=rules.replace("{limit}", str(limit))))
    text = WEIR_INI.format(endpoints=stage.path(f"endpoints{LIMIT}"), echo=echo,
                           store=f"type = redis\nurl = {redis.url}", timeout=TIMEOUT_MS)
    weirs = [stage.weir(name, text, network.name if network else None)
             for name in ("weir1", "weir2", "weir3")]
    # Beside them one that counts in memory what each of them may admit for itself.
    memory = stage.weir("memory", WEIR_INI.format(
        endpoints=stage.path(f"endpoints{SHARE}"), echo=echo, store="type = memory",
        timeout=TIMEOUT_MS))
    return weirs, memory


def load_on(stage, weirs, memory):
    return stage.load(STREAMS, {weir.name: weir.socket for weir in [*weirs, memory]})


def until_calm(weirs, seconds):
    """Redis has decided everything for a while."""
    seen, since = None, time.monotonic()
    end = since + seconds
    while time.monotonic() < end:
        pause(0.1)
        counters = [weir.counters() for weir in weirs]
        fallback = [c["decisions_fallback"] for c in counters]
        if fallback != seen:
            seen, since = fallback, time.monotonic()
            first = [c["decisions_redis"] for c in counters]
        elif time.monotonic() - since > CALM_S + 0.2 and \
                all(c["decisions_redis"] > n for c, n in zip(counters, first)):
            return True
    return False


def play(stage, load, redis, weirs, faults, seconds, short):
    """Each fault in turn until the time is over; the acts."""
    acts = []
    end = time.monotonic() + seconds
    while not acts or (not short and time.monotonic() < end):
        for name, (function, length_short, length_long, promises) in faults.items():
            if acts and not short and time.monotonic() > end:
                break
            act = Act(name, f"{name.replace(' ', '-')}.{len(acts)}", **promises)
            act.began = time.monotonic()
            load.phase(act.phase)
            pause(0.3 if short else 1.5)
            function(redis, act, length_short if short else length_long)
            until_calm(weirs, 10)
            load.phase("between")
            act.ended = time.monotonic()
            pause(0.2)  # for answers that are still under way
            if name == "LOADING":
                after_loading(redis, act)
                until_calm(weirs, 10)
            act.charged = redis.charged(act.phase)
            acts.append(act)
            say(f"  {act.ended - act.began:6.1f} s  {name}")
    return acts


def warm_up(stage, weirs, memory):
    """What each holds when it has worked for a while, and rests: files, memory."""
    load = load_on(stage, weirs, memory)
    calm = until_calm(weirs, 10)
    load.end()
    if not calm:
        raise Broken(f"Redis does not decide:\n{weirs[0].process.tail()}")
    wait_until(lambda: not any(weir.counters()["exchanges_open"] for weir in weirs), 5, 0.05)
    for weir in [*weirs, memory]:
        weir.forget_log()
    pause(0.2)  # the last one's connection is a descriptor too
    return [weir.process.files() for weir in weirs], [weir.process.memory() for weir in weirs]


def show_weirs(weirs, before, wrong, sanitized):
    files, memory = before
    wait_until(lambda: all(weir.process.files() <= n for weir, n in zip(weirs, files)), 10, 0.1)
    rows = []
    for weir, files_before, memory_before in zip(weirs, files, memory):
        files_now, memory_now = weir.process.files(), weir.process.memory()
        counters = weir.counters()
        rows.append((weir.name, f"{files_before} -> {files_now}",
                     f"{memory_before / 2**20:.1f} -> {memory_now / 2**20:.1f}",
                     counters["exchanges_open"], counters["decisions_redis"],
                     counters["decisions_fallback"], counters["store_failures"],
                     counters["store_connects"], counters.get("store_probes", "-")))
        if files_now > files_before:
            wrong.append(f"{weir.name} has {files_now - files_before} descriptors more")
        if memory_now > memory_before + GROWTH and not sanitized:
            wrong.append(f"{weir.name} has grown by {(memory_now - memory_before) >> 20} MiB")
        if counters["exchanges_open"]:
            wrong.append(f"{weir.name} has {counters['exchanges_open']} requests left")
        if not weir.process.runs():
            wrong.append(f"{weir.name} has ended:\n{weir.process.tail()}")
    say("")
    table(("process", "files", "MiB", "open", "by redis", "by fallback", "failures",
           "connects", "probes"), rows)


def read_arguments():
    parser = argparse.ArgumentParser(
        description="Faults of Redis under constant load; see the head of this file.")
    parser.add_argument("--short", action="store_true", help="each fault once, and briefly")
    parser.add_argument("--seconds", type=int, default=600, help="how long (600)")
    parser.add_argument("--build", default=os.path.join(TOP, "build"),
                        help="the build directory")
    parser.add_argument("--only", help="faults, with commas between them")
    arguments = parser.parse_args()
    if arguments.only:
        unknown = set(arguments.only.split(",")) - set(FAULTS) - {LOST}
        if unknown:
            parser.error(f"there is {', '.join([*FAULTS, LOST])}")
    return arguments


def main():
    arguments = read_arguments()
    wanted = arguments.only.split(",") if arguments.only else [*FAULTS, LOST]
    wrong = []
    with Stage(arguments.build) as stage:
        networks = None
        if os.geteuid() == 0:
            try:
                networks = stage.two_networks()
                FAULTS[LOST] = (packets_lost(networks), 2.5, 10, {})
            except (Broken, FileNotFoundError) as why:
                wrong.append(f"{LOST}: no network namespaces although this is root: {why}")
        if not networks:
            say(f"NOT TESTED: {LOST}. " + (wrong[0] if wrong else
                "It needs root, who may make network namespaces."))
        faults = {name: FAULTS[name] for name in FAULTS if name in wanted}
        redis = Redis(stage, networks[1] if networks else None)
        redis.back()
        if "LOADING" in faults:
            prepare_large_file(stage, 300_000 if arguments.short else 3_000_000)
        weirs, memory = start_weirs(stage, redis, networks[0] if networks else None)
        before = warm_up(stage, weirs, memory)
        load = load_on(stage, weirs, memory)
        acts = play(stage, load, redis, weirs, faults, arguments.seconds, arguments.short)
        judge = Judge(load.end(), weirs, memory)
        rows = [judge.row(act, acts) for act in acts]
        say("")
        table(HEAD, rows)
        say(f"\nwhile open: {half_and_most(judge.while_open)} ms (p50/p99); of the memory "
            f"store beside it: {half_and_most(judge.beside)} ms; aim: within 1 ms at p99")
        show_weirs(weirs, before, judge.wrong, stage.is_sanitized())
        wrong += dict.fromkeys(judge.wrong)
    say("")
    for line in wrong:
        say(f"WRONG  {line}")
    say(f"{len(judge.requests)} requests, {len(acts)} faults, "
        + (f"{len(wrong)} things wrong" if wrong else "all as promised"))
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as why:
        sys.exit(f"chaos: {why}")
