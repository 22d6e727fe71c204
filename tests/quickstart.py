#!/usr/bin/python3
"""The quick start as somebody tries it: it stays up, what it says to try works, and
after Ctrl-C nothing of it is left.

	WEIR_BUILD=DIRECTORY tests/quickstart.py
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.05)


def relatives(session, mark):
    """Processes of that session, or with mark in their arguments or environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/stat") as f:
                state, _, _, sid = f.read().rpartition(")")[2].split()[:4]
            about = b""
            for name in "cmdline", "environ":
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    about += f.read()
        except OSError:  # it has ended, or is not ours to look at
            continue
        if state != "Z" and (int(sid) == session or mark.encode() in about):
            found.append(about.replace(b"\0", b" ")[:80].decode(errors="replace"))
    return found


def try_what_it_says(text):
    """Each line of the kind "  command        what it is"."""
    said = text.split("it stays up; try")[1]
    lines = [re.split(r"\s{3,}", line.strip())[0] for line in said.splitlines()[1:]]
    commands = [l for l in lines if l.startswith("curl ") or " status" in l]
    pages = [l for l in lines if l.startswith("http://")]
    assert len(commands) == 3 and len(pages) == 1, said
    for command in commands + [f"curl -i {page}" for page in pages]:
        # The show has used the limits up: until they are free again it is 429.
        run = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
        print(f"  $ {command}\n    {run.stdout.splitlines()[0] if run.stdout else run.stderr}")
        assert run.returncode == 0, run
        if command.startswith("curl "):
            assert re.match(r"HTTP/1.1 (200|429) ", run.stdout), run
        else:
            assert "requests_passed" in run.stdout, run
    subprocess.run(commands[1], shell=True, check=True, capture_output=True)
    wait_until("the limit of ten seconds is never free again", 60,
               lambda: "HTTP/1.1 200 " in subprocess.run(
                   commands[1], shell=True, capture_output=True, text=True, timeout=60).stdout)


def run(words, attempt, stop, status):
    """Starts it, waits for words, attempts something with what it said, and stops it."""
    with tempfile.TemporaryDirectory(prefix="weir-quickstart-test.") as place:
        os.chmod(place, 0o755)  # the web server becomes somebody else
        log = os.path.join(place, "log")
        with open(log, "wb") as out:
            # A shell in the background would have it ignore SIGINT.
            p = subprocess.Popen(
                [f"{TOP}/contrib/quickstart.sh", "--port", str(free_port())],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": place}, start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        try:
            def says(words):
                assert p.poll() is None, f"it has ended with {p.returncode}"
                with open(log) as f:
                    return words in f.read()

            wait_until("it does not come up", 600, lambda: says(words))
            with open(log) as f:
                attempt(f.read())
            assert relatives(p.pid, place), "it runs nothing"
            assert any(n.startswith("weir-quickstart.") for n in os.listdir(place))
            stop(p.pid)
            assert p.wait(timeout=60) == status, f"it ends with {p.returncode}, not {status}"
            left = relatives(p.pid, place)
            assert not left, f"still there: {left}"
            assert os.listdir(place) == ["log"], os.listdir(place)
        except BaseException:
            with open(log) as f:
                print(f.read(), file=sys.stderr)
            raise
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def interrupt(pid):
    """As a terminal does: everybody in the foreground gets it."""
    os.killpg(pid, signal.SIGINT)


UP = "Ctrl-C stops everything."

print("Ctrl-C")
run(UP, try_what_it_says, interrupt, 130)
print("Ctrl-C before it is up")
run("\n== starting", lambda text: None, interrupt, 130)
print("SIGTERM to the script alone")
run(UP, lambda text: None, lambda pid: os.kill(pid, signal.SIGTERM), 143)
print("the quick start leaves nothing behind")
