# When the shell ends for good in the middle of a session: reports the run, and goes on in a new shell with the state of
# this one. The process, its directory, its descriptors and its children stay; Bash's own list of jobs does not.

__cella_rescue() {
  local status=$__cella_ended IFS=$' \t\n'
  __cella_options=$SHELLOPTS
  builtin set +k
  __cella_running=
  builtin trap - DEBUG ERR RETURN
  __cella_change_options "$SHELLOPTS" "$__cella_own_options" 2>/dev/null
  [[ -n $__cella_run ]] && __cella_conclude "$status"
  __cella_input='</dev/null'
  __cella_state=$(__cella_write_state)
  exec 243< <(builtin printf %s "$__cella_state")
  BASH_ENV= exec "${BASH:-/bin/bash}" "$__cella_home/runner.bash" --resume
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
