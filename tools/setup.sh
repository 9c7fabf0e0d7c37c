#!/usr/bin/env bash
# Installs what the given sections of tools/packages.txt need and this machine lacks (Debian, Ubuntu and kin).
#   tools/setup.sh [--dry-run] SECTION...     CELLA_SETUP=off skips it
# With everything present it is one dpkg-query and needs neither root nor a network.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
say() { printf '== %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$@" >&2; exit 1; }

dry_run=''
if [[ ${1-} == --dry-run ]]; then dry_run=1; shift; fi
(($#)) || die "usage: tools/setup.sh [--dry-run] SECTION..."
[[ ${CELLA_SETUP-} == off ]] && exit 0

# A need is its package and the alternatives to it, as "a|b".
needs=()
HaveAll() {
  local mark
  (($#)) || return 1
  for mark; do
    case $mark in
      cmd:*) command -v "${mark#cmd:}" >/dev/null || return 1 ;;
      file:*) [[ -e ${mark#file:} ]] || return 1 ;;
      *) die "$list: unknown mark '$mark'" ;;
    esac
  done
}
section='' known=' '
while read -ra marks; do
  package=${marks[0]-} marks=("${marks[@]:1}")
  case $package in
    '' | '#'*) ;;
    '['*']') section=${package:1:-1}; known+="$section " ;;
    *) if [[ " $* " == *" $section "* ]] && ! HaveAll "${marks[@]}"; then needs+=("$package"); fi ;;
  esac
done <"$list"
for section; do
  [[ $known == *" $section "* ]] || die "$list has no section [$section]"
done
((${#needs[@]})) || exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "not a Debian-like system, so nothing is installed; going on without checking for: ${needs[*]}"
  exit 0
fi

declare -A installed=()
IFS='|' read -ra names <<<"$(IFS='|'; echo "${needs[*]}")"
while read -r name status; do
  if [[ $status == ?i* ]]; then installed[$name]=1; fi
done < <(dpkg-query -W -f='${Package} ${db:Status-Abbrev}\n' "${names[@]}" 2>/dev/null || true)
missing=()
for need in "${needs[@]}"; do
  found=''
  for name in ${need//|/ }; do [[ ${installed[$name]-} ]] && found=1; done
  [[ $found ]] || missing+=("$need")
done
((${#missing[@]})) || exit 0
if [[ $dry_run ]]; then printf '%s\n' "${missing[@]}"; exit 0; fi

plural=s
((${#missing[@]} > 1)) || plural=''
say "installing ${#missing[@]} package$plural (first run only): ${missing[*]}"

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "root is needed to install packages and there is no sudo. As root, run:" \
    "  tools/setup.sh $*"
  as_root=(sudo)
  sudo true || die "sudo refused, and root is needed to install: ${missing[*]}"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lock time-out waits for the unattended upgrade that a new machine runs at its first boot.
apt=(env LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
     apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 --no-install-recommends)
Update() { "${as_root[@]}" "${apt[@]}" update >"$log" 2>&1 && ! grep -q '^[WE]: Failed to fetch' "$log"; }
Offline() { grep -Eq 'Failed to fetch|Could not (resolve|connect)|Temporary failure|Unable to connect' "$log"; }
Fail() {
  tail -n 5 "$log" >&2
  if Offline; then
    die "the package servers cannot be reached, and these packages are missing: ${missing[*]}" \
      "Connect to the network and run it again, or install them by hand."
  fi
  die "$1"
}
fresh=1
Update || { sleep 2; Update; } || fresh=''  # old lists and a filled package cache may still do

chosen=() unknown=()
for need in "${missing[@]}"; do
  pick=''
  for name in ${need//|/ }; do
    if [[ ! $pick && $(LC_ALL=C apt-cache policy "$name") == *'Candidate: '[!\(]* ]]; then pick=$name; fi
  done
  if [[ $pick ]]; then chosen+=("$pick"); else unknown+=("$need"); fi
done
if ((${#unknown[@]})); then
  # shellcheck disable=SC1091
  system=$(. /etc/os-release && echo "$PRETTY_NAME")
  problem="$system has no package ${unknown[*]} (on Ubuntu: are 'universe' and the updates suite enabled?)"
  [[ $fresh ]] || Fail "$problem"
  die "$problem"
fi

# libboost1.81-dev displaces Debian 12's 1.74 headers, and with them whatever was built on those (a scipy, say): look
# first, and leave that decision to the user.
LC_ALL=C apt-get install -s --no-install-recommends "${chosen[@]}" >"$log" 2>&1 ||
  Fail "apt cannot install ${chosen[*]}"
mapfile -t removed < <(sed -n 's/^Remv \([^ :]*\).*/\1/p' "$log" | grep -Ev '^libboost.*-dev$' || true)
if ((${#removed[@]})); then
  die "installing ${chosen[*]} would remove: ${removed[*]}" \
    "Nothing was changed. If you can do without those, run:" \
    "  ${as_root[*]:+${as_root[*]} }apt-get install --no-install-recommends ${chosen[*]}"
fi

Install() { "${as_root[@]}" "${apt[@]}" install "${chosen[@]}" >"$log" 2>&1; }
if ! Install; then
  problem="apt-get install failed: ${chosen[*]}"
  [[ $fresh ]] || Fail "$problem"
  say "that failed; once more with fresh package lists"
  Update || true
  Install || Fail "$problem"
fi
