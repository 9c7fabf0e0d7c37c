# Ending a cell from any depth of it: `exit`, SIGINT, a failure under `set -e`; and the traps of cells, which must not
# take the place of the runner's.

# Only this shell itself unwinds; in a subshell or a pipeline the builtin does what it always does.
exit() {
  local status=$?
  [[ $BASHPID == "$$" ]] || builtin exit "${1-$status}"
  status=${1-$status}
  [[ $status =~ ^-?[0-9]+$ ]] || status=2
  __cella_end exit "$((status & 255))"
}

__cella_interrupt() {
  [[ -n $__cella_running && $BASHPID == "$$" ]] && __cella_end interrupt 130
}

# The ERR trap comes just before `set -e` would end the shell, under the same conditions. A cell's own trap goes in
# between, where $? and $LINENO are as it expects.
__cella_catch_errors() {
  # Where only the script itself is on the stack it is the call of the cell that fails, and not a command of it.
  builtin trap -- "__cella_error_begins; ((\${#BASH_SOURCE[@]} < 2)) || { __cella_error_again; ${__cella_on_error:-:}
}; __cella_error_ends" ERR
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

# Before every command: 2 returns from the function or sourced file that is about to run it. Back at the runner's own
# level, where only this function and the script are on the stack, it takes itself away.
__cella_unwind() {
  ((${#FUNCNAME[@]} > 2)) && return 2
  builtin trap - DEBUG
  builtin shopt -u extdebug
  builtin set -E
  return 0
}

# The shell's own EXIT and ERR traps are the runner's. An EXIT trap that a cell sets runs when this cell has ended, as
# it would at the end of a script. Traced, so that a DEBUG trap set through it stays.
trap() {
  local action signal
  local -a others=()
  if [[ $BASHPID != "$$" || $# -lt 1 || $1 == -[lp]* ]]; then
    builtin trap "$@"
    return
  fi
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
  ((${#others[@]} == 0)) || builtin trap -- "$action" "${others[@]}"
}
declare -ft trap
