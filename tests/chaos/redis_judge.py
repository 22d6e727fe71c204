"""What redis.py makes of the requests of a run: a row for each fault, and what is wrong."""
from bisect import bisect_left

from redis_scene import (BACK_S, CALM, CALM_S, DENIED_S, GROWTH, LIMIT, LOCAL, SETTLED_S,
                         SHARE, TIMEOUT_MS, WINDOW_S)
from stage import half_and_most, percentile, say, table, wait_until


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


def calm_spans(requests):
    """From when to when Redis decided everything."""
    since = requests[0].began
    for request in requests:
        if request.decided != "redis":
            yield since, request.began
            since = max(since, request.ended)
    yield since, requests[-1].began


def while_open(requests, until):
    """What the fallback decided once it was in charge: after its first decisions, some
    of which had waited for Redis."""
    fallback = [r for r in requests if r.decided == "fallback"]
    if not fallback:
        return [], None
    since = min(r.ended for r in fallback) + SETTLED_S
    return [r for r in fallback if r.stream in LOCAL and since <= r.began < until], since


class Judge:
    """Makes a row of each act, and collects what is not as promised."""

    def __init__(self, requests, weirs, memory):
        self.wrong, self.weirs, self.memory = [], weirs, memory
        self.requests = sorted(requests, key=lambda r: r.began)
        decided = {weir.name: weir.requests() for weir in [*weirs, memory]}
        for request in self.requests:
            request.decided = decided[request.target].get(request.number, ("", 0))[0]
        self.of_weirs = [r for r in self.requests if r.target != memory.name]
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

    def admitted_in_calm(self, acts):
        """While Redis decides, /tight is not only refused: how often that could be seen, and
        the fewest that were admitted. What was taken when a stretch of a window and a half
        began is free again after the window, so of those asked in the half as many are
        admitted as the limit allows, if they were not before. Half of that is enough here:
        when a request was decided is known only to lie between its beginning and its end."""
        tight = [r for r in self.of_weirs if r.stream == "tight"]
        began = [r.began for r in tight]
        seen, fewest = 0, None
        for since, until in calm_spans(self.of_weirs):
            since += DENIED_S
            while since + 1.5 * WINDOW_S <= until:
                end = since + 1.5 * WINDOW_S
                first, last = bisect_left(began, since - 1), bisect_left(began, end)
                asked = last - bisect_left(began, since + WINDOW_S)
                admitted = sum(r.status == 200 and r.ended >= since
                               for r in tight[first:last])
                if asked >= LIMIT // 2:  # else the machine was busy with something else
                    seen += 1
                    fewest = admitted if fewest is None else min(fewest, admitted)
                    if admitted < min(asked, LIMIT) // 2:
                        self.wrong.append(f"calm: of /tight only {admitted} were admitted "
                                          f"within {1.5 * WINDOW_S} s")
                since += WINDOW_S / 4
        if not seen and any(act.fault == CALM for act in acts):
            self.wrong.append("calm: Redis never decided everything for long enough to see "
                              "whether /tight is admitted")
        return seen, fewest

    def back(self, act):
        """The slowest process's time."""
        times = [seconds_until_calm([r for r in self.of_weirs if r.target == weir.name],
                                    act.over) for weir in self.weirs]
        if None in times:
            self.blame(act, "a process did not let Redis decide again")
            return None
        # What the machine made others wait for in those seconds, it made these wait for too.
        stall = max((r.ms() / 1000 for r in self.requests if r.target == self.memory.name
                     and act.over <= r.began < act.over + BACK_S), default=0)
        if max(times) > BACK_S + stall:
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


def show_weirs(weirs, before, wrong, sanitized):
    files, memory = before
    wait_until(lambda: all(w.process.files() <= n for w, n in zip(weirs, files)), 10, 0.1)
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
