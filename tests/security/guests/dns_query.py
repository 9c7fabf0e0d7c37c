"""Asks every name server that it can think of for a name, by hand."""
from attack import *
import socket

servers = [sys.argv[1], "127.0.0.53", "127.0.0.11"]
try:
    with open("/etc/resolv.conf") as conf:
        servers += [line.split()[1] for line in conf if line.startswith("nameserver") and len(line.split()) > 1]
except OSError:
    pass
query = b"\x13\x37\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01"
word = "silence"
for server in servers:
    peer = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
    peer.settimeout(3)
    try:
        peer.connect((server, 53))
        peer.send(query)
        if peer.recv(512)[:2] == query[:2]:
            result("ok")
    except TimeoutError:
        pass
    except OSError as error:
        word = errno.errorcode[error.errno] if word == "silence" else word
result(word)
