#!/usr/bin/env bash
# Compiler launcher: ccache, used so that another clone of the sources finds what this one compiled.
#   tools/compile.sh SOURCE_TREE COMPILER ARGUMENT...
# ccache keys an object by the content of the precompiled header, and that holds absolute paths of its clone. So each
# clone makes its own, without ccache, and leaves a checksum of what went into it beside it, which ccache reads instead.
set -euo pipefail

root=$1
shift
arguments=()
emits='' output='' before=''
for argument; do
  # ccache makes paths below CCACHE_BASEDIR relative, but not those behind -Xclang.
  if [[ $before == -Xclang && $argument == "$root"/* ]]; then argument=$(realpath --relative-to=. -s "$argument"); fi
  if [[ $argument == -emit-pch ]]; then emits=1; fi
  if [[ $before == -o ]]; then output=$argument; fi
  arguments+=("$argument")
  before=$argument
done

if [[ ! $emits ]]; then
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros
  exec ccache "${arguments[@]}"
fi
"${arguments[@]}"
{
  echo "${arguments[@]}"
  "${arguments[0]}" --version
  # The dependency file is "TARGET: FILE \ FILE …".
  sed -e 's/^[^:]*: *//' -e 's/\\$//' "$output.d" | tr -s ' ' '\n' | sed '/^$/d' | xargs cat
} | sed "s|$root|.|g" | sha256sum >"$output.sum"
