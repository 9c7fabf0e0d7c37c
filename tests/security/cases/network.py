"""The network, sockets of the host, and its inter-process communication."""

import socket

from case import CREDENTIALS, FILTER, NAMESPACE, TREE, Case

RAW, DGRAM, STREAM, SEQPACKET = (int(x) for x in (socket.SOCK_RAW, socket.SOCK_DGRAM, socket.SOCK_STREAM,
                                                  socket.SOCK_SEQPACKET))
NO_FAMILY = ("EAFNOSUPPORT", "EPERM", "EACCES")
# name: (family, type)
FAMILIES = {
    "ax25": (3, SEQPACKET), "ipx": (4, DGRAM), "appletalk": (5, DGRAM), "x25": (9, SEQPACKET), "key": (15, RAW),
    "netlink": (16, RAW), "packet": (17, RAW), "rds": (21, SEQPACKET), "pppox": (24, DGRAM), "llc": (26, DGRAM),
    "can": (29, RAW), "tipc": (30, DGRAM), "bluetooth": (31, RAW), "alg": (38, SEQPACKET), "nfc": (39, SEQPACKET),
    "vsock": (40, STREAM), "kcm": (41, DGRAM), "qipcrtr": (42, DGRAM), "smc": (43, STREAM), "xdp": (44, RAW),
}


def family(name, number, kind, protocol=0, high=0):
    return Case(name, f"socket family {number}", "socket_family", NO_FAMILY, FILTER,
                (str(number), str(kind), str(protocol), str(high)), may_be_unbuilt=True)


CASES = [
    *(family(f"socket-{name}", number, kind, 2 if name in ("key", "smc") else 0)
      for name, (number, kind) in FAMILIES.items()),
    # The kernel takes an int: a filter that compares 64 bits would see a family that it does not know.
    family("socket-netlink-high-bits", 16, RAW, high=1 << 32),
    *(Case(f"socketpair-{name}", "the code of a family, by its pairs", "socketpair_family", NO_FAMILY, FILTER,
           tuple(map(str, FAMILIES[name])), may_be_unbuilt=True) for name in ("tipc", "alg", "netlink", "vsock")),
    # An old name: the kernel turns this internet socket into one of AF_PACKET.
    Case("socket-packet-by-type", "AF_PACKET under another name", "socket_family",
         ("EPERM", "EACCES", "EPROTONOSUPPORT", "EAFNOSUPPORT"), FILTER, ("2", "10", "0", "0")),
    Case("socket-raw", "a raw internet socket", "socket_family", ("EPERM", "EACCES", "EPROTONOSUPPORT"), FILTER,
         ("2", str(RAW), "1", "0")),
    Case("socket-raw6", "a raw IPv6 socket", "socket_family", ("EPERM", "EACCES", "EPROTONOSUPPORT", "EAFNOSUPPORT"),
         FILTER, ("10", str(RAW), "58", "0"), may_be_unbuilt=True),
    Case("socket-raw-cloexec", "a raw socket behind type flags", "socket_family",
         ("EPERM", "EACCES", "EPROTONOSUPPORT"), FILTER, ("2", str(RAW | socket.SOCK_CLOEXEC), "1", "0")),
    Case("abstract-socket", "an abstract socket of the host", "connect_abstract", ("ECONNREFUSED", "EPERM"), NAMESPACE,
         ("{abstract}",), share=("net",), victims=("abstract_socket",)),
    Case("path-socket", "a Unix socket in the host's /tmp", "connect_path", ("ENOENT", "EACCES"), TREE,
         ("{socket_path}",), victims=("path_socket",)),
    Case("host-loopback", "a server on the host's loopback", "connect_tcp", ("ECONNREFUSED",), NAMESPACE,
         ("127.0.0.1", "{port}"), share=("net",), victims=("tcp_listener",)),
    Case("internet", "an address outside", "connect_tcp", ("ENETUNREACH", "EPERM", "EACCES"), NAMESPACE,
         ("192.0.2.1", "4242"), control=(("internet", True),)),
    Case("dns", "a name server", "dns_query", ("ENETUNREACH", "EPERM", "EACCES", "silence"), NAMESPACE,
         ("192.0.2.1",), control=(("internet", True),)),
    Case("network-devices", "network devices of the host", "network_devices", ("nothing found",), NAMESPACE,
         share=("net",)),
    Case("system-v-memory", "a shared memory segment of the host", "sysv_shm", ("ENOENT", "EPERM", "ENOSYS"),
         NAMESPACE, ("{sysv_key}",), share=("ipc",), victims=("system_v",)),
    Case("system-v-queue", "a message queue of the host", "sysv_msg", ("ENOENT", "EPERM", "ENOSYS"), NAMESPACE,
         ("{sysv_key}",), share=("ipc",), victims=("system_v",)),
    Case("posix-queue", "a POSIX queue of the host", "posix_mq", ("ENOENT", "EPERM", "ENOSYS"), NAMESPACE,
         ("{queue}",), share=("ipc",), victims=("posix_queue",)),
    Case("sethostname", "renaming the machine", "set_name", ("EPERM",), CREDENTIALS, ("sethostname",)),
    Case("setdomainname", "renaming the domain", "set_name", ("EPERM",), CREDENTIALS, ("setdomainname",)),
]
