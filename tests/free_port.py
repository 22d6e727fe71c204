#!/usr/bin/python3
"""Prints a TCP port of 127.0.0.1 that is free now."""
import socket

with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])
