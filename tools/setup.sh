#!/usr/bin/env bash
# Installs the missing packages of the given sections of tools/packages.txt (Debian, Ubuntu and derivatives).
#   tools/setup.sh [--dry-run] SECTION...     CELLA_SETUP=off skips it, CELLA_SETUP=yes does not ask
# If nothing is missing, it runs one dpkg-query and needs neither root nor a network. On a terminal it prints what it will
# run, and asks first.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
say() { printf '== %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$@" >&2; exit 1; }

dry_run=''
if [[ ${1-} == --dry-run ]]; then dry_run=1; shift; fi
(($#)) || die "usage: tools/setup.sh [--dry-run] SECTION..."
if [[ $(uname -s) != Linux ]]; then
  die "cella is built and runs on Linux; this is $(uname -s). Use a virtual machine, or WSL2 on Windows;" \
    "or use a server elsewhere from here, with the Python package: cella.Session(url='https://…')."
fi
[[ ${CELLA_SETUP-} == off ]] && exit 0

# Each element is a package and its alternatives, as "a|b".
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
  say "not a Debian-like system: nothing is installed. If the build fails, install these or what they are called here:" \
    "${needs[*]}"
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

# Whether to go on; without a terminal there is no one to ask.
Ask() {
  local answer=''
  [[ ${CELLA_SETUP-} != yes && -t 0 && -t 2 ]] || return 0
  printf '%s [Y/n] ' "$1" >&2
  read -r answer || answer=n
  [[ ! $answer || $answer == [yY]* ]] || die "Nothing was changed. CELLA_SETUP=off builds with what there is."
}
say "installing ${#missing[@]} package$plural (first run only): ${missing[*]}"

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "root is needed to install packages and there is no sudo. As root, run:" \
    "  tools/setup.sh $*"
  as_root=(sudo)
  Ask "Run sudo apt-get update and apt-get install for them?"
  sudo true || die "sudo refused, and root is needed to install: ${missing[*]}"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lock timeout covers the unattended upgrade that a new machine runs at its first boot.
apt=(env LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
     apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 --no-install-recommends)
Update() { "${as_root[@]}" "${apt[@]}" update >"$log" 2>&1 && ! grep -q '^[WE]: Failed to fetch' "$log"; }
Offline() { grep -Eq 'Failed to fetch|Could not (resolve|connect)|Temporary failure|Unable to connect' "$log"; }
Fail() {
  tail -n 5 "$log" >&2
  if Offline; then
    die "the package servers are unreachable, and these packages are missing: ${missing[*]}" \
      "Connect to the network and run this again, or install the packages yourself."
  fi
  die "$1"
}
fresh=1
Update || { sleep 2; Update; } || fresh=''  # old lists and cached packages may suffice

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

# libboost1.81-dev replaces Debian 12's 1.74 headers, and apt then removes packages that depend on those (scipy, for
# example). Simulate first, and leave that decision to the user.
LC_ALL=C apt-get install -s --no-install-recommends "${chosen[@]}" >"$log" 2>&1 ||
  Fail "apt cannot install ${chosen[*]}"
mapfile -t replaced < <(sed -n 's/^Remv \([^ :]*\).*/\1/p' "$log" | grep -E '^libboost.*-dev$' || true)
mapfile -t removed < <(sed -n 's/^Remv \([^ :]*\).*/\1/p' "$log" | grep -Ev '^libboost.*-dev$' || true)
if ((${#removed[@]})); then
  die "installing ${chosen[*]} would remove: ${removed[*]}" \
    "Nothing was changed. If you can do without those, run:" \
    "  ${as_root[*]:+${as_root[*]} }apt-get install --no-install-recommends ${chosen[*]}"
fi

say "${as_root[*]:+${as_root[*]} }apt-get install ${chosen[*]}"
if ((${#replaced[@]})); then
  say "this removes other versions of Boost's headers: ${replaced[*]}"
  Ask "Replace them?"
elif ((EUID == 0)); then
  Ask "Run this?"
fi
Install() { "${as_root[@]}" "${apt[@]}" install "${chosen[@]}" >"$log" 2>&1; }
if ! Install; then
  problem="apt-get install failed: ${chosen[*]}"
  [[ $fresh ]] || Fail "$problem"
  say "the installation failed; trying again with new package lists"
  Update || true
  Install || Fail "$problem"
fi
