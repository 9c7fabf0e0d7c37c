#!/usr/bin/env bash
# A Docker engine: the caller's own (DOCKER_HOST, else /var/run/docker.sock), else one that is started here, as root,
# with data and sockets of its own, without bridge and firewall rules. DOCKER_HOST is its address. CELLA_TEST_IMAGE is an
# image with Debian's Python; its files are made once per machine, in the caller's cache.
source "$(dirname "$0")/need.sh"

pid_file=$folder/docker.pid

answers() { [[ -S ${1#unix://} ]] && curl -fsS --max-time 5 --unix-socket "${1#unix://}" http://engine/_ping &>/dev/null; }

image=cella-test/python:v2

call() { curl -fsS --max-time 300 --unix-socket "${1#unix://}" "${@:3}" "http://engine/$2"; }

ready() {
  if ! call "$1" "images/$image/json" -o /dev/null 2>/dev/null; then
    make_image_files || missing "the image for the tests cannot be made: run 'tools/setup.sh docker' (it installs mmdebstrap) and see why"
    call "$1" "images/create?fromSrc=-&repo=${image%:*}&tag=${image#*:}" -X POST -H 'Content-Type: application/x-tar' -T "$files" >&2 ||
      missing "the engine at $1 does not take the image for the tests"
  fi
  available "DOCKER_HOST=$1" "CELLA_TEST_IMAGE=$image"
}

if [[ $1 == stop ]]; then
  if [[ -f $pid_file ]]; then
    read -r pid place <"$pid_file"
    # The pid may have been reused since: only a dockerd of this folder is ended.
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$place"; then
      kill -TERM "$pid"
      for _ in {1..100}; do [[ -d /proc/$pid ]] || break; sleep 0.1; done
      if [[ -d /proc/$pid ]]; then kill -KILL "$pid"; fi
    fi
    rm -rf "$place" "$pid_file"
  fi
  exit 0
fi

"$0" stop "$folder"  # one that an interrupted run left

for engine in "${DOCKER_HOST-}" unix:///var/run/docker.sock; do
  if [[ $engine == unix://* ]] && answers "$engine"; then
    ready "$engine"
    exit 0
  fi
done
if ((EUID != 0)); then
  missing "no Docker engine answers: set DOCKER_HOST or start one (apt-get install docker.io); as root the tests start their own"
fi
"$repository/tools/setup.sh" docker >&2 || missing "docker.io cannot be installed: run 'tools/setup.sh docker' and see why"
command -v dockerd >/dev/null || missing "there is no dockerd: install Docker's engine (Debian: apt-get install docker.io)"

# Below /tmp, since a Unix socket's path has 107 bytes at most.
place=$(mktemp -d /tmp/cella-docker-XXXXXX)
export PATH=$PATH:/usr/sbin:/sbin
# In a mount namespace of its own: its mounts end with it, and tests that compare mounts do not see them.
setsid unshare --mount --propagation slave dockerd --host "unix://$place/s" --data-root "$place/data" --exec-root "$place/exec" --pidfile "$place/pid" \
  --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
  &>"$folder/docker.log" </dev/null &
pid=$!
echo "$pid $place" >"$pid_file"
for _ in {1..300}; do
  if answers "unix://$place/s"; then
    ready "unix://$place/s"
    exit 0
  fi
  [[ -d /proc/$pid ]] || break
  sleep 0.1
done
tail -n 5 "$folder/docker.log" >&2
"$0" stop "$folder"
missing "dockerd does not start here: see $folder/docker.log"
