#!/usr/bin/env python3
"""Memory that runs out: weir and weirctl with each of their allocations failing in turn.

	run.py --weir WEIR-NOMEM --weirctl WEIRCTL-NOMEM --echo ECHO [--most N] [--who NAME]
	       [--only WORD] [--seed N]

Whatever fails, each case has to end in the answer it has with memory, in a refusal, or in
an exit with a message: never in a crash, a hang, a lost descriptor, or a request that
passes although its rule refuses it. A command is run once to count what it allocates,
then once with each of these failing. A server is started the same way; once it serves,
each kind of request is repeated with each of its allocations failing, and then once
more with memory: weir has to be as before.

--most N tries at most N failures of each case, spread by the seed; without it all of them.
--who is weir (its own allocations), jansson, sqlite or libuv; may repeat; weir by default.
--only takes the cases with that word in their name. Ends with the number of failures
that were tried and one line for each fault, with the place of the allocation.
"""
import argparse
import json
import mmap
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from records import GET_VALUES, STDIN, head, pairs, record, stream

WHO = {"weir": 1, "jansson": 2, "sqlite": 4, "libuv": 8}
PATIENCE = 30.0
SANITIZER = re.compile(rb"ERROR: (Address|Leak)Sanitizer|runtime error:")
READY = b"event=ready"

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--weir", required=True)
options.add_argument("--weirctl", required=True)
options.add_argument("--echo", required=True)
options.add_argument("--most", type=int)
options.add_argument("--who", action="append", choices=list(WHO))
options.add_argument("--only", default="")
options.add_argument("--seed", type=int, default=random.randrange(1 << 16))
options = options.parse_args()
random.seed(options.seed)
options.weir, options.weirctl, options.echo = map(
    os.path.abspath, (options.weir, options.weirctl, options.echo))
work = tempfile.mkdtemp(prefix="weir-nomem.")
tried = 0
faults = {}  # (case, what, place) -> [numbers]


class Control:
    """The page that failing.c maps too."""

    FIELDS = ("who", "calls", "fail_at", "fail_n", "failed", "trace_n")

    def __init__(self):
        self.path = work + "/control"
        with open(self.path, "wb") as f:
            f.write(b"\0" * 4096)
        self.file = open(self.path, "r+b")
        self.page = mmap.mmap(self.file.fileno(), 4096)

    def __getitem__(self, name):
        return struct.unpack_from("=Q", self.page, 8 * self.FIELDS.index(name))[0]

    def __setitem__(self, name, value):
        struct.pack_into("=Q", self.page, 8 * self.FIELDS.index(name), value)

    def arm(self, who, at, n=1):
        self["fail_at"] = 0
        self["who"] = WHO[who]
        self["calls"] = self["failed"] = self["trace_n"] = 0
        self["fail_n"] = n
        self["fail_at"] = at

    def rest(self):
        self["fail_at"] = 0

    def place(self, program):
        trace = struct.unpack_from("=%dQ" % min(self["trace_n"], 12), self.page, 48)
        out = subprocess.run(
            ["addr2line", "-sfe", program] + [hex(a - 1) for a in trace],
            capture_output=True, text=True).stdout.split("\n")
        names = [f for f in out[0::2] if f and f != "??"]
        return " < ".join(names[:5])


control = Control()


def fault(case, at, what, program):
    key = (case, what, control.place(program))
    if key not in faults:
        print("  %s: %s, %s" % (case, what, key[2]), flush=True)
    faults.setdefault(key, []).append(at)


def numbers(n):
    """Which of n failures are tried."""
    all_of_them = list(range(1, n + 1))
    if options.most and n > options.most:
        return sorted(random.sample(all_of_them, options.most))
    return all_of_them


def environment(**more):
    env = dict(os.environ, NOMEM_CONTROL=control.path)
    env["ASAN_OPTIONS"] = "exitcode=99:allocator_may_return_null=1:" + env.get("ASAN_OPTIONS", "")
    env.pop("GATEWAY_INTERFACE", None)
    env.update(more)
    return env


def judge_exit(p, err):
    """What is wrong with the way a process has ended, whatever it was to do."""
    if SANITIZER.search(err):
        return "sanitizer: " + re.search(rb"(ERROR: [^\n]{0,60}|runtime error:[^\n]*)", err)[0].decode()
    if p.returncode < 0:
        return "died of signal %d" % -p.returncode
    return None


