"""The stage of backends.py: healthy backends, others that break, and one weir."""
import os
import socket
import struct
import sys
import threading
import time

from stage import TOP, kill, write

sys.path.insert(0, os.path.join(TOP, "tests", "support"))
from records import END, STDOUT, record

CONNECT_S, SILENCE_S, TOTAL_S = 0.5, 1, 2  # as LIMITS below has them
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


def stdout(text):
    return record(STDOUT, text)


def end(protocol_status=0):
    return record(END, struct.pack("!LB3x", 0, protocol_status))


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
            kill(pid)

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
            kill(pid)


def start_weir(stage, props):
    os.mkdir(stage.path("endpoints"))
    for name in STREAMS:
        write(stage.path(f"endpoints/{name}.ini"),
              f"[endpoint {name}]\nmatch = GET /{name}/{{n}}\nbackend = {name}\n"
              "@RateLimit = type=global count=100000 window=1s\n")
    return stage.weir("weir", WEIR_INI.format(
        dir=stage.dir, bad=props.actor.address, pair=props.actor.address, limits=LIMITS))


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
