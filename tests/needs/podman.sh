#!/usr/bin/env bash
# Podman's service, twice, with data and sockets of their own: PODMAN_ROOT is that of root, PODMAN_USER that of the ordinary
# user of the tests (rootless). Both have the image PODMAN_IMAGE, whose files are those of tests/needs/docker.sh.
source "$(dirname "$0")/need.sh"

pid_file=$folder/podman.pids
user=cella-test
image=docker.io/cella-test/python:v2

call() { curl -fsS --max-time 60 --unix-socket "$1" "${@:3}" "http://engine/v4.0.0/libpod/$2"; }

if [[ $1 == stop ]]; then
  if [[ -f $pid_file ]]; then
    while read -r pid place; do
      # The pid may have been reused since: only a service of this folder is ended.
      if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$place"; then
        for id in $(call "$place/s" 'containers/json?all=true' 2>/dev/null | grep -o '"Id":"[0-9a-f]*"' | cut -d'"' -f4); do
          call "$place/s" "containers/$id?force=true" -X DELETE -o /dev/null || true
        done
        # With it ends its pid namespace, and with that the mounts.
        kill -KILL "$pid"
        for _ in {1..100}; do [[ -d /proc/$pid ]] || break; sleep 0.1; done
      fi
      # Files of a user namespace belong to ids that root may remove as well.
      rm -rf "$place"
    done <"$pid_file"
    rm -f "$pid_file"
  fi
  exit 0
fi

"$0" stop "$folder"  # one that an interrupted run left
((EUID == 0)) || missing "the tests start Podman's services as root, for root and for an ordinary user"
"$repository/tools/setup.sh" docker podman >&2 || missing "Podman cannot be installed: run 'tools/setup.sh docker podman' and see why"
export PATH=$PATH:/usr/sbin:/sbin
command -v podman >/dev/null && command -v newuidmap >/dev/null && command -v runc >/dev/null ||
  missing "there is no podman, runc or newuidmap: install them (Debian: apt-get install podman runc uidmap)"
id "$user" &>/dev/null || useradd --create-home --key HOME_MODE=0700 --shell /usr/sbin/nologin "$user"
grep -q "^$user:" /etc/subuid || missing "the user $user has no subordinate ids: give it some in /etc/subuid and /etc/subgid"

make_image_files || missing "the image for the tests cannot be made: run 'tools/setup.sh docker' (it installs mmdebstrap) and see why"

# serve NAME COMMAND...: a service, its image, and its address in `addresses`
addresses=()
serve() {
  local place pid made
  place=$(mktemp -d "/tmp/cella-podman-$1-XXXXXX")
  chmod 755 "$place"
  cat >"$place/containers.conf" <<EOF
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
EOF
  mkdir "$place/home" "$place/data"
  if [[ $1 == user ]]; then chown -R "$user:" "$place"; fi
  # Namespaces of its own: what Podman keeps running and mounted ends with them, and other tests do not see it. The images
  # are in memory, since removing their files from a busy disk takes half a minute. The shell is process 1, which reaps.
  (cd "$place/home" && exec setsid unshare --mount --propagation slave --pid --fork --kill-child --mount-proc \
    bash -c 'mount -t tmpfs -o "mode=755,size=2g,uid=$2,gid=$2" images "$1/data" && { "${@:3}" & wait $!; }' init "$place" \
    "$(stat -c %u "$place")" "${@:2}" env -i PATH="$PATH" HOME="$place/home" XDG_RUNTIME_DIR="$place/home" \
    CONTAINERS_CONF="$place/containers.conf" podman --storage-driver overlay --root "$place/data" --runroot "$place/run" \
    --tmpdir "$place/tmp" system service --time=0 "unix://$place/s") &>"$folder/podman-$1.log" </dev/null &
  pid=$!
  echo "$pid $place" >>"$pid_file"
  for _ in {1..300}; do
    if [[ -S $place/s ]] && call "$place/s" _ping &>/dev/null; then
      made=$(call "$place/s" "images/import?reference=$image" -X POST -H 'Content-Type: application/x-tar' -T "$files") &&
        [[ $made == *Id* ]] && addresses+=("unix://$place/s") && return 0
      break
    fi
    [[ -d /proc/$pid ]] || break
    sleep 0.1
  done
  tail -n 5 "$folder/podman-$1.log" >&2
  "$0" stop "$folder"
  missing "Podman's service does not start here ($1): see $folder/podman-$1.log"
}

serve root
serve user setpriv --reuid "$user" --regid "$user" --init-groups
available "PODMAN_ROOT=${addresses[0]}" "PODMAN_USER=${addresses[1]}" "PODMAN_IMAGE=$image"
