# Ending a cell from any depth of it: `exit`, SIGINT, a failure under `set -e`; and the traps of cells, which must not
# take the place of the runner's.

# What a cell calls by these is kept out of its trace (`set -x`), which goes to standard error.

# Only this shell itself unwinds; in a subshell or a pipeline the builtin does what it always does.
exit() {
  { local status=$? && [[ $BASHPID == "$$" ]]; } 2>/dev/null || builtin exit "${1-$status}"
  {
    status=${1-$status}
    [[ $status =~ ^-?[0-9]+$ ]] || status=2
    __cella_end exit "$((status & 255))"
  } 2>/dev/null
}

__cella_interrupt() {
  [[ $BASHPID == "$$" ]] || return
  __cella_signals=$((__cella_signals + 1))
  if [[ -n $__cella_running ]]; then
    __cella_end interrupt 130
  else
    __cella_early=1
  fi
}

# A cell is about to begin, and SIGINT came when none was running: was it meant? The supervisor sends a frame before the
# signal. (Input that was typed ahead is nothing that Bash could use.)
__cella_look_for_interrupt() {
  while [[ -n $__cella_early ]]; do
    __cella_early=
    while builtin read -t 0 -u "$__cella_fd" && __cella_read_frame; do
      __cella_is_interrupt_for "$__cella_run" && __cella_ending=interrupt
    done
  done
}

__cella_is_interrupt_for() {
  [[ ${__cella_field[type]-} == interrupt ]] || return
  __cella_decode "${__cella_field[run]-}"
  __cella_quote "$__cella_text"
  [[ $__cella_json == "$1" ]]
}

# A frame has come to interrupt a run that is over, and no signal since that began: it must not hit the next one.
__cella_settle() {
  local tries
  exec 243<> <(:) # to read from what never comes is the one way to sleep without a program
  for ((tries = 0; tries < 20 && __cella_signals == __cella_last_signals; tries++)); do
    builtin read -t 0.001 -u 243
  done
  exec 243<&-
  __cella_last_signals=$__cella_signals # there may be one more
}

# The ERR trap comes just before `set -e` would end the shell, under the same conditions. A cell's own trap goes in
# between, where $? and $LINENO are as it expects.
__cella_catch_errors() {
  local own=
  # Where only the script itself is on the stack it is the call of the cell that fails, and not a command of it.
  [[ -z $__cella_on_error ]] ||
    own="{ ((\${#BASH_SOURCE[@]} < 2)); } 2>/dev/null || { { __cella_error_again; } 2>/dev/null; $__cella_on_error
}; "
  builtin trap -- "{ __cella_error_begins; } 2>/dev/null; $own{ __cella_error_ends; } 2>/dev/null" ERR
}

__cella_error_begins() {
  __cella_error=$? __cella_fatal=
  [[ $- == *e* && -n $__cella_running && $BASHPID == "$$" ]] || return "$__cella_error"
  builtin set +e
  __cella_fatal=1
  return "$__cella_error"
}

__cella_error_again() {
  return "$__cella_error"
}

__cella_error_ends() {
  [[ -z $__cella_fatal ]] || __cella_end failure "$__cella_error"
}

__cella_end() {
  __cella_ending=$1 __cella_exit_code=$2
  builtin trap - ERR # every return on the way would be one
  builtin shopt -s extdebug
  builtin trap __cella_unwind DEBUG
}

# Before every command: 2 returns from the function or sourced file that is about to run it, 1 skips it, where the cell
# has not begun. Back at the runner's own level, where only this function and the script are on the stack, it takes itself
# away.
__cella_unwind() {
  ((${#FUNCNAME[@]} > 2)) && return 2
  [[ $BASH_COMMAND == *'$__cella_early '* ]] && return 1
  if [[ $BASH_COMMAND == *'eval "$__cella_call"' || $BASH_COMMAND == *'. "$__cella_home/cell"'* ]]; then
    __cella_skipped=1
    return 1
  fi
  builtin trap - DEBUG
  builtin shopt -u extdebug
  builtin set -E
  return 0
}

# The shell's own EXIT and ERR traps are the runner's. An EXIT trap that a cell sets runs when this cell has ended, as
# it would at the end of a script. Traced, so that a DEBUG trap set through it stays.
trap() {
  {
    local action signal
    local -a others=()
    [[ $BASHPID == "$$" && $# -ge 1 && $1 != -[lp]* ]]
  } 2>/dev/null || {
    builtin trap "$@"
    return
  }
  {
    [[ $1 == -- ]] && shift
    if (($# == 1)); then
      action=-
    else
      action=$1
      shift
    fi
    for signal; do
      case $signal in
        EXIT | exit | 0) [[ $action == - ]] && __cella_on_exit= || __cella_on_exit=$action ;;
        ERR | err)
          [[ $action == - ]] && __cella_on_error= || __cella_on_error=$action
          __cella_catch_errors
          ;;
        *) others+=("$signal") ;;
      esac
    done
    ((${#others[@]} == 0))
  } 2>/dev/null || builtin trap -- "$action" "${others[@]}"
}
declare -ft trap