def command(case, argv, judge, env={}, before=None):
    """Runs argv with each of its allocations failing. judge(reference, rc, out, err) says
    what is wrong, or nothing."""
    global tried
    if options.only not in case:
        return

    def run(at):
        if before:
            before()
        control.arm(who, at)
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment(**env), cwd=work)
        try:
            out, err = p.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            return p, None, None
        return p, out, err

    for who in options.who or ["weir"]:
        p, out, err = run(0)
        reference = (p.returncode, out)
        n = control["calls"]
        for at in numbers(n):
            p, out, err = run(at)
            tried += 1
            if out is None:
                wrong = "hangs"
            else:
                wrong = judge_exit(p, err)
            if not wrong and control["failed"]:
                wrong = judge(reference, p.returncode, out, err)
            if wrong:
                fault(case + " (%s)" % who, at, wrong, argv[0])
        print("%s: %s allocates %d times" % (case, who, n), flush=True)


def right_or_told(reference, rc, out, err):
    if rc == 0 and (reference[0] != 0 or out != reference[1]):
        return "exits with 0, but says something else"
    if rc != 0 and not err.strip() and not out.strip():
        return "exits with %d without a word" % rc
    return None


def never_right(reference, rc, out, err):
    if rc == 0:
        return "takes what is wrong"
    return None if err.strip() or out.strip() else "exits without a word"


# -- FastCGI --------------------------------------------------------------------------


def request(path, body=b"", role=1, **more):
    params = {
        "REQUEST_URI": path,
        "SCRIPT_NAME": path,
        "REQUEST_METHOD": "POST" if body else "GET",
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "192.0.2.1",
    }
    params.update(more)
    return head(role, params) + (stream(STDIN, body) if role == 1 else b"")


class Late(Exception):
    pass


