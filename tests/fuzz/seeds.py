#!/usr/bin/env python3
"""Writes the seeds of the fuzz drivers: corpus/DRIVER/what-it-is.

What a driver's input is made of, its first comment says. Run it after changing one of
them; the files are kept in the repository.
"""
import os
import struct

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7
GET_VALUES = 9


def record(kind, content=b"", rid=1, padding=0, version=1):
    return (struct.pack(">BBHHBB", version, kind, rid, len(content), padding, 0)
            + content + bytes(padding))


def pair(name, value):
    def length(n):
        return bytes([n]) if n < 128 else struct.pack(">I", n | 1 << 31)
    name, value = name.encode(), value if isinstance(value, bytes) else value.encode()
    return length(len(name)) + length(len(value)) + name + value


def begin(role=1, keep=0):
    return record(BEGIN, struct.pack(">HB5x", role, keep))


HEAD = (pair("REQUEST_METHOD", "GET") + pair("REQUEST_URI", "/api/eval?id=7")
        + pair("REMOTE_ADDR", "192.0.2.1") + pair("HTTP_HOST", "example.org"))
POST = (pair("REQUEST_METHOD", "POST") + pair("CONTENT_LENGTH", "3")
        + pair("REQUEST_URI", "/submit") + pair("REMOTE_ADDR", "192.0.2.1"))
LONG = pair("HTTP_LONG", "x" * 200)
GET_ONE = begin() + record(PARAMS, HEAD) + record(PARAMS) + record(STDIN)
ENDED = record(END, bytes(8))


def records():
    cut = b"\x07\x00"
    yield "one-get", cut + GET_ONE
    yield "post-with-body", cut + begin() + record(PARAMS, POST) + record(PARAMS) \
        + record(STDIN, b"abc") + record(STDIN)
    yield "padded", cut + record(PARAMS, HEAD, padding=7) + record(PARAMS, padding=255)
    yield "pairs-over-two-records", cut + record(PARAMS, HEAD[:20]) + record(PARAMS, HEAD[20:])
    yield "long-length", cut + record(PARAMS, LONG)
    yield "length-beyond-the-end", cut + record(PARAMS, b"\xff\xff\xff\xff\xff\xff\xff\xffx")
    yield "wrong-version", cut + record(STDIN, b"x", version=2)
    yield "pairs-alone", b"\x00\x00" + HEAD + LONG
    yield "record-that-breaks-off", cut + GET_ONE[:-3]


def request():
    yield "get", HEAD
    yield "post", POST
    yield "long-value", HEAD + LONG
    yield "isindex", pair("REQUEST_METHOD", "GET") + pair("QUERY_STRING", "one+%74wo+3")
    yield "httpoxy", HEAD + pair("HTTP_PROXY", "evil:80") + pair("http_proxy", "x")
    yield "repeated-fields", HEAD + pair("HTTP_COOKIE", "a=1") + pair("HTTP_COOKIE", "b=2") \
        + pair("HTTP_X", "1") + pair("HTTP_X", "2")
    yield "own-names", HEAD + pair("WEIR_CLIENT", "me") + pair("LD_PRELOAD", "/x.so") + pair("PATH", ".")
    yield "nul-in-value", HEAD + pair("HTTP_X", b"a\0b") + pair("PATH_INFO", b"/a\r\nb")
    yield "odd-names", pair("HTTP_", "x") + pair("HTTP_A=B", "x") + pair("", "") + pair("HTTP_A-B", "x")
    yield "absolute-uri", pair("REQUEST_URI", "http://example.org/a?b#c") + pair("SERVER_PORT", "")
    yield "script-name", pair("SCRIPT_NAME", "/a%b#") + pair("PATH_INFO", "/c") + pair("CONTENT_LENGTH", "")
    yield "length-twice", POST + pair("CONTENT_LENGTH", "99999999999999999999")


