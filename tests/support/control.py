"""Runs a program outside the jail, in throw-away namespaces of its own: the control of a security test.

    python3 -I -S control.py '{"argv": [...], "share": ["net"], ...}'

Everything is private unless it is named in `share`; the caller's own id is root in there. PID 1 is this program:
dumpable, with all privileges of the namespaces and none on the machine. It ends with the program's exit code
(128 + n for a signal), and all that the program left behind ends with it.

Keys: argv; scratch (a directory that gets a private tmpfs, the program's working directory); cwd (instead of
scratch); share (namespaces of the host to keep: user mnt pid net ipc uts cgroup); thaw (a directory that becomes
writable: a tmpfs with the old entries bound into it); sibling (a second process to attack); internet (the address
192.0.2.1 with a TCP listener and a name server); copied_init (PID 1 runs from a program file that the caller owns).
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)

NAMESPACES = {
    "mnt": 0x20000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000,
}
MS_RDONLY, MS_NOSUID, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 2, 0x1000, 0x2000, 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1
INTERNET = ("192.0.2.1", 4242)


def check(answer, what):
    if answer != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source, target, kind, flags=0, data=None):
    encoded = [None if x is None else os.fsencode(x) for x in (source, target, kind)]
    check(libc.mount(*encoded, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mount {target}")


def enter_namespaces(share):
    flags = sum(bit for name, bit in NAMESPACES.items() if name not in share)
    uid, gid = os.geteuid(), os.getegid()
    check(libc.unshare(flags), "unshare")
    if "user" not in share:
        # From inside, where no capability over the outer namespace is left, a group may be mapped only after
        # setgroups has been given up; that holds for root too.
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"0 {uid} 1")
        write("/proc/self/gid_map", f"0 {gid} 1")


def write(path, text):
    with open(path, "w") as stream:
        stream.write(text)


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def loopback_up():
    SIOCSIFFLAGS, IFF_UP = 0x8914, 1
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def start_internet():
    """Gives the loopback the documentation address, and serves TCP and name queries there."""
    SIOCSIFADDR = 0x8916
    import fcntl

    address = struct.pack("16sH2s4s8x", b"lo:0", socket.AF_INET, b"", socket.inet_aton(INTERNET[0]))
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(names, SIOCSIFADDR, address)
    listener = socket.create_server(INTERNET)
    names.bind((INTERNET[0], 53))
    if os.fork() == 0:
        die_with_parent()
        while True:
            query, peer = names.recvfrom(512)
            names.sendto(query, peer)
    return listener


def thaw(directory, scratch):
    """Replaces a directory by a tmpfs that holds the old entries, so that new ones can be made beside them."""
    fresh = os.path.join(scratch, "thaw")
    os.mkdir(fresh)
    mount("none", fresh, "tmpfs")
    for entry in os.scandir(directory):
        target = os.path.join(fresh, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
            continue
        if entry.is_dir():
            os.mkdir(target)
        else:
            open(target, "w").close()
        mount(entry.path, target, None, MS_BIND | MS_REC)
    open(os.path.join(fresh, ".thawed"), "w").close()
    if directory == "/":
        os.chroot(fresh)
    else:
        mount(fresh, directory, None, MS_MOVE)


def prepare(spec):
    """As PID 1 of the new namespaces. Returns what must stay open while the program runs."""
    share = spec["share"]
    if "mnt" not in share:
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        mount("none", spec["scratch"], "tmpfs")
        if "pid" not in share:
            mount("none", "/proc", "proc")
    kept = []
    if "net" not in share:
        loopback_up()
        if spec.get("internet"):
            kept.append(start_internet())
    if spec.get("sibling") and os.fork() == 0:
        die_with_parent()
        signal.pause()
    if spec.get("thaw"):
        thaw(spec["thaw"], spec["scratch"])
    return kept


def run_program(spec):
    pid = os.fork()
    if pid == 0:
        os.chdir(spec.get("cwd") or spec["scratch"])
        if "pid" in spec["share"]:
            die_with_parent()
        os.execv(spec["argv"][0], spec["argv"])
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def init_main(spec):
    die_with_parent()
    if spec.pop("copied_init", False):
        # The same program again, but from a file of the caller's, as an unsafe engine's PID 1 would be.
        mount("none", spec["scratch"], "tmpfs")
        copy = os.path.join(spec["scratch"], "init")
        shutil.copy2(os.path.realpath(sys.executable), copy)
        os.execv(copy, [copy, "-I", "-S", __file__, "--init", json.dumps(spec)])
    kept = prepare(spec)
    code = run_program(spec)
    del kept
    return code if code >= 0 else 128 - code


def main():
    if sys.argv[1] == "--init":
        sys.exit(init_main(json.loads(sys.argv[2])))
    spec = json.loads(sys.argv[1])
    spec.setdefault("share", [])
    enter_namespaces(spec["share"])
    init = os.fork()
    if init == 0:
        sys.exit(init_main(spec))
    try:
        status = os.waitpid(init, 0)[1]
    except OSError as error:
        sys.exit(f"control: {errno.errorcode[error.errno]}")
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
