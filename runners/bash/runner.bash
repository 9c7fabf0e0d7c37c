# Cella's runner for Bash: evaluates cells one after the other in this very shell, so that variables, functions,
# aliases, options and the directory stay, and speaks the protocol of runners/README.md on descriptor 3. No program but
# Bash is needed. `input` of a run is ignored: the `read` builtin cannot be made to ask; `stdin` is what a cell reads.
#
# How a cell ends early without ending the shell:
# - `exit`, SIGINT and a failure under `set -e` set a DEBUG trap that answers 2, which under extdebug makes Bash return
#   from every function and sourced file, up to this script: a cell is sourced (see the file `cell`).
# - What ends a shell for good (an unbound variable under `set -u`, ${x:?}, `builtin exit`) runs the EXIT trap, which
#   reports, writes the state down, and replaces the shell by a new one that reads it. Only Bash's list of jobs is lost.

__cella_home=${BASH_SOURCE[0]%/*}
# High, out of the way of a cell's own descriptors and of those that Bash puts aside (from 10 on). 243 is a run's stdin.
__cella_fd=240 __cella_out=241 __cella_err=242
declare -A __cella_field=()
__cella_last= __cella_last_signals=0 __cella_signals=0
__cella_run= __cella_running= __cella_early= __cella_skipped= __cella_ending= __cella_exit_code=0 __cella_kept_status=
__cella_on_exit= __cella_on_error= __cella_code= __cella_file= __cella_input= __cella_stdin= __cella_status=
__cella_resumed= __cella_aside=()

if [[ ${1-} == --resume ]]; then
  # Descriptors and state come from rescue.bash; the state is evaluated here, at the top level, to stay global.
  IFS= builtin read -r -d '' -u 243 __cella_state
  exec 243<&-
  builtin set --
  builtin eval "$__cella_state" 2>/dev/null
  builtin unset __cella_state
  __cella_resumed=$__cella_run
else
  exec 240<&3 3<&- 241>&1 242>&2
  builtin shopt -s expand_aliases
  __cella_options=
fi

builtin . "$__cella_home/frames.bash"
builtin . "$__cella_home/unwind.bash"
builtin . "$__cella_home/assist.bash"
builtin . "$__cella_home/rescue.bash"
builtin . "$__cella_home/values.bash"
builtin set -E
__cella_own_options=$SHELLOPTS
__cella_options=${__cella_options:-$SHELLOPTS}

# Changes the options (names joined by colons) from $1 to $2.
__cella_change_options() {
  local IFS=: name
  [[ $1 != "$2" ]] || return 0
  for name in $1; do
    [[ :$2: == *:$name:* ]] || builtin set +o "$name"
  done
  for name in $2; do
    [[ :$1: == *:$name:* ]] || builtin set -o "$name"
  done
}

__cella_configure() {
  local name names
  names=$(builtin compgen -e)
  while IFS= builtin read -r name; do
    [[ -n $name && -z ${__cella_field[env/$name]+set} ]] && builtin unset -v "$name"
  done <<<"$names" 2>/dev/null
  for name in "${!__cella_field[@]}"; do
    [[ $name == env/* ]] || continue
    __cella_decode "${__cella_field[$name]}"
    name=${name#env/}
    [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] && builtin export -- "$name=$__cella_text"
  done 2>/dev/null
  __cella_decode "${__cella_field[cwd]-}"
  [[ -n $__cella_text ]] && builtin cd -- "$__cella_text"
}

# Reports how the cell ended that has just returned $1.
__cella_conclude() {
  local status=ok code=$1 message
  if [[ -n $__cella_kept_status ]]; then
    # It was the EXIT trap of the cell: the cell's own ending counts.
    __cella_ending=${__cella_kept_status%:*} code=${__cella_kept_status#*:}
    __cella_exit_code=$code
  fi
  case $__cella_ending in
    exit) status=exit code=$__cella_exit_code ;;
    interrupt) status=interrupted code=130 ;;
    failure) code=$__cella_exit_code ;;
  esac
  if [[ -n $__cella_on_exit ]]; then
    __cella_kept_status=$__cella_ending:$code
    __cella_code=$__cella_on_exit __cella_on_exit= __cella_ending=
    return 0
  fi
  if [[ $status == interrupted ]]; then
    __cella_send '{"type":"error","name":"KeyboardInterrupt","message":"interrupted","traceback":"KeyboardInterrupt"}'
  elif [[ $status == ok && $code != 0 ]]; then
    status=error
    __cella_report_failure "$code"
  fi
  __cella_send "{\"type\":\"done\",\"run\":$__cella_run,\"status\":\"$status\",\"exit_code\":$code}"
  __cella_run= __cella_ending= __cella_kept_status=
  exec 243<&-
}

# A syntax error has the status 2; whether it was one, a child that only parses says in Bash's own words.
__cella_report_failure() {
  local message
  (($1 > 2)) || message=$(__cella_parse_only "$__cella_code" 2>&1)
  if [[ ${message-} == *': syntax error'* || ${message-} == *': unexpected EOF'* ]]; then
    message=${message//"$__cella_home/cell: eval: "/"$__cella_file: "}
    message=${message//'set -n; '/}
    __cella_quote "$message"
    message=$__cella_json
    __cella_send "{\"type\":\"error\",\"name\":\"SyntaxError\",\"message\":$message,\"traceback\":$message}"
  else
    __cella_send "{\"type\":\"error\",\"name\":\"ExitStatus\",\"message\":\"exit status $1\",\"traceback\":\"\"}"
  fi
}

# Ends a run before its code, because a variable of this name cannot be assigned.
__cella_refuse_value() {
  __cella_quote "the variable '$1' cannot be assigned: it is read-only"
  __cella_send "{\"type\":\"error\",\"name\":\"VariableError\",\"message\":$__cella_json,\"traceback\":\"\"}"
  __cella_send "{\"type\":\"done\",\"run\":$__cella_run,\"status\":\"error\",\"exit_code\":1}"
  __cella_run=
}

# Serves frames until one is a run, whose code and surroundings it prepares.
__cella_await_run() {
  while :; do
    if ! __cella_read_frame; then
      builtin trap - EXIT
      builtin exit 0
    fi
    case ${__cella_field[type]-} in
      configure) __cella_configure ;;
      complete) __cella_complete ;;
      inspect) __cella_inspect ;;
      is_complete) __cella_is_complete ;;
      interrupt) __cella_is_interrupt_for "$__cella_last" && __cella_settle ;;
      run)
        if [[ -n ${__cella_field[file]+set} ]]; then
          __cella_decode "${__cella_field[file]}"
          __cella_file=$__cella_text
        else
          __cella_file="cell ${__cella_field[number]-}"
        fi
        __cella_decode "${__cella_field[run]-}"
        __cella_quote "$__cella_text"
        __cella_run=$__cella_json
        __cella_last=$__cella_run __cella_last_signals=$__cella_signals
        if ! __cella_assign_values; then
          __cella_refuse_value "$__cella_text"
          builtin continue
        fi
        __cella_input='</dev/null'
        if [[ -n ${__cella_field[stdin]+set} ]]; then
          __cella_decode "${__cella_field[stdin]}"
          __cella_stdin=$__cella_text
          exec 243< <(exec 240<&- 241>&- 242>&-; builtin printf %s "$__cella_stdin")
          __cella_input='<&243 243<&-'
        fi
        __cella_decode "${__cella_field[code]-}"
        __cella_code=$__cella_text
        __cella_field=()
        return
        ;;
    esac
  done
}

# How to call the next cell.
__cella_prepare() {
  # Traced from inside the cell's own text, or the tracing would show the runner.
  __cella_tracing=
  [[ :$__cella_options: == *:xtrace:* ]] && __cella_tracing='\builtin set -x; '
  # The cell and its children do not see the runner's descriptors; for the shell itself Bash keeps them aside.
  __cella_call="\\builtin . \"\$__cella_home/cell\" $__cella_input $__cella_fd>&- $__cella_out>&- $__cella_err>&-"
}

# Output that an earlier cell closed. Silent in any case: what could be told goes to a descriptor that is closed.
__cella_repair() {
  { : 243>&1; } 2>/dev/null || exec 1>&"$__cella_out"
  : 243>&2 || exec 2>&"$__cella_err"
}

# Once for every cell, whichever way it came back, with its status: `break` and `continue` of a cell act on these loops.
__cella_turn() {
  local IFS=$' \t\n'
  __cella_running=
  builtin trap '{ __cella_interrupt; } 2>/dev/null' INT
  # Bash calls it as well in a child that a signal ends before that has become its program.
  builtin trap '{ ((__cella_ended = $?, BASH_SUBSHELL)) || { __cella_options=$SHELLOPTS && builtin set +x; }; } 2>/dev/null
((BASH_SUBSHELL)) || __cella_rescue' EXIT
  builtin trap - ERR
  __cella_change_options "$SHELLOPTS" "$__cella_own_options"
  [[ $__cella_ending == failure ]] && __cella_options+=:errexit
  [[ -n $__cella_run && -z $__cella_resumed ]] && __cella_conclude "$1"
  __cella_resumed=
  while :; do
    [[ -n $__cella_run ]] || __cella_await_run
    __cella_look_for_interrupt
    [[ $__cella_ending == interrupt ]] || break
    __cella_conclude 130
  done
  __cella_prepare
}

while :; do
  # Until the options are the runner's again nothing may be traced, shown to a DEBUG trap, or taken for an environment.
  while {
    __cella_returned=$?
    [[ -z $__cella_run || -n $__cella_resumed || -n $__cella_skipped ]] || __cella_options=$SHELLOPTS
    __cella_skipped=
    builtin set +k # or `local name=value` would not be local
    builtin trap - DEBUG
    __cella_turn "${__cella_status:-$__cella_returned}"
  } >/dev/null 2>&1; do
    __cella_repair
    __cella_foresee
    __cella_catch_errors
    __cella_change_options "$__cella_own_options" "${__cella_options//xtrace/braceexpand}"
    __cella_status= __cella_running=1
    # A signal from just before: once more from the top, with the same run.
    [[ -z $__cella_early ]] || { __cella_running= __cella_resumed=$__cella_run && \builtin continue; }
    \builtin eval "$__cella_call"
  done
done