def answer():
    def said(text, flags=0):
        return bytes([flags, 3, 20, 40]) + text.encode("latin-1")
    yield "plain", said("Content-Type: text/html\r\n\r\n<p>hello")
    yield "status", said("Status: 404 Not Found\nContent-Type: text/plain\n\nno")
    yield "length", said("Content-Length: 5\r\n\r\nhello and more")
    yield "length-short", said("Content-Length: 50\r\n\r\nhello")
    yield "length-twice", said("Content-Length: 5\r\nContent-Length: 5, 5\r\n\r\nhello")
    yield "chunked", said("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    yield "chunk-extension", said("Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nT: x\r\n\r\n")
    yield "chunk-broken", said("Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n")
    yield "chunk-huge", said("Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx")
    yield "nph", said("HTTP/1.1 201 Created\r\nStatus: 201\r\nX: y\r\n\r\n")
    yield "location", said("Location: /elsewhere\n\n")
    yield "folded", said("X-Long: one\r\n two\r\n\tthree\r\n \r\n\r\nbody")
    yield "connection", said("Connection: close, X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\nUpgrade: h2\r\n\r\n")
    yield "sendfile", said("X-Sendfile: /etc/passwd\r\nX-Accel-Redirect: /x\r\nX-LIGHTTPD-send-file: /y\r\n\r\n")
    yield "sendfile-kept", said("X-Sendfile: /x\r\nX-Accel-Buffering: no\r\n\r\n", 2)
    yield "rate-limit", said("RateLimit: x\r\nRateLimit-Policy: y\r\nX-RateLimit-Limit: 5\r\n\r\n", 12)
    yield "no-body", said("Status: 304\r\nContent-Length: 9\r\n\r\nbody body", 1)
    yield "head", said("Content-Length: 9\r\n\r\n", 1)
    yield "no-content", said("Status: 204 x\r\nContent-Length: 4\r\n\r\nbody")
    yield "not-an-answer", said("just text\nand more\n")
    yield "empty-head", said("\r\nbody")
    yield "control-byte", said("X: a\x01b\r\n\r\n")
    yield "two-cookies", said("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n")
    yield "space-before-colon", said("X : a\r\n\r\n")
    yield "status-contradicts", said("Status: 200\r\nStatus: 500\r\n\r\n")


def forwarded():
    yield "list", b"203.0.113.9, 192.0.2.1, 10.0.0.1"
    yield "ipv6", b"2001:db8:8000::1, [2001:db8::2]:80"
    yield "mapped", b"::ffff:192.0.2.1\n10.9.9.9"
    yield "elements", b'Ffor=192.0.2.60;proto=http;by=203.0.113.43, for="[2001:db8:cafe::17]:4711"'
    yield "quotes", b'Ffor="192.0.2.1\\"", for="_hidden", FOR = 10.0.0.1'
    yield "open-quote", b'Ffor="x, for=192.0.2.1, for=10.0.0.2'
    yield "both", b"192.0.2.1, 10.0.0.1\nFfor=192.0.2.1"
    yield "contradictory", b"192.0.2.1\nFfor=192.0.2.2;;"
    yield "unknown", b"unknown, 10.0.0.1\nFfor=unknown"
    yield "ports", b"192.0.2.1:65535, 10.0.0.1:_abc, 10.0.0.2:0"
    yield "scope", b"fe80::1%eth0, 10.0.0.1"
    yield "only-trusted", b"10.0.0.3,, ,10.0.0.2 ,\t10.0.0.1"
    yield "many-fields", b"\n".join([b"10.0.0.1"] * 20)


def path():
    for name, text in {
        "dots": "/a/./b/../c//d/", "encoded": "/api//eval/%73ubmit/", "slash": "/a%2Fb%252F",
        "dots-encoded": "/%2e%2E/%2e/x", "fragment": "/a#b/../c", "broken": "/%zz%4%",
        "nul": "/a%00b", "root": "/", "none": "", "relative": "a/b", "up": "/../../..",
        "script": "/index.php/a/b", "utf8": "/%E7%94%A8/\u7528", "many": "/" * 60 + "a/.." * 20,
    }.items():
        yield name, text.encode()


def match():
    common = "* /**\n* /api/**\n* /api/{kind}\nPOST,PUT /api/eval\n"
    def asks(patterns, method, host, target):
        return (patterns + "\n" + method + "\n" + host + "\n" + target).encode()
    yield "literal", asks(common, "POST", "example.org", "/api/eval?x=1")
    yield "named", asks(common + "* /api/{kind}/{id}\n", "GET", "", "/api/users/7")
    yield "globs", asks("* /f/*.txt\n* /f/a*\n* /f/*a*t\n* /f/*b*/x\n", "GET", "", "/f/abat")
    yield "glob-and-rest", asks("* /*a/x\n* /a*/**\n* /{n}/x/**\n", "GET", "", "/aa/x")
    yield "hosts", asks("* /a\twww.example.org\n* /a\t[::1]\n* /a\n", "GET", "WWW.Example.org.:80", "/a")
    yield "host-v6", asks("* /a\t[::1]\n* /**\n", "GET", "[::1]:8080", "/a")
    yield "queries", asks("* /a\t\taction=submit\n* /a\t\taction=delete\nGET /a\n* /a\n",
                          "HEAD", "", "/a?action=delete&action=submit")
    yield "head-is-get", asks("GET /x\nHEAD /y\n* /**\n", "HEAD", "h", "/x")
    yield "ties", asks("* /a*\n* /*a\n* /{x}\n* /{y}\nGET /z\nHEAD /z\n", "GET", "", "/a")
    yield "bad-patterns", asks("GET a\nFOO /\n* /a/**/b\n* /{x}{y}\n* /%2e\n* /a//b\n* /{a}/{a}\n", "GET", "", "/")
    yield "backtracking", asks("* /a/b/c/d\n* /a/{x}/c/e\n* /{y}/b/*/f\n* /a/**\n", "GET", "", "/a/b/c/f")
    yield "names-captured", asks("* /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/**\n", "GET", "", "/1/2/3/4/5/6/7/8/9")
    yield "canonical", asks(common, "PUT", "", "//api/./x/../%65val/")


def said():
    def asks(rule, query, *params):
        return "\n".join([rule, query, *params]).encode()
    yield "tenant", asks("type=custom key={header:X-Tenant}:{ip}", "", "HTTP_X_TENANT=acme corp")
    yield "cookie", asks("type=custom key={cookie:sid}", "", 'HTTP_COOKIE=a=1; sid="%41b"; c')
    yield "query", asks("type=custom key=a{query:id}b{path:id}", "id=%37+x&ID=8;id[=9")
    yield "all-pieces", asks("type=custom key=x:{user}:{plan}{ip}:{param:SSL_ID}::y", "", "SSL_ID=\xff\x00")
    yield "long-value", asks("type=custom key={header:X}", "", "HTTP_X=" + "v" * 70)
    yield "twice", asks("type=custom key={header:X}", "", "HTTP_X=1", "HTTP_X=2")
    yield "secret", asks("type=custom key={header:X-Api-Key}", "", "HTTP_X_API_KEY=s")
    yield "cost-header", asks("count=100 cost=header:X-Tokens cost_max=50 cost_default=5", "", "HTTP_X_TOKENS=51")
    yield "cost-query", asks("count=100 cost=query:n", "n=%31%30&m=2")
    yield "cost-huge", asks("count=9 cost=query:n", "n=99999999999999999999999")
    yield "bearer", asks("", "", "HTTP_AUTHORIZATION=bEARER  abc.def ")
    yield "token-cookie", asks("", "", "HTTP_COOKIE=sid=t0ken; sid=other")
    yield "languages", asks("", "", "HTTP_ACCEPT_LANGUAGE=zh-Hans-CN, pt;q=0.8, de;q=0, *;q=0.1",
                            'HTTP_ACCEPT=application/json;q=0.5, application/problem+json;a="\\",";q=1.000')
    yield "php-names", asks("type=custom key={query:a_b}", "%20a.b=1&a[b=2&a+b=3&a_b%00=4#x=5")


def rule():
    for name, text in {
        "defaults": "", "user": "type=user count=5 window=60s",
        "plans": "count=5\ncount=60 plan=paid\ncount=unlimited plan=staff\ncount=0 plan=none",
        "bucket": "type=global algorithm=token_bucket count=300 window=60s burst=50",
        "leaky": "algorithm=leaky_bucket count=10 window=1s burst=20 max_delay=500ms",
        "counter": "algorithm=sliding_counter count=100000 window=1h name=many",
        "fixed": "algorithm=fixed_window count=9007199254740991 window=3257d",
        "custom": "type=custom key={header:X-Tenant}:{ip} count=3\ntype=custom key={query:a}{path:b}",
        "prefix": "type=ip prefix=48\ntype=ip prefix=48 plan=p\ntype=ip prefix=64 name=sw",
        "cost": "cost=header:X-Cost cost_min=2 cost_max=9 cost_default=3 count=10",
        "modes": "mode=shadow on_error=closed key=shared\nmode=off on_error=open",
        "blanks": "count = 5   window= 60s type =ip", "twice": "count=5 count=6",
        "java": "(type=IP, count=5)\n@RateLimit(limitType = LimitType.IP, key=\"x\", count = 5)",
        "too-much": "count=99999999999 window=9999d burst=5\nalgorithm=token_bucket count=1 window=3257d burst=99",
        "exact-bounds": "\n".join(
            f"algorithm={a} window=1s {what}={n}" for n in (9007199254, 9007199255)
            for a, what in (("token_bucket", "count=1 burst"), ("leaky_bucket", "count=1 burst"),
                            ("sliding_counter", "count"), ("token_bucket", "count"))),
        "names": "name=a window=1s\nname=a window=2s\nname=sw60s\n", "unknown": "counts=5 windw=x plan=\nkey={x}",
    }.items():
        yield name, text.encode()


def config():
    site = ("[server]\nlisten = unix:/run/weir/weir.sock\nendpoints = endpoints.d/*.ini\n"
            "backend = php\n[store]\ntype = redis\nurl = redis://127.0.0.1:6379/0\n"
            "[site]\n@RateLimit = type=ip count=600 window=60s\n"
            "[backend php]\nfastcgi = unix:/run/php.sock\n")
    login = ("%% login.ini\n[endpoint login]\nmatch = POST /api/login ; why\nbackend = php\n"
             "@RateLimit = type=ip count=5 window=60s\n")
    yield "site", site.encode()
    yield "endpoint", (site + login).encode()
    yield "control-byte-in-a-file-name", (site + login.replace("login.ini", "lo\x0cg\x7fin.ini")
                                          + "nothing = 1\n").encode()
    yield "two-that-tie", (site + login + login.replace("login", "other", 2)).encode()
    yield "empty", b""
    yield "memory", b"[store]\ntype = memory\n[fallback]\npolicy = closed\nrate = 5/s\n[server]\nmode = shadow\n"
    yield "cgi", b"[backend old]\ncgi = /usr/lib/dir\nprefix = /cgi-bin\nargv = isindex\nmax_programs = 3\n"
    yield "client", (b"[client]\ntrusted_proxies = 10.0.0.0/8, 2001:db8::/32\nuser = token remote_user\n"
                     b"directory = sqlite:/var/lib/weir.db\n[allow]\nnetworks = ::1 127.0.0.0/8\n")
    yield "reply", (b"[reply]\nmessage = wait {retry_after}\nmessage.zh = \xe8\xaf\xb7\ntemplate = endpoints.d/page\n"
                    b"template_type = text/html\n%% page\n<p>{message} {retry_after} {x y}</p>\n")
    yield "template-unknown", b"[reply]\ntemplate = endpoints.d/t\n%% t\n{nothing}\n"
    yield "redis-forms", b"[store]\nurl = redis://user:p%40ss@[::1]:6380/3\ntimeout = 50ms\nprefix = rate\n"
    yield "bom-and-comments", b"\xef\xbb\xbf# one\n; two\n\n[log]\nlevel = debug ; three\n"
    yield "wrong-lines", b"x = 1\n[server\n[server] x\n[a b]\nindented\n = 5\n  y = 2\n[log]\nno equals\nlevel = \"info\"\n"
    yield "wrong-comments", b"[server]\ncontrol = unix:/x ;y\nlisten = tcp:1;2\nbackend = \"a ; b\"\n"
    yield "control-bytes", b"[server]\nbacklog = 1\x0b2\n\x00\n"
    yield "sections-twice", b"[log]\nlevel = info\n[log]\nrequests = all\n[backend]\n[endpoint x]\n"
    yield "units", (b"[server]\nhead_limit = 64K\nhead_timeout = 10s\nbody_limit = 1G\nsocket_mode = 0666\n"
                    b"workers = auto\nstrip_prefix = /index.php /app\n")
    yield "shared-keys", (site + login + "@RateLimit = key=k name=n window=1s\n"
                          + "%% b.ini\n[endpoint b]\nmatch = * /b\n@RateLimit = key=k name=n window=2s\n").encode()
    yield "odd-rules", b"[site]\n@RateLimit(type=IP)\n@RateLimit\n@ratelimit = x\n@RateLimit =\n"


def replies():
    def asked(tiers, text):
        return bytes([tiers, 4]) + text
    def numbers(*list_):
        return b"*%d\r\n" % len(list_) + b"".join(b":%d\r\n" % n for n in list_)
    yield "admitted", asked(1, numbers(1, 1, 4, 0, 60000000, 0))
    yield "refused", asked(1, numbers(0, 0, 0, 30000000, 60000000, 0))
    yield "two-tiers", asked(2, numbers(0, 1, 4, 0, 9, 0, 0, 0, 5, 9, 0))
    yield "held", asked(1, numbers(1, 1, 0, 0, 9, 500000))
    yield "bounds", asked(1, numbers(1, 1, 1 << 53, 0, (1 << 53) + 1, 0))
    yield "negative", asked(1, numbers(1, 1, -1, 0, 0, 0))
    yield "errors", asked(1, b"-NOSCRIPT No matching script.\r\n-ERR hunter2\r\n-WRONGPASS x\r\n"
                          b"-LOADING Redis is loading\r\n-MOVED 1 127.0.0.1:7000\r\n")
    yield "statuses", asked(0, b"+OK\r\n+PONG\r\n+\r\n")
    yield "info", asked(1, b"$41\r\n# Server\r\nredis_mode:standalone\r\nx:y\r\nz\r\n")
    yield "cluster", asked(1, b"$18\r\nredis_mode:cluster\r\n")
    yield "nothing", asked(3, b"$-1\r\n*-1\r\n*0\r\n:9223372036854775807\r\n")
    yield "nested", asked(1, b"*2\r\n*1\r\n:1\r\n*1\r\n*1\r\n*1\r\n+x\r\n")
    yield "broken", asked(1, b"*1000000000\r\n:1\r\n")
    yield "wrong-type", asked(1, b"?1\r\n")
    yield "breaks-off", asked(1, numbers(1, 1, 4, 0)[:-4])


# Steps of fuzz_front and fuzz_relay.
def step(number, *rest):
    return bytes([number]) + b"".join(x if isinstance(x, bytes) else bytes([x]) for x in rest)


def given(kind, content=b"", rid=1, padding=0):
    return step(0, kind, rid, len(content), padding, content)


def front():
    def run(*steps, plan=0):
        return bytes([plan, 6]) + b"".join(steps)

    def begun(role=1, keep=1, rid=1):
        return given(BEGIN, struct.pack(">HB5x", role, keep), rid)
    head, no_more = given(PARAMS, HEAD), given(PARAMS)
    write, finish, abort = step(2, 3), step(3, 0), step(3, 1)
    close, reset, stop = step(7, 0), step(7, 1), step(7, 2)
    get = begun() + head + no_more + given(STDIN)
    yield "get-kept-twice", run(get, write, finish, get, write, finish, close)
    yield "get-not-kept", run(begun(keep=0), head, no_more, given(STDIN), write, finish)
    yield "post", run(begun(), given(PARAMS, POST), no_more, given(STDIN, b"ab", padding=3),
                      given(STDIN, b"c"), given(STDIN), write, finish, close)
    yield "answered-early", run(begun(), given(PARAMS, POST), no_more, write, finish,
                                given(STDIN, b"abc"), given(STDIN), step(6, 20))
    yield "answered-early-bodiless", run(begun(), given(PARAMS, HEAD + pair("CONTENT_LENGTH", "0")),
                                         no_more, write, finish, given(STDIN), get, finish)
    yield "finished-in-head", run(get, get, plan=1)
    yield "refused-by-owner", run(get, plan=2)
    yield "asked-while-stdin-is-due", run(begun(), given(PARAMS, HEAD + pair("CONTENT_LENGTH", "0")), no_more,
                                          write, finish, step(5, 0),
                                          given(GET_VALUES, pair("FCGI_MAX_CONNS", ""), rid=0), step(6, 11))
    yield "aborted-by-peer", run(begun(), head, no_more, given(ABORT), close)
    yield "aborted-by-owner", run(get, write, abort)
    yield "broken-off-short", run(get, write, step(3, 2), close)
    yield "second-id", run(begun(), head, begun(rid=2), given(PARAMS, rid=2), no_more, given(STDIN), finish)
    yield "get-values", run(given(GET_VALUES, pair("FCGI_MAX_CONNS", "") + pair("FCGI_MPXS_CONNS", "")
                                  + pair("X", ""), rid=0), get, finish)
    yield "get-values-broken", run(given(GET_VALUES, b"\xff\xff", rid=0))
    yield "unknown-management", run(given(77, b"x", rid=0), get, finish)
    yield "unknown-role", run(begun(role=3), head, no_more, get, finish)
    yield "unknown-role-not-kept", run(begun(role=9, keep=0), head)
    yield "authorizer", run(begun(role=2), head, no_more, write, finish, close)
    yield "head-too-large", run(begun(), given(PARAMS, b"x" * 200), given(PARAMS, b"x" * 200),
                                given(PARAMS, b"x" * 200), write, finish, step(6, 30))
    yield "pairs-broken", run(begun(), given(PARAMS, b"\xff\xff\xff\xffx"), no_more)
    yield "params-twice", run(begun(), head, no_more, head)
    yield "stdin-before-head", run(begun(), given(STDIN, b"x"))
    yield "one-begins-in-another", run(begun(), head, begun())
    yield "wrong-version", run(step(1, 2, b"\x02\x01"), close)
    yield "slow-head", run(begun(), head, step(6, 11))
    yield "slow-body", run(begun(), given(PARAMS, POST), no_more, step(6, 11))
    yield "slow-reader", run(get, step(5, 1), step(2, 255), step(2, 255), step(2, 255), step(5, 200),
                             step(6, 5), finish, step(6, 11))
    yield "paused", run(begun(), given(PARAMS, POST), no_more, step(4, 0), given(STDIN, b"abc"),
                        given(STDIN), step(6, 50), step(4, 1), finish, close)
    yield "peer-leaves", run(get, write, close)
    yield "peer-resets", run(get, write, reset)
    yield "room-is-wanted", run(get, write, finish, step(7, 3), get)
    yield "weir-ends", run(get, stop, write, finish)


def relay():
    def run(*steps, flags=0):
        return bytes([flags, 6]) + b"".join(steps)

    def out(text, **more):
        return given(STDOUT, text.encode(), **more)
    page = out("Content-Type: text/html\r\n\r\n<p>hello")
    done = given(STDOUT) + given(END, bytes(8))
    whole = out("Status: 200\r\nContent-Length: 5\r\n\r\nhello")
    pause, resume, cancel, again = (step(7, n) for n in range(4))
    close, reset, later = step(6, 0), step(6, 1), step(5, 11)
    yield "page", run(page, out("more", padding=5), done)
    yield "page-without-end", run(page, close)
    yield "page-stdout-over", run(page, given(STDOUT), close)
    yield "whole-by-length", run(whole, done)
    yield "whole-then-silent", run(whole, step(5, 60))
    yield "head", run(whole, done, flags=1)
    yield "post", run(page, done, flags=2)
    yield "post-slow-reader", run(step(4, 0), page, step(4, 1), done, flags=2)
    yield "errors", run(given(STDERR, b"warning\nmore"), page, given(STDERR, b"\x01\x02\n"), done)
    yield "chunked", run(out("Transfer-Encoding: chunked\r\n\r\n5\r\nhel"), out("lo\r\n0\r\n\r\n"), done)
    yield "kept-and-again", run(page, done, again, page, done, again, close, flags=4)
    yield "kept-closed-meanwhile", run(page, done, close, again, page, done, flags=4)
    yield "kept-speaks-unasked", run(page, done, page, again, page, done, flags=4)
    yield "overloaded", run(given(END, bytes([0, 0, 0, 0, 2, 0, 0, 0])), page, done)
    yield "cannot-multiplex", run(page, done, again, given(END, bytes([0, 0, 0, 0, 1, 0, 0, 0])), flags=4)
    yield "unknown-role", run(given(END, bytes([0, 0, 0, 0, 3, 0, 0, 0])))
    yield "closed-without-a-word", run(close, close, page, done)
    yield "reset", run(page, reset)
    yield "connect-slow", run(step(3, 0), page, done, flags=8)
    yield "connect-refused-late", run(step(3, 1), step(3, 1), flags=8)
    yield "queue-full", run(close, step(2, 3), later, step(2, 0), later, flags=8)
    yield "never-connects", run(later, later, flags=8)
    yield "paused", run(page, pause, out("x"), resume, done)
    yield "cancelled", run(page, cancel, again, page, done)
    yield "wrong-id", run(given(STDOUT, b"x", rid=2))
    yield "wrong-type", run(given(STDIN, b"x"))
    yield "wrong-version", run(step(1, 1, b"\x02"))
    yield "short-end", run(page, given(END, b"x"))
    yield "slow-head", run(out("Status: 2"), later)
    yield "slow-body", run(page, later, later)


def redis():
    def run(*steps, flags=0):
        return bytes([flags, 6]) + b"".join(steps)

    def lie(text):
        return step(1, len(text), text)
    serve, refuse_it = step(0, 1), step(0, 0)
    greeted = serve * 3  # INFO, SCRIPT LOAD, the try
    one, two = step(2, 0), step(2, 1)
    close, reset, room = step(7, 0), step(7, 1), step(5, 0)
    yield "asked-and-answered", run(greeted, one, serve, two, refuse_it)
    yield "many-at-once", run(greeted, one * 5, serve * 5)
    yield "asked-before-connected", run(one, two, greeted, serve, serve)
    yield "password-and-database", run(serve, serve, greeted, one, serve, flags=3)
    yield "wrong-password", run(step(0, 128 + 4), step(6, 60), flags=1)
    yield "connect-slow", run(one, step(4, 16), greeted, serve, flags=4)
    yield "connect-refused", run(step(4, 17), one, step(6, 60), step(4, 17), flags=4)
    yield "never-connects", run(one, step(6, 30), step(6, 30), flags=4)
    yield "two-servers", run(close, greeted, one, serve, flags=8)
    yield "two-servers-down", run(step(4, 2), reset, step(6, 60), step(6, 60), step(4, 0), step(6, 60), greeted, flags=8)
    yield "noscript", run(greeted, one, step(0, 128), serve, serve)
    yield "noscript-twice", run(greeted, one, step(0, 128), step(0, 128), step(0, 128))
    yield "loading", run(greeted, one, one, step(0, 129), step(6, 60), greeted, one, serve)
    yield "bad-state", run(greeted, one, one, step(0, 133), serve)
    yield "late", run(greeted, one, one, step(6, 6), serve, step(6, 60), greeted, one, serve)
    yield "slow-answers", run(greeted, *[one + step(6, 3) + serve] * 12, step(6, 60), serve, one)
    yield "cancelled", run(greeted, one, two, step(3, 0), serve, serve)
    yield "closed-when-idle", run(greeted, step(6, 60), close, one, greeted, serve)
    yield "closed-when-asked", run(greeted, one, close, step(6, 60), greeted)
    yield "reset-when-asked", run(greeted, one, two, reset, one)
    yield "takes-nothing", run(greeted, room, one, step(5, 1), step(5, 255), serve)
    yield "unasked", run(greeted, lie(b"+OK\r\n"), one)
    yield "two-for-one", run(greeted, one, serve + lie(b":1\r\n"), one)
    yield "not-a-verdict", run(greeted, one, lie(b"*2\r\n:1\r\n:1\r\n"))
    yield "garbage", run(greeted, one, lie(b"HTTP/1.1 400 Bad Request\r\n"))
    yield "half-a-reply", run(greeted, one, lie(b"*6\r\n:1\r\n:1"), step(6, 10))
    yield "breaker", run(*[reset + step(6, 60)] * 5, greeted, one, serve)


DRIVERS = [records, request, answer, forwarded, path, match, said, rule, config, replies,
           front, relay, redis]

if __name__ == "__main__":
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
    for driver in DRIVERS:
        folder = os.path.join(here, driver.__name__)
        os.makedirs(folder, exist_ok=True)
        for name, content in driver():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(content)
