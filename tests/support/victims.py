"""Things of the host that a guest must not reach. Each is made for one test and is gone after it.

A Scene collects them: `words` fill the {placeholders} of a case's arguments; `env`, `cwd`, `pass_fds` and
`terminal` are how the attacked program is started; `verify()` says what the attack did to them.
"""

import contextlib
import ctypes
import os
import pathlib
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile

from support import cella

libc = ctypes.CDLL(None, use_errno=True)


class Scene(contextlib.ExitStack):
    def __init__(self, names=()):
        super().__init__()
        self.words = {}
        self.env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.cwd = None
        self.pass_fds = []
        self.stdin = subprocess.DEVNULL
        self.terminal = None
        self.flags = []
        self._checks = []
        self.directory = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="cella-scene-")))
        self.home = self.directory / f"home-{secrets.token_hex(4)}"
        self.home.mkdir(mode=0o700)
        self.env["HOME"] = str(self.home)
        self.words["home"] = str(self.home)
        for name in names:
            getattr(self, name)()

    def fill(self, args):
        return [a.format(**self.words) for a in args]

    def start(self):
        """Keyword arguments for support.cella.run_bounded."""
        return {"env": self.env, "pass_fds": self.pass_fds, "stdin": self.stdin, "terminal": self.terminal}

    def verify(self):
        for check in self._checks:
            check()

    def _write_secret(self, path):
        secret = secrets.token_hex(16)
        path.write_text(secret)
        path.chmod(0o600)
        self.callback(lambda: path.unlink(missing_ok=True))
        return secret

    # Files and what is inherited.

    def secret_file(self):
        """A private file in the caller's home."""
        path = self.home / "secret.txt"
        self._write_secret(path)
        self.words["secret_file"] = str(path)

    def scattered_secret(self):
        """One file name in every directory of the machine that anyone may write to."""
        name = f"cella-secret-{secrets.token_hex(8)}"
        for directory in (self.home, pathlib.Path("/tmp"), pathlib.Path("/var/tmp"), pathlib.Path("/dev/shm")):
            self._write_secret(directory / name)
        self.words["secret_name"] = name

    def shared_memory_file(self):
        path = pathlib.Path("/dev/shm") / f"cella-{secrets.token_hex(8)}"
        self._write_secret(path)
        self.words["shm_file"] = str(path)

    def temporary_file(self):
        path = pathlib.Path("/tmp") / f"cella-{secrets.token_hex(8)}"
        self._write_secret(path)
        self.words["tmp_file"] = str(path)

    def leaked_descriptor(self):
        path = self.directory / "leaked"
        self.words["leaked_secret"] = self._write_secret(path)
        fd = os.open(path, os.O_RDONLY)
        self.callback(os.close, fd)
        self.pass_fds.append(fd)

    def leaked_directory(self):
        """The working directory, and a descriptor of it, are the caller's home."""
        self.secret_file()
        self.cwd = str(self.home)
        fd = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY)
        self.callback(os.close, fd)
        self.pass_fds.append(fd)

    def file_as_input(self):
        self.secret_file()
        self.stdin = os.open(self.words["secret_file"], os.O_RDONLY)
        self.callback(os.close, self.stdin)


    def secret_variable(self):
        self.words["secret"] = self.env["CELLA_TEST_SECRET"] = secrets.token_hex(16)

    def identity(self):
        self.words["user"] = self.env["USER"] = self.env["LOGNAME"] = f"caller-{secrets.token_hex(4)}"
        self.cwd = str(self.home)

    def controlling_terminal(self):
        master, slave = os.openpty()
        self.callback(os.close, master)
        self.callback(os.close, slave)
        self.terminal = slave

    # Network and IPC.

    def abstract_socket(self):
        name = f"cella-{secrets.token_hex(8)}"
        listener = self.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind("\0" + name)
        listener.listen()
        self.words["abstract"] = name

    def path_socket(self):
        path = f"/tmp/cella-{secrets.token_hex(8)}.sock"
        listener = self.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        self.callback(os.unlink, path)
        listener.listen()
        self.words["socket_path"] = path

    def tcp_listener(self):
        listener = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.words["port"] = str(listener.getsockname()[1])

    def system_v(self):
        IPC_CREAT_EXCL, IPC_RMID = 0o3000, 0
        key = secrets.randbelow(1 << 30) + 1
        shm, msg = libc.shmget(key, 4096, IPC_CREAT_EXCL | 0o600), libc.msgget(key, IPC_CREAT_EXCL | 0o600)
        assert shm >= 0 and msg >= 0, "cannot make System V objects"
        self.callback(libc.shmctl, shm, IPC_RMID, None)
        self.callback(libc.msgctl, msg, IPC_RMID, None)
        self.words["sysv_key"] = str(key)

    def posix_queue(self):
        name = f"cella-{secrets.token_hex(8)}"
        librt = ctypes.CDLL("librt.so.1", use_errno=True)
        queue = librt.mq_open(b"/" + name.encode(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, None)
        assert queue >= 0, f"mq_open: {os.strerror(ctypes.get_errno())}"
        self.callback(librt.mq_unlink, b"/" + name.encode())
        self.callback(librt.mq_close, queue)
        self.words["queue"] = name

    # Processes and programs.

    def process(self):
        """A process of the caller's; verify() fails when it was killed or stopped."""
        victim = subprocess.Popen(["/usr/bin/sleep", "60"], env={}, cwd="/", start_new_session=True)
        self.callback(victim.wait)
        self.callback(victim.send_signal, signal.SIGKILL)
        self.words["victim"] = str(victim.pid)

        def check():
            state = pathlib.Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[0]
            assert state in "RSD", f"the process outside was hit: it is in state {state}"

        self._checks.append(check)

    def _program_directory(self):
        """A directory on a file system that honours set-uid bits and capabilities, given to the guest as workspace."""
        directory = self.directory / "programs"
        directory.mkdir(mode=0o755)
        # The control leaves root, and must still come here.
        self.directory.chmod(0o755)
        self.flags += ["--workdir", str(directory)]
        program = directory / "program"
        shutil.copyfile(os.path.realpath(cella.PYTHON), program)
        program.chmod(0o755)
        self.words["outside_program"] = str(program)
        self.words["inside_program"] = "/workspace/program"
        return program

    def setuid_program(self):
        self._program_directory().chmod(0o755 | stat.S_ISUID | stat.S_ISGID)

    def capable_program(self):
        VERSION_2_EFFECTIVE, NET_RAW = 0x02000001, 1 << 13
        value = struct.pack("<5I", VERSION_2_EFFECTIVE, NET_RAW, 0, 0, 0)
        os.setxattr(self._program_directory(), "security.capability", value)
