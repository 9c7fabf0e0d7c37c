#!/usr/bin/env bash
# Compiler launcher: runs ccache so that clones of the sources share compiled objects.
#   tools/compile.sh SOURCE_TREE COMPILER ARGUMENT...
# ccache keys an object by the content of the precompiled header, which contains absolute paths of its clone. Therefore each
# clone compiles its own precompiled header without ccache and writes a checksum of its inputs, which ccache uses instead.
set -euo pipefail

root=$1
shift
arguments=()
emits='' output='' before=''
for argument; do
  # ccache makes paths below CCACHE_BASEDIR relative, except after -Xclang.
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
