"""A system that has Python and nothing else, to install wheels on. Needs root."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

BOUND = 120
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# As PID 1 it reaps what others leave, and ends, and with it every process there, when its owner ends or says so.
INIT = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('ready', flush=True); sys.stdin.read()"

# Not chroot, whose guests may make no user namespaces. The system is only read: all changes are in memory, and gone
# with the namespace of the mounts.
ENTER = """
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
cd "$2/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs run
pivot_root . mnt
umount -l /mnt
exec python3 -c "$3"
"""


def make_system(suite, cache):
    """The directory of the system, made once. A half made one has another name."""
    made = cache / suite
    if not made.exists():
        half = cache / f"{suite}.part"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", suite, str(half)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr}"
        half.rename(made)
    return made


@dataclasses.dataclass
class Finished:
    exit_code: int
    stdout: str
    stderr: str


class CleanMachine:
    """In namespaces of its own, without a network."""

    def __init__(self, system):
        # One for all and for ever: what is mounted there, each machine sees for itself.
        mount_point = system.parent / "mount-point"
        mount_point.mkdir(exist_ok=True)
        namespaces = ["--mount", "--pid", "--net", "--ipc", "--uts"]
        self._process = subprocess.Popen(
            [
                "unshare", *namespaces, "--fork", "--kill-child", "--propagation", "private", "--",
                "sh", "-ec", ENTER, "enter", str(system), str(mount_point), INIT,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={"PATH": PATH, "LC_ALL": "C"},
        )
        if self._process.stdout.readline() != "ready\n":
            raise AssertionError(self._process.communicate()[1])
        (self._init,) = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._namespace = os.stat(f"/proc/{self._init}/ns/pid").st_ino

    def run(self, *command, user="root", home="/root", path=PATH, bound=BOUND):
        """As that user, in its home, with an environment that holds nothing else."""
        entered = ["nsenter", "--target", self._init, "--mount", "--pid", "--net", "--ipc", "--uts", f"--wdns={home}"]
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        environment = ["env", "-i", f"PATH={path}", f"HOME={home}", "LC_ALL=C.UTF-8"]
        done = subprocess.run(
            [*entered, "--", *environment, *become, "--", *map(str, command)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=bound, check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def succeed(self, *command, **options):
        finished = self.run(*command, **options)
        assert finished.exit_code == 0, finished
        return finished.stdout

    def put(self, file, place):
        shutil.copyfile(file, f"/proc/{self._init}/root{place}")

    def state(self):
        """What programs could leave behind: files, mounts, processes. What is known of Pythons is kept on purpose."""
        places = "/tmp /var/tmp /run /dev/shm /root /home"
        kept = r"\( -name venv -o -path '*/.cache/cella' \) -prune"
        seen = self.succeed(
            "sh", "-c", f"find {places} {kept} -o -print; cut -d' ' -f5 /proc/self/mountinfo; cat /proc/[0-9]*/comm"
        )
        return sorted(seen.splitlines())

    def cgroups(self):
        """The groups that its programs made, which only the host sees to the end."""
        mine = re.compile(rf"cella-{self._namespace}-")
        return [
            os.path.join(parent, name)
            for parent, names, _ in os.walk("/sys/fs/cgroup") for name in names if mine.match(name)
        ]

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
        self._process.stderr.close()
