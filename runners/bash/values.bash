# Values of a run, which its code finds as global variables. Each is a text. Large ones are in files, which are removed
# as they are read.

# Assigns the values of the parsed frame. Fails at a variable that cannot be assigned, whose name is in __cella_text then.
__cella_assign_values() {
  local __cella_key __cella_name __cella_exported= __cella_flag
  for __cella_key in "${!__cella_field[@]}"; do
    [[ $__cella_key == texts/* || $__cella_key == text_files/* ]] || continue
    __cella_name=${__cella_key#*/}
    __cella_decode "${__cella_field[$__cella_key]}"
    [[ $__cella_key == texts/* ]] || __cella_take_file "$__cella_text"
    [[ -n $__cella_exported ]] || __cella_exported=$'\n'$(builtin compgen -e)$'\n'
    __cella_flag=-g
    [[ $__cella_exported == *$'\n'$__cella_name$'\n'* ]] && __cella_flag=-gx
    # The name may be that of a reference, of an array, or of an integer, whose value would be evaluated. IFS is a local
    # variable of a caller, which must stay.
    if [[ $__cella_name != IFS ]]; then
      builtin unset -n -- "$__cella_name"
      builtin unset -v -- "$__cella_name"
    fi
    builtin declare "$__cella_flag" -- "$__cella_name=$__cella_text" && continue
    __cella_text=$__cella_name
    return 1
  done
}

# Sets __cella_text to the content of the file $1.
__cella_take_file() {
  local LC_ALL=C
  IFS= builtin read -r -d '' __cella_text <"$1"
  builtin command rm -f -- "$1" 240>&- 241>&- 242>&-
}
