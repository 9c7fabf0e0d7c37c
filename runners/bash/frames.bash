# Frames of the session's socket in pure Bash: a 32-bit little-endian length, then JSON. Only what the protocol of
# runners/README.md holds is understood: one object of strings, numbers and words, with objects of strings inside.
# Everything works on bytes (LC_ALL=C, local to each function): lengths are bytes, and byte strings are fast.

# Reads a frame into the array __cella_field, undecoded: name -> text, env/NAME -> text. Fails at the end of the socket.
__cella_read_frame() {
  local LC_ALL=C IFS= byte body code length=0 shift
  for shift in 0 8 16 24; do
    # Bash drops NUL from what it reads; as the delimiter it shows as an empty answer.
    builtin read -r -u "$__cella_fd" -d '' -n 1 byte || return 1
    [[ -n $byte ]] || continue
    builtin printf -v code %d "'$byte"
    length=$((length | (code & 255) << shift))
  done
  builtin read -r -u "$__cella_fd" -N "$length" body || return 1
  __cella_parse "$body"
}

# Cuts $1 into the array `cut` of the caller. Bash replaces in time that is quadratic in the length of a text, and takes
# a part of a text in time that is linear in the whole: hence pieces of pieces. A caller that replaces escapes carries
# half of one over to the next piece.
__cella_cut() {
  local LC_ALL=C size=${2-1048576} piece at
  cut=()
  for ((at = 0; at < ${#1}; at += size)); do
    cut+=("${1:at:size}")
  done
  ((size > 4096)) || return 0
  local -a outer=("${cut[@]}") all=()
  for piece in "${outer[@]}"; do
    if ((${#piece} > 4096)); then
      __cella_cut "$piece" $((size / 16))
      all+=("${cut[@]}")
    else
      all+=("$piece")
    fi
  done
  cut=("${all[@]}")
}

# A JSON text has no raw control characters, so \x01 and \x02 can stand for the two escapes that hide a quote's end.
# What is split at the quotes then is structure and string in turn.
__cella_parse() {
  local LC_ALL=C IFS='"' text=$1 key= scope= rest index piece carry=
  local -a parts cut
  if [[ $text == *\\[\\\"]* ]]; then
    __cella_cut "$text"
    for index in "${!cut[@]}"; do
      piece=$carry${cut[index]} carry=
      piece=${piece//\\\\/$'\x01'}
      [[ $piece == *\\ ]] && carry='\' piece=${piece%\\}
      cut[index]=${piece//\\\"/$'\x02'}
    done
    builtin printf -v text %s "${cut[@]}"
  fi
  builtin set -f
  parts=($text)
  builtin set +f
  __cella_field=()
  for ((index = 1; index < ${#parts[@]}; index += 2)); do
    rest=${parts[index + 1]//[[:space:]]/}
    if [[ $rest != :* ]]; then
      __cella_field[$key]=${parts[index]}
      [[ $rest == *'}'* ]] && scope=
      continue
    fi
    key=$scope${parts[index]} rest=${rest#:}
    case $rest in
      '') ;;
      '{') scope=$key/ ;;
      '{}'* | null*) ;;
      *) __cella_field[$key]=${rest%%[,\}]*} ;;
    esac
    [[ -n $scope && $rest == [!{]*'}'* ]] && scope=
  done
  return 0
}

# Sets __cella_text to $1 with the two escapes that __cella_parse hid.
__cella_unhide() {
  local LC_ALL=C index
  local -a cut
  __cella_text=$1
  [[ $1 == *[$'\x01\x02']* ]] || return 0
  __cella_cut "$1"
  for index in "${!cut[@]}"; do
    cut[index]=${cut[index]//$'\x01'/"\\"}
    cut[index]=${cut[index]//$'\x02'/'"'}
  done
  builtin printf -v __cella_text %s "${cut[@]}"
}

# Decodes a string of the parsed frame into __cella_text. NUL, which no variable of Bash can hold, is left out.
__cella_decode() {
  local LC_ALL=C IFS='\' text=$1 piece char index point low carry=
  local -a pieces decoded cut
  if [[ $text == *\\* ]]; then
    __cella_cut "$text"
    for index in "${!cut[@]}"; do
      piece=$carry${cut[index]} carry=
      [[ $piece == *\\ ]] && carry='\' piece=${piece%\\}
      piece=${piece//\\n/$'\n'}
      piece=${piece//\\t/$'\t'}
      piece=${piece//\\r/$'\r'}
      piece=${piece//\\b/$'\b'}
      piece=${piece//\\f/$'\f'}
      cut[index]=${piece//\\\//\/}
    done
    builtin printf -v text %s "${cut[@]}"
  fi
  if [[ $text != *\\u* ]]; then
    __cella_unhide "$text"
    return
  fi
  builtin set -f
  pieces=($text)
  builtin set +f
  for ((index = 0; index < ${#pieces[@]}; index++)); do
    piece=${pieces[index]}
    if ((index > 0)); then
      point=$((16#${piece:1:4}))
      if ((point >= 0xd800 && point < 0xdc00 && ${#piece} == 5)) && [[ ${pieces[index + 1]-} == u[dD][c-fC-F]* ]]; then
        index=$((index + 1)) piece=${pieces[index]}
        low=$((16#${piece:1:4}))
        point=$((0x10000 + ((point - 0xd800) << 10) + low - 0xdc00))
      fi
      __cella_encode_point "$point"
      decoded+=("$char")
      piece=${piece:5}
    fi
    __cella_unhide "$piece"
    decoded+=("$__cella_text")
  done
  builtin printf -v __cella_text %s "${decoded[@]}"
}

# Sets the caller's `char` to the UTF-8 bytes of a code point.
__cella_encode_point() {
  local format
  if (($1 == 0)); then
    char=
    return
  elif (($1 < 0x80)); then
    builtin printf -v format '\\x%02x' "$1"
  elif (($1 < 0x800)); then
    builtin printf -v format '\\x%02x' $((0xc0 | $1 >> 6)) $((0x80 | $1 & 63))
  elif (($1 < 0x10000)); then
    builtin printf -v format '\\x%02x' $((0xe0 | $1 >> 12)) $((0x80 | $1 >> 6 & 63)) $((0x80 | $1 & 63))
  else
    builtin printf -v format '\\x%02x' $((0xf0 | $1 >> 18)) $((0x80 | $1 >> 12 & 63)) $((0x80 | $1 >> 6 & 63)) \
      $((0x80 | $1 & 63))
  fi
  builtin printf -v char "$format"
}

# Sets __cella_json to a text as a JSON string. What is not UTF-8 becomes the replacement character.
__cella_quote() {
  local LC_ALL=C text=${1:0:65536} good= plain code char escape
  if [[ $text == *[$'\x80'-$'\xff']* ]]; then
    while [[ -n $text ]]; do
      plain=${text%%[$'\x80'-$'\xff']*}
      good+=$plain text=${text:${#plain}}
      case $text in
        '') ;;
        [$'\xc2'-$'\xdf'][$'\x80'-$'\xbf']*) good+=${text:0:2} text=${text:2} ;;
        $'\xe0'[$'\xa0'-$'\xbf'][$'\x80'-$'\xbf']* | $'\xed'[$'\x80'-$'\x9f'][$'\x80'-$'\xbf']* | \
          [$'\xe1'-$'\xec'$'\xee'$'\xef'][$'\x80'-$'\xbf'][$'\x80'-$'\xbf']*) good+=${text:0:3} text=${text:3} ;;
        $'\xf0'[$'\x90'-$'\xbf'][$'\x80'-$'\xbf'][$'\x80'-$'\xbf']* | \
          $'\xf4'[$'\x80'-$'\x8f'][$'\x80'-$'\xbf'][$'\x80'-$'\xbf']* | \
          [$'\xf1'-$'\xf3'][$'\x80'-$'\xbf'][$'\x80'-$'\xbf'][$'\x80'-$'\xbf']*) good+=${text:0:4} text=${text:4} ;;
        *) good+=$'\xef\xbf\xbd' text=${text:1} ;;
      esac
    done
    text=$good
  fi
  text=${text//\\/"\\\\"}
  text=${text//\"/"\\\""}
  if [[ $text == *[$'\x01'-$'\x1f']* ]]; then
    for ((code = 1; code < 32; code++)); do
      builtin printf -v escape '\\u%04x' "$code"
      __cella_encode_point "$code"
      text=${text//"$char"/"$escape"}
    done
  fi
  __cella_json="\"$text\""
}

# Sends a frame: its JSON text.
__cella_send() {
  local LC_ALL=C header
  builtin printf -v header '\\x%02x\\x%02x\\x%02x\\x%02x' \
    $((${#1} & 255)) $((${#1} >> 8 & 255)) $((${#1} >> 16 & 255)) $((${#1} >> 24 & 255))
  builtin printf "$header%s" "$1" >&"$__cella_fd"
}
