"""FastCGI records, for scripts that play a web server or an application."""
import struct

BEGIN, END, PARAMS, STDIN, STDOUT, GET_VALUES = 1, 3, 4, 5, 6, 9


def record(kind, content=b""):
    """Of request 1; GET_VALUES is of none."""
    return struct.pack("!BBHHBx", 1, kind, kind != GET_VALUES, len(content), 0) + content


def stream(kind, content):
    """All of it, and the empty record that ends it."""
    cut = [content[at : at + 32768] for at in range(0, len(content), 32768)]
    return b"".join(record(kind, piece) for piece in cut) + record(kind)


def pairs(params):
    packed = b""
    for name, value in params.items():
        name, value = name.encode(), value.encode()
        for n in (len(name), len(value)):
            packed += bytes([n]) if n < 128 else struct.pack("!L", n | 1 << 31)
        packed += name + value
    return packed


def head(role, params):
    """A request up to the end of its parameters. It does not ask to keep the connection."""
    return record(BEGIN, struct.pack("!HB5x", role, 0)) + stream(PARAMS, pairs(params))
