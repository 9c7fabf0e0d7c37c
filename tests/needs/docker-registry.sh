#!/usr/bin/env bash
# A registry of images on this machine, empty: REGISTRY is its address, "127.0.0.1:PORT". Engines take registries of the
# loopback device without TLS.
source "$(dirname "$0")/need.sh"

pid_file=$folder/docker-registry.pid

if [[ $1 == stop ]]; then
  if [[ -f $pid_file ]]; then
    read -r pid place <"$pid_file"
    # The pid may have been reused since: only a registry of this folder is ended.
    if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$place"; then
      kill -TERM "$pid"
      for _ in {1..100}; do [[ -d /proc/$pid ]] || break; sleep 0.1; done
    fi
    rm -rf "$place" "$pid_file"
  fi
  exit 0
fi

"$0" stop "$folder"  # one that an interrupted run left
command -v docker-registry >/dev/null || "$repository/tools/setup.sh" docker >&2 ||
  missing "docker-registry cannot be installed: run 'tools/setup.sh docker' and see why"
command -v docker-registry >/dev/null || missing "there is no docker-registry: install it (Debian: apt-get install docker-registry)"

place=$(mktemp -d /tmp/cella-registry-XXXXXX)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$place/config.yml" <<EOF
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $place/data}}
http: {addr: "127.0.0.1:$port"}
EOF
setsid docker-registry serve "$place/config.yml" &>"$folder/docker-registry.log" </dev/null &
pid=$!
echo "$pid $place" >"$pid_file"
for _ in {1..100}; do
  if curl -fsS --max-time 5 "http://127.0.0.1:$port/v2/" &>/dev/null; then
    available "REGISTRY=127.0.0.1:$port"
    exit 0
  fi
  [[ -d /proc/$pid ]] || break
  sleep 0.1
done
tail -n 5 "$folder/docker-registry.log" >&2
"$0" stop "$folder"
missing "docker-registry does not start here: see $folder/docker-registry.log"
