"""What the chaos scripts stand on: a directory, servers on addresses of their own, a
constant load, and a table.

Everything that a Stage starts ends with it, however the script ends: processes are
killed by their group (and by the kernel, should the script itself be killed), network
namespaces and the directory are removed. All servers listen on unix sockets in the
directory, but for Redis, which weir is to meet over TCP.
"""
import argparse
import atexit
import calendar
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_S = 20  # longest wait for a server, on a busy machine


class Broken(Exception):
    """The stage itself fell: nothing is known about weir."""


def say(text):
    print(text, flush=True)


def wait_until(holds, seconds, every=0.005):
    """What holds() returned once it was true; False when the time passed first."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            return False
        time.sleep(every)


def kill(pid):
    """One that may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def answers(path):
    """Somebody accepts connections at the unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1)
        try:
            s.connect(path)
        except OSError:
            return False
    return True


class Process:
    """One that a Stage started; a session and a process group of its own."""

    def __init__(self, name, argv, log, **more):
        self.name, self.log = name, log
        with open(log, "ab") as out:
            # setpriv gives way to the program, which keeps its number.
            self.popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv],
                stdout=more.pop("stdout", out), stderr=out,
                stdin=more.pop("stdin", subprocess.DEVNULL),
                start_new_session=True, **more)
        self.pid = self.popen.pid

    def runs(self):
        return self.popen.poll() is None

    def signal(self, number):
        if self.runs():
            os.kill(self.pid, number)

    def kill(self):
        """The whole group, which may outlive its first process."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-15:])

    def memory(self):
        """Bytes that are resident."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return 1024 * int(re.search(r"VmRSS:\s*(\d+)", file.read())[1])

    def files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def children(self):
        """Of all its threads: numbers and states ('Z' is a zombie)."""
        found = {}
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/children", encoding="ascii") as file:
                for pid in file.read().split():
                    try:
                        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                            found[int(pid)] = stat.read().rpartition(") ")[2][0]
                    except (FileNotFoundError, ProcessLookupError):
                        pass  # gone meanwhile
        return found


class Stage:
    """with Stage(build) as stage: ..."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        for program in ("filter/weir", "contrib/echo", "tests/chaos/load"):
            if not os.access(self.program(program), os.X_OK):
                raise Broken(f"there is no {self.program(program)}: ninja -C {self.build}")
        self.dir = tempfile.mkdtemp(prefix="weir-chaos.")
        self.processes, self.namespaces, self.last_acts = [], [], []
        atexit.register(self.close)

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for process in reversed(self.processes):
            process.kill()
        for act in self.last_acts:
            act()
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=False)
        self.processes, self.namespaces, self.last_acts = [], [], []
        if os.environ.get("WEIR_TEST_KEEP"):
            say(f"left in place: {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)
        atexit.unregister(self.close)

    def at_end(self, act):
        """Called when all processes are gone."""
        self.last_acts.append(act)

    def path(self, name):
        return os.path.join(self.dir, name)

    def program(self, name):
        return os.path.join(self.build, name)

    def start(self, name, argv, namespace=None, **more):
        if namespace:
            argv = ["ip", "netns", "exec", namespace, *argv]
        process = Process(name, argv, self.path(name + ".log"), **more)
        self.processes.append(process)
        return process

    def expect(self, process, *sockets):
        """It accepts connections at all of them."""
        for path in sockets:
            if not wait_until(lambda p=path: answers(p) or not process.runs(), PATIENCE_S) \
                    or not process.runs():
                raise Broken(f"{process.name} does not answer:\n{process.tail()}")

    def two_networks(self):
        """Two namespaces with a wire between them: Network objects, of weir and Redis."""
        ends = [Network(f"weir-{side}-{os.getpid()}", f"10.77.0.{i}", side)
                for i, side in ((1, "weir"), (2, "redis"))]
        for end in ends:
            run("ip", "netns", "add", end.name)
            self.namespaces.append(end.name)
        run("ip", "-n", ends[0].name, "link", "add", ends[0].device, "type", "veth",
            "peer", "name", ends[1].device, "netns", ends[1].name)
        for end in ends:
            end.up()
        ends[0].peer, ends[1].peer = ends[1], ends[0]
        for end in ends:
            end.deliver()
        return ends

    def echo(self, name, processes):
        """The echo handler at a unix socket; its path."""
        path = self.path(name + ".sock")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
            s.listen(4096)
            for i in range(processes):
                self.start(f"{name}{i}", [self.program("contrib/echo")], stdin=s)
        return path

    def is_sanitized(self):
        """Memory that is freed is then kept aside."""
        with open(self.program("filter/weir"), "rb") as file:
            return b"__asan_init" in file.read()

    def weir(self, name, text, namespace=None):
        return Weir(self, name, text, namespace)

    def load(self, streams, targets, patience_s=60):
        return Load(self, streams, targets, patience_s)


def read_arguments(what, faults):
    """The command line of both scripts: of all faults those that are wanted, in .faults."""
    parser = argparse.ArgumentParser(
        description=f"Faults of {what} under constant load; see the head of the script.")
    parser.add_argument("--short", action="store_true", help="each fault once, and briefly")
    parser.add_argument("--seconds", type=int, default=600, help="how long (600)")
    parser.add_argument("--build", default=os.path.join(TOP, "build"),
                        help="the build directory")
    parser.add_argument("--only", help="faults, with commas between them")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else faults
    if set(wanted) - set(faults):
        parser.error("there is " + ", ".join(faults))
    arguments.faults = [name for name in faults if name in wanted]
    return arguments


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """One of two namespaces, and its end of the wire. Packets to the other are lost
    when they carry an address that nobody on the wire has: no sender is told."""

    def __init__(self, name, address, device):
        self.name, self.address, self.device, self.peer = name, address, device, None

    def ip(self, *argv):
        return run("ip", "-n", self.name, *argv)

    def up(self):
        self.ip("link", "set", "lo", "up")
        self.ip("address", "add", self.address + "/24", "dev", self.device)
        self.ip("link", "set", self.device, "up")
        self.hardware = json.loads(self.ip("-j", "link", "show", self.device))[0]["address"]

    def send_to(self, hardware):
        self.ip("neighbour", "replace", self.peer.address, "lladdr", hardware,
                "nud", "permanent", "dev", self.device)

    def deliver(self):
        self.send_to(self.peer.hardware)

    def lose(self):
        self.send_to("02:00:00:00:00:99")


class Weir:
    """One weir process. text is weir.ini without addresses; endpoints are shared."""

    def __init__(self, stage, name, text, namespace):
        self.name = name
        self.socket, self.control = stage.path(name + ".sock"), stage.path(name + ".ctl")
        ini = stage.path(name + ".ini")
        write(ini, f"[server]\nlisten = unix:{self.socket}\ncontrol = unix:{self.control}\n"
              f"workers = 2\n{text}")
        self.process = stage.start(name, [stage.program("filter/weir"), "-c", ini], namespace)
        stage.expect(self.process, self.socket, self.control)
        self.forget_log()

    def forget_log(self):
        """What is in the log now is of no interest any more."""
        self.log_from = os.path.getsize(self.process.log)

    def log_lines(self):
        with open(self.process.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_from)
            yield from file

    def counters(self):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(self.control)
                s.sendall(b'{"command":"status"}\n')
                with s.makefile() as answer:
                    return json.loads(answer.readline())["counters"]
        except (OSError, ValueError) as why:
            raise Broken(f"{self.name} does not say how it is ({why}):\n"
                         f"{self.process.tail()}") from why

    def requests(self):
        """Of each line about a request: {number at the path's end: (decided, status)}."""
        line = re.compile(r"event=request .* status=(\d+) .* path=/\w+/(\d+) .*"
                          r" decided=(\S+) ")
        found = (line.search(text) for text in self.log_lines())
        return {int(m[2]): (m[3].strip('"'), int(m[1])) for m in found if m}

    def events(self, pattern):
        """Lines whose event matches: [(monotonic time, line)]."""
        event = re.compile(r'^time=(\S+) level=\S+ event="?(?:%s)' % pattern)
        wall_ahead = time.time() - time.monotonic()
        found = []
        for text in self.log_lines():
            m = event.match(text)
            if m:
                stamp = calendar.timegm(time.strptime(m[1][:19], "%Y-%m-%dT%H:%M:%S"))
                found.append((stamp + int(m[1][20:23]) / 1000 - wall_ahead, text))
        return found


class Request:
    """One line of load. Times in monotonic seconds."""

    __slots__ = ("began", "ended", "target", "stream", "number", "phase", "status", "code",
                 "bytes", "how", "decided")

    def __init__(self, line, streams):
        began, took, self.target, stream, number, self.phase, status, code, size, self.how = \
            line.split()
        self.began = int(began) / 1e6
        self.ended = self.began + int(took) / 1e6
        self.stream, self.number = streams[int(stream)], int(number)
        self.status, self.code, self.bytes = int(status), int(code), int(size)
        self.decided = None

    def ms(self):
        return (self.ended - self.began) * 1000


class Load:
    """streams: {name: "RATE URI [SCRIPT]"}, targets: {name: path of a unix socket}."""

    def __init__(self, stage, streams, targets, patience_s):
        self.names = list(streams)
        self.file = stage.path("load.out")
        argv = [stage.program("tests/chaos/load"), "-t", str(patience_s)]
        for stream in streams.values():
            argv += ["-u", stream]
        argv += [f"{name}=unix:{path}" for name, path in targets.items()]
        with open(self.file, "wb") as out:
            self.process = stage.start("load", argv, stdin=subprocess.PIPE, stdout=out)

    def phase(self, word):
        self.process.popen.stdin.write(f"phase {word}\n".encode())
        self.process.popen.stdin.flush()

    def end(self):
        """All requests, when the last one is over."""
        self.process.popen.stdin.close()
        if self.process.popen.wait() != 0:
            raise Broken(f"load failed:\n{self.process.tail()}")
        with open(self.file, encoding="ascii") as file:
            return [Request(line, self.names) for line in file]


def percentile(values, part):
    values = sorted(values)
    return values[min(int(part * len(values)), len(values) - 1)] if values else None


def half_and_most(took):
    """Of milliseconds: what half of them and what 99 of 100 take at most."""
    if not took:
        return "-/-"
    return f"{percentile(took, 0.5):.2f}/{percentile(took, 0.99):.2f}"


def table(head, rows):
    """Columns as wide as they need; the first one to the left."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in [head, ["-" * width for width in widths], *rows]:
        say("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
