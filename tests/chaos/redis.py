#!/usr/bin/env python3
"""Everything that can befall Redis, one thing after the other, under constant load.

	redis.py [--short | --seconds N] [--build DIRECTORY] [--only FAULT,...]

Three weir processes count in one real redis-server; a fourth counts in memory, for
comparison. Each gets the same requests all the time, as web servers send them, for a
FastCGI handler. The faults come in turn, as often as they fit into N seconds (600; --short
is one turn of short ones, about a minute). --only takes some of them: redis.py --only help
lists them.

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

Below it the fewest that were admitted of a limit that is always reached, while Redis decided
for a window and a half on end: not less than half of the limit, so that refusing everybody
is not taken for keeping it.

Exits with 1 when anything is not as promised. What is promised without a figure here:
no request is charged twice, and log lines come once a change.

As root the servers are in two network namespaces with a wire between them, and losing
packets on that wire is one of the faults. Otherwise that one is left out.
"""
import os
import signal
import sys
import time

from redis_judge import HEAD, Judge, show_weirs
from redis_scene import (CALM, LIMIT, PASSWORD, WINDOW_S, Redis, load_on,
                         prepare_large_file, start_weirs, until_calm, warm_up)
from stage import PATIENCE_S, Broken, Stage, half_and_most, read_arguments, say, table

LOST = "packets lost"


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
    time.sleep(length)
    redis.start()
    act.over = redis.back()


@fault("SIGSTOP", 2.5, 30)
def stopped(redis, act, length):
    redis.process.signal(signal.SIGSTOP)
    time.sleep(length)
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
    time.sleep(length)
    act.over = time.monotonic()
    redis.command("CONFIG", "SET", "maxmemory", "0")


@fault("READONLY", 2, 8)
def replica(redis, act, length):
    redis.command("REPLICAOF", "127.0.0.1", "1")
    time.sleep(length)
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
        time.sleep(0.2)
    act.over = time.monotonic()


@fault("SCRIPT FLUSH", 2, 8, lossless=True)
def flushed(redis, act, length):
    end = time.monotonic() + length
    while time.monotonic() < end:
        redis.command("SCRIPT", "FLUSH")
        time.sleep(0.02)
    act.over = time.monotonic()


@fault("wrong type", 2, 8)
def wrong_type(redis, act, length):
    key = redis.command("KEYS", "rate:global:{tight}:*")[0]
    redis.command("MULTI")
    redis.command("DEL", key)
    redis.command("RPUSH", key, "no count")
    act.losses.append(time.monotonic())
    redis.command("EXEC")
    time.sleep(length)
    act.over = time.monotonic()
    redis.command("DEL", key)


@fault("AUTH changed", 2, 8)
def password_changed(redis, act, length):
    redis.command("CONFIG", "SET", "requirepass", "second")
    redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    time.sleep(length)
    act.over = time.monotonic()
    redis.command("CONFIG", "SET", "requirepass", PASSWORD)


def nothing(redis, act, length):
    time.sleep(length)
    act.over = time.monotonic()


def packets_lost(networks):
    def lose(redis, act, length):
        for network in networks:
            network.lose()
        time.sleep(length)
        for network in networks:
            network.deliver()
        act.over = time.monotonic()
    return lose


#
# The play
#


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
            time.sleep(0.3 if short else 1.5)
            function(redis, act, length_short if short else length_long)
            until_calm(weirs, 10)
            load.phase("between")
            act.ended = time.monotonic()
            time.sleep(0.2)  # for answers that are still under way
            if name == "LOADING":
                after_loading(redis, act)
                until_calm(weirs, 10)
            act.charged = redis.charged(act.phase)
            acts.append(act)
            say(f"  {act.ended - act.began:6.1f} s  {name}")
    return acts


def make_networks(stage, wrong):
    """Both, or None with the reason said: a failure only where they should be possible."""
    why = "It needs root, who may make network namespaces."
    if os.geteuid() == 0:
        try:
            networks = stage.two_networks()
            FAULTS[LOST] = (packets_lost(networks), 2.5, 10, {})
            return networks
        except (Broken, FileNotFoundError) as failure:
            why = f"This is root, and yet: {failure}"
            wrong.append(f"{LOST}: no network namespaces")
    say(f"NOT TESTED: {LOST}. {why}")
    return None, None


def main():
    arguments = read_arguments("Redis", [*FAULTS, LOST, CALM])
    wrong = []
    with Stage(arguments.build) as stage:
        here, there = make_networks(stage, wrong)
        # Behind the others: what they leave must not be a weir that only refuses.
        FAULTS[CALM] = (nothing, 5, 10, {"lossless": True})
        faults = {name: FAULTS[name] for name in arguments.faults if name in FAULTS}
        if not faults:
            raise Broken("nothing is left to be tested")
        redis = Redis(stage, there)
        redis.back()
        if "LOADING" in faults:
            prepare_large_file(stage, 300_000 if arguments.short else 3_000_000)
        weirs, memory = start_weirs(stage, redis, here)
        before = warm_up(stage, weirs, memory)
        load = load_on(stage, weirs, memory)
        acts = play(stage, load, redis, weirs, faults, arguments.seconds, arguments.short)
        judge = Judge(load.end(), weirs, memory)
        rows = [judge.row(act, acts) for act in acts]
        say("")
        table(HEAD, rows)
        say(f"\nwhile open: {half_and_most(judge.while_open)} ms (p50/p99); of the memory "
            f"store beside it: {half_and_most(judge.beside)} ms; aim: within 1 ms at p99")
        seen, fewest = judge.admitted_in_calm(acts)
        say(f"in calm: at least {fewest} of /tight admitted within {1.5 * WINDOW_S} s, seen "
            f"{seen} times; aim: {LIMIT // 2}")
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
