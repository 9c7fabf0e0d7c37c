# Completion, inspection and completeness of a cell's text. Each asks a child: none is on the way of a run.

# Parses a text without running it; Bash's complaint goes to stderr. For a subshell only: -n cannot be taken back. It is
# set by the text itself, for a shell that has it does not even evaluate.
__cella_parse_only() {
  LC_ALL=C __cella_tracing= __cella_code="set -n; $1"
  builtin . "$__cella_home/cell"
}

__cella_is_complete() {
  local status=complete message
  __cella_decode "${__cella_field[code]-}"
  message=$(__cella_parse_only "$__cella_text" 2>&1)
  # An open here-document is only a warning.
  case $message in
    *'unexpected end of file'* | *'unexpected EOF'* | *'delimited by end-of-file'*) status=incomplete ;;
    *': syntax error'*) status=invalid ;;
  esac
  [[ $__cella_text == *[!\\]\\ || $__cella_text == \\ ]] && status=incomplete
  __cella_send "{\"type\":\"completeness\",\"status\":\"$status\"}"
}

__cella_complete() {
  local LC_ALL=C.UTF-8 before word line prefix= matches= cursor=${__cella_field[cursor]-0} name start
  local -A seen=()
  __cella_decode "${__cella_field[code]-}"
  before=${__cella_text:0:cursor}
  word=${before##*[[:space:]\;\|\&\<\>\(\)\`\"\'=]}
  line=${before%"$word"}
  line=${line##*[;|&\(\`$'\n']}
  if [[ $word == *\$* ]]; then
    prefix=${word%"${word##*\$}"}
    [[ $word == *\$\{* ]] && prefix+='{'
    name=$(builtin compgen -v -- "${word#"$prefix"}")
  elif [[ -z ${line//[[:space:]]/} && $word != */* ]]; then
    name=$(builtin compgen -A alias -A function -A builtin -A keyword -A command -A file -- "$word")
  else
    name=$(builtin compgen -f -- "$word")
  fi
  while IFS= builtin read -r name; do
    [[ -n $name && $name != __cella_* && -z ${seen[$name]+set} ]] || continue
    ((${#seen[@]} < 1000)) || break
    seen[$name]=1
    [[ -d $name ]] && name+=/
    __cella_quote "$prefix$name"
    matches+=,$__cella_json
  done <<<"$name"
  start=$((${#before} - ${#word}))
  __cella_send "{\"type\":\"completion\",\"matches\":[${matches#,}],\"start\":$start,\"end\":${#before}}"
}

__cella_inspect() {
  local LC_ALL=C.UTF-8 cursor=${__cella_field[cursor]-0} word after text
  __cella_decode "${__cella_field[code]-}"
  word=${__cella_text:0:cursor}
  after=${__cella_text:cursor}
  word=${word##*[!A-Za-z0-9_.:+-]}${after%%[!A-Za-z0-9_.:+-]*}
  text=$(builtin type -- "$word" 2>/dev/null || builtin declare -p "$word" 2>/dev/null)
  __cella_quote "$text"
  if [[ -n $word && -n $text ]]; then
    __cella_send "{\"type\":\"inspection\",\"found\":true,\"text\":$__cella_json}"
  else
    __cella_send '{"type":"inspection","found":false,"text":""}'
  fi
}
