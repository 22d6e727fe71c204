#!/usr/bin/env python3
"""What a server of CGI programs may get wrong, tried on one at a unix socket.

	cgi_faults.py NAME SOCKET DIRECTORY

Puts programs into DIRECTORY (which the server must run programs from), asks for them as
a web server would, and prints a line for each fault: whether NAME has it and what was
seen. Exits with 1 when there is one. compare_fcgiwrap.sh runs it.
"""
import os
import re
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from records import STDIN, head, record, stream

name, address, directory = sys.argv[1:4]
directory = os.path.realpath(directory)
faults = 0


def request(script, more, length):
    params = {
        "SCRIPT_FILENAME": script if script.startswith("/") else directory + "/" + script,
        "SCRIPT_NAME": "/" + script,
        "REQUEST_URI": "/" + script,
        "REQUEST_METHOD": "POST" if length else "GET",
        "CONTENT_LENGTH": str(length),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
    }
    params.update(more)
    return head(1, params)


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
    return s


class Answer:
    """out, status (0: none), ended, and the moments at which output came."""

    def __init__(self, script, body=b"", more={}, patience=4.0):
        began = time.monotonic()
        to_send = memoryview(request(script, more, len(body)) + stream(STDIN, body))
        raw, self.out, self.times, self.ended = b"", b"", [], False
        s = connect()
        s.setblocking(False)
        while not self.ended and time.monotonic() - began < patience:
            try:
                to_send = to_send[s.send(to_send[:65536]) :] if to_send else to_send
            except BlockingIOError:
                pass
            except OSError:
                to_send = None
            try:
                piece = s.recv(65536)
                if not piece:
                    break
                raw += piece
            except BlockingIOError:
                time.sleep(0.002)
            except OSError:
                break
            while len(raw) >= 8:
                n, padding = struct.unpack("!HB", raw[4:7])
                if len(raw) < 8 + n + padding:
                    break
                if raw[1] == 6 and n:
                    self.out += raw[8 : 8 + n]
                    self.times.append(time.monotonic() - began)
                self.ended = self.ended or raw[1] == 3
                raw = raw[8 + n + padding :]
        s.close()
        self.seconds = time.monotonic() - began
        status = re.search(rb"^Status: (\d+)", self.out, re.M)
        self.status = int(status[1]) if status else 200 if b"\n" in self.out else 0


def program(file, text, mode=0o755):
    with open(os.path.join(directory, file), "w") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(os.path.join(directory, file), mode)


def fault(what, is_there, seen):
    global faults
    faults += is_there
    print(f"{name:9} {'FAULT' if is_there else 'fine '}  {what}: {seen}")


HEAD = "printf 'Content-Type: text/plain\\n\\n'\n"

# Servers that take one request at a time are blocked by what they hang in, so what hangs
# comes last.
program("env", HEAD + "exec env")
a = Answer("env", more={"PATH": "/evil:/usr/bin:/bin", "LD_PRELOAD": "/nonexistent/x.so"})
fault("environment from the peer", b"/evil" in a.out or b"LD_PRELOAD" in a.out,
      "PATH and LD_PRELOAD " + ("handed on" if b"/evil" in a.out else "kept out"))

a = Answer("env", more={"HTTP_PROXY": "http://evil.example"})
fault("HTTP_PROXY from the client", b"evil.example" in a.out,
      "handed on" if b"evil.example" in a.out else "kept out")

program("plain", HEAD, 0o644)
missing, forbidden = Answer("none").status, Answer("plain").status
fault("a missing program", missing != 404 or forbidden != 403,
      f"{missing}; one that may not be executed: {forbidden}")

a = Answer("/bin/sh", more={"SCRIPT_NAME": "/../../../../bin/sh", "DOCUMENT_ROOT": directory})
fault("a program outside the directory", a.status in (200, 502), f"status {a.status}")

program("early", "printf 'Status: 413 Content Too Large\\n\\nno'\n")
a = Answer("early", body=b"x" * 1000000)
fault("a program that answers 413 and reads nothing", a.status != 413, f"status {a.status}")

program("slow", HEAD + "for i in 1 2 3; do echo $i; sleep 0.5; done\n")
a = Answer("slow")
spread = a.times[-1] - a.times[0] if a.times else 0
fault("output of a program that pauses", spread < 0.8, f"came within {spread:.1f} s of 1.5 s")

program("daemon", HEAD + "echo ok\nsleep 3 2>/dev/null &\n")
a = Answer("daemon")
fault("a child that holds the output", a.seconds > 2.5, f"answered after {a.seconds:.1f} s")

pid_file = os.path.join(directory, "pid")
program("sleeper", f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}\nexec sleep 20\n")
s = connect()
s.sendall(request("sleeper", {}, 0) + record(STDIN))
while not os.path.exists(pid_file):
    time.sleep(0.01)
s.close()
pid = int(open(pid_file).read())
left = time.monotonic()


def runs(pid):
    try:
        return ") Z" not in open(f"/proc/{pid}/stat").read()
    except FileNotFoundError:
        return False


while runs(pid) and time.monotonic() - left < 3:
    time.sleep(0.01)
fault("a program whose client left", runs(pid),
      "runs on" if runs(pid) else f"ended after {time.monotonic() - left:.2f} s")
if runs(pid):
    os.kill(pid, 9)

program("first", HEAD + "head -c 300000 /dev/zero | tr '\\0' x\necho; wc -c\n")
a = Answer("first", body=b"y" * 1000000)
fault("a program that writes 300 KB before it reads 1 MB", b"1000000" not in a.out,
      f"{len(a.out)} bytes came in {a.seconds:.1f} s")

sys.exit(1 if faults else 0)
