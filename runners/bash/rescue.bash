# When the shell ends for good in the middle of a session: reports the run, and goes on in a new shell with the state of
# this one. The process, its directory, its descriptors and its children stay; Bash's own list of jobs does not.

__cella_rescue() {
  local status=${__cella_ended:-1} IFS=$' \t\n'
  builtin set +k
  __cella_running=
  builtin trap - DEBUG ERR RETURN
  [[ -e /dev/fd/$__cella_fd ]] || __cella_take_back
  __cella_change_options "$SHELLOPTS" "$__cella_own_options" 2>/dev/null
  [[ -n $__cella_run ]] && __cella_conclude "$status"
  __cella_input='</dev/null'
  __cella_state=$(__cella_write_state)
  exec 243< <(builtin printf %s "$__cella_state")
  BASH_ENV= exec "${BASH:-/bin/bash}" "$__cella_home/runner.bash" --resume
}

# Notes where Bash will put aside the descriptors that a cell runs without (__cella_prepare): at the lowest free numbers
# from 10 on, in the order of the redirection. Of those for the cell's input there are none, one or two.
__cella_foresee() {
  local number
  __cella_aside=()
  for ((number = 10; ${#__cella_aside[@]} < 5 && number < 240; number++)); do
    [[ -e /dev/fd/$number ]] || __cella_aside+=("$number")
  done
}

# Under `set -e` an expansion error enters the EXIT trap without undoing redirections: the runner's descriptors are still
# put aside, and the output may be redirected. Without the socket nothing can be reported: then the status must not be 0.
__cella_take_back() {
  while [[ ! -S /dev/fd/${__cella_aside[0]-none} ]]; do
    ((${#__cella_aside[@]} > 3)) || builtin exit 125
    __cella_aside=("${__cella_aside[@]:1}")
  done
  # Through 0: Bash copies close-on-exec, which it sets on what it puts aside, except to 0, 1 and 2.
  exec 0>&"${__cella_aside[0]}" 240>&0 0>&"${__cella_aside[1]}" 241>&0 0>&"${__cella_aside[2]}" 242>&0
  exec 0</dev/null 1>&241 2>&242
}

# The state as commands. Variables that Bash maintains itself are left out, and so is what the runner defines anew; but
# a run is carried over whose EXIT trap has still to run.
__cella_write_state() {
  local name
  while IFS= builtin read -r name; do
    case $name in
      __cella_* | BASH | BASH[_O]* | BASHPID | EUID | UID | PPID | SHELLOPTS | FUNCNAME | GROUPS | DIRSTACK | \
        PIPESTATUS | _ | LINENO | RANDOM | SRANDOM | EPOCH* | HISTCMD | COMP_* | name) ;;
      *) builtin declare -p "$name" 2>/dev/null ;;
    esac
  done <<<"$(builtin compgen -v)"
  while IFS= builtin read -r name; do
    case $name in
      __cella_* | exit | trap | '') ;;
      *) builtin declare -f "$name" ;;
    esac
  done <<<"$(builtin compgen -A function)"
  builtin declare -Fx
  builtin alias -p
  builtin shopt -p
  builtin trap - EXIT INT ERR
  builtin trap -p
  for name in __cella_{options,on_error,run,kept_status,code,file,input}; do
    builtin printf '%s=%q\n' "$name" "${!name-}"
  done
}