def talk(address, data):
    """What comes back until the peer closes."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(PATIENCE)
    raw = b""
    try:
        s.connect(address)
        try:
            s.sendall(data)
        except BrokenPipeError:
            pass
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            raw += piece
    except ConnectionError:
        pass
    except socket.timeout:
        raise Late()
    finally:
        s.close()
    return raw


def ask(address, data):
    """The status, or None when there is no whole answer; and the body."""
    raw, out, ended = talk(address, data), b"", False
    while len(raw) >= 8:
        kind, n, padding = struct.unpack_from("!xBxxHB", raw)
        if kind == 6:
            out += raw[8 : 8 + n]
        ended = ended or kind == 3
        raw = raw[8 + n + padding :]
    fields, _, body = out.partition(b"\r\n\r\n")
    status = re.match(rb"Status: (\d+)", fields)
    if not ended or not status:
        return None, out
    return int(status[1]), body


# -- the server -----------------------------------------------------------------------


def write(name, text):
    with open(work + "/" + name, "w") as f:
        f.write(text)


INI = """[server]
listen = unix:{work}/weir.sock
control = unix:{work}/control.sock
workers = 1
endpoints = endpoints.d/*.ini
backend = echo
spool_memory = 4K
spool_dir = {work}
[store]
type = {store}
[client]
user = token remote_user
directory = sqlite:{work}/users.db
directory_miss_ttl = 0
[log]
requests = all
[site]
@RateLimit = type=global count=1000000 window=1s algorithm=token_bucket
[backend echo]
fastcgi = unix:{work}/echo.sock
[backend programs]
cgi = {work}/programs
[backend nobody]
fastcgi = unix:{work}/nobody.sock
"""
ENDPOINTS = {
    "never": "match = GET /never\n@RateLimit = type=global count=0\n",
    "twice": "match = * /twice\n"
    "@RateLimit = type=ip count=2 window=1h\n"
    "@RateLimit = type=custom key={{header:X-A}}/{{query:q}} count=2 window=1h\n",
    "bucket": "match = * /bucket\n@RateLimit = type=ip count=2 window=1h algorithm=token_bucket\n",
    "mine": "match = GET /mine/{{id}}\n@RateLimit = type=user count=2 window=1h\n"
    "@RateLimit = type=user plan=paid count=unlimited\n",
    "program": "match = * /hello.sh\nbackend = programs\n",
    "gone": "match = * /gone\nbackend = nobody\n",
}


def configure(store="memory", more=""):
    write("weir.ini", INI.format(work=work, store=store) + more)
    os.makedirs(work + "/endpoints.d", exist_ok=True)
    for name, text in ENDPOINTS.items():
        write("endpoints.d/%s.ini" % name, "[endpoint %s]\n" % name + text.format())


def prepare():
    os.mkdir(work + "/programs")
    write("programs/hello.sh", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nhello\\n'\n")
    os.chmod(work + "/programs/hello.sh", 0o755)
    configure()
    for argv in (["db", "init"], ["user", "add", "alice"], ["plan", "add", "paid"]):
        subprocess.run([options.weirctl, "-c", "weir.ini"] + argv, cwd=work, check=True,
            stdout=subprocess.DEVNULL)
    out = subprocess.run([options.weirctl, "-c", "weir.ini", "token", "add", "alice"], cwd=work,
        check=True, capture_output=True, text=True).stdout
    shutil.copy(work + "/users.db", work + "/users.db.whole")
    s = socket.socket(socket.AF_UNIX)
    s.bind(work + "/echo.sock")
    s.listen(64)
    echo = subprocess.Popen([options.echo], stdin=s, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    return echo, re.search(r"\S{20,}", out)[0]


class Server:
    def __init__(self, who, fail_at=0):
        for name in ("weir.sock", "control.sock"):
            if os.path.exists(work + "/" + name):
                os.unlink(work + "/" + name)
        control.arm(who, fail_at)
        self.log = work + "/weir.log"
        with open(self.log, "wb") as log:
            self.p = subprocess.Popen([options.weir, "-c", "weir.ini"], cwd=work,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())
        self.address = work + "/weir.sock"
        self.began = time.monotonic()

    def said(self):
        with open(self.log, "rb") as f:
            return f.read()

    def wait(self, words, since=0):
        """Until the log has these words; False when it ended first."""
        end = time.monotonic() + PATIENCE
        while words not in self.said()[since:]:
            if self.p.poll() is not None:
                return words in self.said()[since:]
            if time.monotonic() > end:
                raise Late()
            time.sleep(0.005)
        return True

    def files(self):
        return len(os.listdir("/proc/%d/fd" % self.p.pid))

    def settles(self, files):
        """Descriptors are closed a moment after the answer."""
        end = time.monotonic() + PATIENCE
        while self.files() > files and time.monotonic() < end:
            time.sleep(0.01)
        return self.files() <= files

    def stop(self):
        """What is wrong with how it ends."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            self.p.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            return "does not stop"
        return judge_exit(self.p, self.said())

    def kill(self):
        self.p.kill()
        self.p.wait()


def starting():
    """A server that starts without some of its memory serves by its rules or says why not."""
    global tried
    case = "starting"
    if options.only not in case:
        return
    for who in options.who or ["weir"]:
        s = Server(who)
        s.wait(READY)
        time.sleep(0.3)
        n = control["calls"]
        s.stop()
        for at in numbers(n):
            tried += 1
            wrong = None
            s = Server(who, at)
            try:
                if s.wait(READY):
                    control.rest()
                    if ask(s.address, request("/never"))[0] == 200:
                        wrong = "passes what is refused"
                    if ask(s.address, request("/x"))[0] != 200:
                        wrong = "serves wrongly"
                    wrong = s.stop() or wrong
                    if not wrong and s.p.returncode != 0:
                        wrong = "exits with %d" % s.p.returncode
                else:
                    s.p.wait()
                    wrong = judge_exit(s.p, s.said())
                    if not wrong and s.p.returncode == 0:
                        wrong = "exits with 0"
                    if not wrong and not s.said().strip():
                        wrong = "exits without a word"
            except Late:
                wrong = "hangs"
                s.kill()
            if wrong:
                fault(case + " (%s)" % who, at, wrong, options.weir)
        print("%s: %s allocates %d times" % (case, who, n), flush=True)


def one(s, data, allowed):
    """One request; what is wrong with its answer."""
    status, body = ask(s.address, data)
    if status is None or status in allowed:
        return None
    if status >= 500:
        try:
            return None if json.loads(body)["code"] // 100 == status else "a strange code"
        except (ValueError, KeyError):
            return "%d without its JSON" % status
    return "answers %d" % status


def at_most(n, s, path, **more):
    """A limit of two: whatever fails, no more than n pass."""
    client = "10.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(3))
    passed = 0
    for _ in range(4):
        status, _ = ask(s.address, request(path, REMOTE_ADDR=client, HTTP_X_A=client, **more))
        if status not in (None, 200, 429) and status < 500:
            return "answers %d" % status
        passed += status == 200
    return "%d pass a limit of 2" % passed if passed > n else None


def status_of(s):
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(PATIENCE)
    try:
        c.connect(work + "/control.sock")
        c.sendall(b'{"command":"status"}\n')
        line = b""
        while not line.endswith(b"\n"):
            piece = c.recv(65536)
            if not piece:
                return None
            line += piece
        json.loads(line)
    except ConnectionError:
        pass
    except ValueError:
        return "the status is no JSON"
    except socket.timeout:
        raise Late()
    finally:
        c.close()
    return None


def reload(s, words):
    since = len(s.said())
    s.p.send_signal(signal.SIGHUP)
    s.wait(words, since)
    if ask(s.address, request("/never"))[0] == 200:
        return "passes what is refused"
    return None


def wrong_reload(s):
    write("endpoints.d/never.ini", "[endpoint never]\nmatch = GET /never\n@RateLimit = count=many\n")
    try:
        return reload(s, b"the old one stays in force")
    finally:
        configure()


def good_reload(s):
    """Taken, or not taken and said so."""
    since = len(s.said())
    s.p.send_signal(signal.SIGHUP)
    end = time.monotonic() + PATIENCE
    while not re.search(rb"configuration reloaded|stays in force", s.said()[since:]):
        if s.p.poll() is not None:
            return None
        if time.monotonic() > end:
            raise Late()
        time.sleep(0.005)
    return "passes what is refused" if ask(s.address, request("/never"))[0] == 200 else None


def kinds(token, most=2):
    body = bytes(range(256)) * 800
    values = record(GET_VALUES, pairs({"FCGI_MAX_CONNS": "", "FCGI_MPXS_CONNS": "", "X": ""}))
    return {
        "passed to an application": lambda s: one(s, request("/a?b=c"), (200,)),
        "passed to a program": lambda s: one(s, request("/hello.sh"), (200,)),
        "a body in a file": lambda s: one(s, request("/a", body), (200,)),
        "a body for a program": lambda s: one(s, request("/hello.sh", body), (200,)),
        "refused": lambda s: one(s, request("/never"), (403,)),
        "limited": lambda s: at_most(most, s, "/twice?q=1"),
        "limited by a bucket": lambda s: at_most(most, s, "/bucket"),
        "a user by token": lambda s: one(
            s, request("/mine/7", HTTP_AUTHORIZATION="Bearer " + token), (200, 429)),
        "no user": lambda s: one(
            s, request("/mine/7", HTTP_AUTHORIZATION="Bearer wrong"), (200, 429)),
        "a backend that is gone": lambda s: one(s, request("/gone"), ()),
        "an authorizer": lambda s: one(s, request("/never", role=2), (403,)),
        "an authorizer that allows": lambda s: one(s, request("/a", role=2), (200,)),
        "a path with much to decode": lambda s: one(
            s, request("/%61//b/../" + "c" * 5000 + "?" + "d" * 5000), (200,)),
        "management": lambda s: talk(s.address, values + request("/a")) and None,
        "status": status_of,
        "reload": good_reload,
        "reload with a mistake": wrong_reload,
    }


def serves(s):
    """Where Redis counts, weir may have to find it again first."""
    end = time.monotonic() + PATIENCE
    while ask(s.address, request("/a"))[0] != 200:
        if s.p.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def serving(name, kind):
    """One kind of request, again and again, in one process."""
    global tried
    case = "serving: " + name
    if options.only not in case:
        return
    for who in options.who or ["weir"]:
        s = Server(who)
        if not s.wait(READY):
            raise SystemExit("weir does not start:\n" + s.said().decode())
        serves(s)
        kind(s)  # what is made once
        time.sleep(0.05)
        files = s.files()
        control.arm(who, 0)
        wrong = kind(s)
        if wrong:
            raise SystemExit("%s, and nothing fails: %s" % (case, wrong))
        n = control["calls"]
        for at in numbers(n + 2):
            tried += 1
            since = len(s.said())
            control.arm(who, at)
            try:
                wrong = kind(s)
                control.rest()
                if s.p.poll() is not None:
                    wrong = s.stop() or "exits with %d" % s.p.returncode
                elif not wrong and not serves(s):
                    wrong = "does not serve afterwards"
                elif not wrong and ask(s.address, request("/never"))[0] != 403:
                    wrong = "does not refuse afterwards"
                elif not wrong and not s.settles(files):
                    wrong = "%d descriptors more" % (s.files() - files)
            except Late:
                wrong = "hangs"
            except ConnectionError:
                s.p.wait(timeout=PATIENCE)
                wrong = s.stop() or "is gone"
            if wrong:
                fault(case + " (%s)" % who, at, wrong, options.weir)
                s.kill()
                s = Server(who)
                s.wait(READY)
                serves(s)
                kind(s)
        control.rest()
        wrong = s.stop()
        if wrong or s.p.returncode != 0:
            fault(case + " (%s)" % who, 0, wrong or "exits with %d" % s.p.returncode, options.weir)
        print("%s: %s allocates %d times" % (case, who, n), flush=True)


def as_cgi(reference, rc, out, err):
    status = re.match(rb"Status: (\d+)", out)
    if rc != 0:
        return None if err.strip() else "exits with %d without a word" % rc
    if not status:
        return "answers nothing"
    if int(status[1]) != int(re.match(rb"Status: (\d+)", reference[1])[1]) and int(status[1]) < 500:
        return "answers %d" % int(status[1])
    return None


def start_redis():
    redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", work + "/redis.sock",
        "--save", "", "--dir", work], stdout=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while not os.path.exists(work + "/redis.sock") and time.monotonic() < end:
        time.sleep(0.01)
    return redis


def without_redis(token):
    """Redis is not there, or takes connections and says nothing; the fallback counts here. One
    that it has no memory to count passes, as policy = local has it, so there is one more."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(work + "/silent.sock")
        silent.listen(4096)
        for how, place in (("absent", "no-redis.sock"), ("silent", "silent.sock")):
            configure("redis\nurl = unix://%s/%s" % (work, place), "[fallback]\npolicy = local\n")
            for name in ("passed to an application", "limited", "limited by a bucket", "refused",
                    "a body in a file", "status"):
                serving("%s, with Redis %s" % (name, how), kinds(token, 3)[name])


def main():
    redis = None
    echo, token = prepare()
    try:
        weir, ctl = options.weir, [options.weirctl, "-c", "weir.ini"]
        data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/config")
        command("weir -t", [weir, "-t", "-c", "weir.ini"], right_or_told)
        command("weir -t, mistakes", [weir, "-t", "-c", data + "/bad/many-mistakes.ini"], never_right)
        command("weir -t, one mistake", [weir, "-t", "-c", data + "/bad/rule-key.ini"], never_right)
        command("weirctl check", ctl + ["check"], right_or_told)
        command("weirctl options", ctl + ["options"], right_or_told)

        def whole():
            for name in ("users.db", "users.db-wal", "users.db-shm"):
                if os.path.exists(work + "/" + name):
                    os.unlink(work + "/" + name)
            shutil.copy(work + "/users.db.whole", work + "/users.db")

        # A new token is another each time.
        told = lambda reference, rc, out, err: right_or_told((0, out), rc, out, err)
        command("weirctl token add", ctl + ["token", "add", "alice"], told, before=whole)
        command("weirctl token list", ctl + ["token", "list", "--json"], right_or_told, before=whole)
        command("weirctl user add", ctl + ["user", "add", "bob"], right_or_told, before=whole)
        command("weirctl user list", ctl + ["user", "list"], right_or_told, before=whole)
        whole()
        cgi = {"GATEWAY_INTERFACE": "CGI/1.1", "REQUEST_METHOD": "GET", "REQUEST_URI": "/never",
            "SCRIPT_NAME": "/never", "REMOTE_ADDR": "192.0.2.1", "SERVER_PROTOCOL": "HTTP/1.1",
            "WEIR_CONFIG": work + "/cgi.ini"}
        write("cgi.ini", INI.format(work=work, store="redis")
            + "[fallback]\npolicy = local\n")
        write("cgi.ini", open(work + "/cgi.ini").read().replace(
            "type = redis", "type = redis\nurl = unix://%s/no-redis.sock" % work))
        command("a CGI program, refused", [weir], as_cgi, env=cgi)
        command("a CGI program, passed to a program", [weir], as_cgi,
            env=dict(cgi, REQUEST_URI="/hello.sh", SCRIPT_NAME="/hello.sh"))
        command("a CGI program, passed to an application", [weir], as_cgi,
            env=dict(cgi, REQUEST_URI="/a", SCRIPT_NAME="/a"))
        starting()
        for name, kind in kinds(token).items():
            serving(name, kind)
        without_redis(token)
        if shutil.which("redis-server"):
            redis = start_redis()
            configure("redis\nurl = unix://%s/redis.sock" % work, "[fallback]\npolicy = closed\n")
            for name in ("passed to an application", "limited", "a body in a file"):
                serving(name + ", with Redis", kinds(token)[name])
    finally:
        echo.kill()
        if redis:
            redis.kill()
        shutil.rmtree(work, ignore_errors=True)
    print("%d failures tried, %d faults (seed %d)" % (tried, len(faults), options.seed))
    for (case, what, place), at in sorted(faults.items()):
        print("  %s: %s; number %s; %s" % (case, what, ", ".join(map(str, at[:5])), place))
    sys.exit(bool(faults) or not tried)


main()
