"""The stage of redis.py: one Redis, three weirs that count in it, and one that does not."""
import os
import socket
import time

from stage import PATIENCE_S, Broken, wait_until, write

CALM = "none"  # the fault that is none
CALM_S = 0.5  # so long Redis decides everything before it is said to be back
BACK_S = 1.0
DENIED_S = 1.0  # so long a weir may repeat a refusal without asking again
SETTLED_S = 0.3  # from the fallback's first decision until nobody waits any longer
GROWTH = 24 << 20  # bytes that a weir may have more at the end
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
        time.sleep(0.1)
        counters = [weir.counters() for weir in weirs]
        fallback = [c["decisions_fallback"] for c in counters]
        if fallback != seen:
            seen, since = fallback, time.monotonic()
            first = [c["decisions_redis"] for c in counters]
        elif time.monotonic() - since > CALM_S + 0.2 and \
                all(c["decisions_redis"] > n for c, n in zip(counters, first)):
            return True
    return False


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
    time.sleep(0.2)  # the last one's connection is a descriptor too
    return [weir.process.files() for weir in weirs], [weir.process.memory() for weir in weirs]
