#!/bin/sh
# Runs inside the virtual machine, as its second stage of start: cgroup v2 with all controllers, nothing else.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
export PATH=/cella:/bin:/usr/bin HOME=/root
printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1500:1500::/tmp:/bin/sh\n' >/etc/passwd
printf 'root:x:0:\nuser:x:1500:\n' >/etc/group

passed=0 failed=0
# check NAME PATTERN COMMAND...: the command's output must match.
check() {
  name=$1 pattern=$2
  shift 2
  output=$("$@" 2>&1)
  if echo "$output" | grep -q "$pattern"; then
    passed=$((passed + 1))
    echo "ok: $name"
  else
    failed=$((failed + 1))
    echo "FAILED: $name: no '$pattern' in:"
    echo "$output"
  fi
}
run() { cella run --json --lang sh "$@"; }
as_user() { /usr/bin/setpriv --reuid=1500 --regid=1500 --clear-groups "$@"; }
in_group() {
  group=$1
  shift
  sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$@"
}

echo "kernel $(uname -r), controllers $(cat /sys/fs/cgroup/cgroup.controllers)"
check 'doctor says that the sandbox runs' '"sandbox": *true' cella doctor --json
check 'limits are held by cgroup v2' '"cgroup":"v2"' run -c :
check 'memory over the limit is oom' '"status":"oom","exit_code":137' run --memory 32m -c 'dd if=/dev/zero of=/tmp/x bs=1M count=100'
check 'the guest is chosen, not init' 'oom_score_adj:500' dmesg
check 'refused forks are a limit' '"status":"limit"' run --pids 5 -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 2 & done; wait; exit 1'
check 'processor time is a limit' '"status":"limit"' run --cpu-time 1s -c 'while :; do :; done'
check 'a share of a processor holds' '"cpu_ms":1[0-9][0-9][0-9]' run --cpus 0.5 --timeout 3s -c 'while :; do :; done'
check 'the local executor joins a group too' 'cella-' cella run --executor local --lang sh -c 'cat /proc/self/cgroup'

cd /tmp || exit 1
check 'an ordinary user runs without cgroups' '"by":"rlimit+watchdog"' as_user cella run --json --lang sh -c :
check 'and is refused a share of processors' '"exit_code":126' as_user cella run --json --lang sh --cpus 1 -c :
# A delegated group, as of systemd-run --user --scope -p Delegate=yes: the caller sits in it, alone.
delegate() {
  mkdir "$1"
  echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
  chown 1500:1500 "$1" "$1/cgroup.procs" "$1/cgroup.subtree_control" "$1/cgroup.threads"
}
group=/sys/fs/cgroup/delegated
delegate $group
check 'in a delegated group the user has cgroups' '"status":"oom".*"cgroup":"v2"' \
  in_group $group /usr/bin/setpriv --reuid=1500 --regid=1500 --clear-groups \
  cella run --json --lang sh --memory 32m --cpus 1 -c 'dd if=/dev/zero of=/tmp/x bs=1M count=100'

# Sessions: forked into a group by writing to its cgroup.procs.
talk() {
  printf '%s\n' '{"code": "x = 41"}' '{"code": "import os; os._exit(3)"}' '{"code": "b = bytearray(10**9)"}' '{"code": "x + 1"}'
}
session() { talk | "$@" cella repl --json --memory 64m; }
check 'a session is forked into its group' '"cgroup":"v2".*"start":"fork"' session env
check 'its memory limit holds' '"status":"oom".*"state":"rolled_back"' session env
check 'and its variables survive' '"value":"42","out' session env
check 'the same for an ordinary user without groups' '"value":"42","out' session as_user
# Of its own: once controllers are enabled for its children, nobody can enter the group itself.
group=/sys/fs/cgroup/for-sessions
delegate $group
check 'and in a delegated group' '"cgroup":"v2".*"start":"fork"' session in_group $group /usr/bin/setpriv --reuid=1500 --regid=1500 --clear-groups

# A socket that a program binds below a mounted directory while the guest runs: nobody can refuse that mount beforehand.
cat >/tmp/late.py <<'PYTHON'
import os, socket, sys, time
def wait(name):
    deadline = time.monotonic() + 30
    while not os.path.exists(name) and time.monotonic() < deadline:
        time.sleep(0.01)
if sys.argv[1:] == ["bind"]:
    wait("begun")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("late.tmp")
    os.chmod("late.tmp", 0o777)
    listening.listen()
    os.rename("late.tmp", "late.sock")
    wait("ended")
else:
    own = socket.socket(socket.AF_UNIX)
    own.bind("own.sock")
    own.listen()
    socket.socket(socket.AF_UNIX).connect("own.sock")
    open("begun", "w").close()
    wait("late.sock")
    try:
        socket.socket(socket.AF_UNIX).connect("late.sock")
        print("late socket: reached")
    except PermissionError:
        print("late socket: refused")
    open("ended", "w").close()
PYTHON
late() {
  rm -rf /tmp/late
  mkdir -m 777 /tmp/late
  (cd /tmp/late && exec /usr/bin/python3 /tmp/late.py bind) &
  "$@" cella run --python /usr/bin/python3 --workdir /tmp/late /tmp/late.py
  wait
}
abi=$(run -c : | sed -n 's/.*"landlock":\([0-9]*\).*/\1/p')
echo "landlock ABI $abi"
if [ "${abi:-0}" -ge 9 ]; then
  check 'a socket bound below a mount later is refused' 'late socket: refused' late env
  check 'and refused for an ordinary user' 'late socket: refused' late as_user
else
  # Root's directory would need an idmapped tmpfs, which came with Linux 6.3.
  check 'Landlock before ABI 9 does not refuse a socket bound later' 'late socket: reached' late as_user
fi
# Ends with the machine.
/usr/bin/python3 -c '
import os, signal, socket
listening = socket.socket(socket.AF_UNIX)
listening.bind("/tmp/named.sock")
os.chmod("/tmp/named.sock", 0o777)
listening.listen()
if os.fork() == 0:
    signal.pause()
'
check 'a socket that is a mount itself is reached' 'reached' cella run --python /usr/bin/python3 \
  --mount /tmp/named.sock:/named.sock -c 'import socket; socket.socket(socket.AF_UNIX).connect("/named.sock"); print("reached")'

check 'no group of a run is left' '^0$' sh -c "find /sys/fs/cgroup -name 'cella-*' ! -name '*supervisor' | grep -c ."
check 'no process is left' '^0$' sh -c "ps | grep -c '[c]ella'"
echo "vm: $passed passed, $failed failed"
poweroff -f
