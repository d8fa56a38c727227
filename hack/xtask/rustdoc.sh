#!/usr/bin/env bash
# Cargo's RUSTDOC for `cargo xtask check`: keeps a call that runs the tests in docs, and does not make it.
# Such a call names the compiled libraries that the tests use. From the same libraries, the command makes the docs. With
# `cargo doc`, everything would be compiled once more, for its metadata alone.
set -euo pipefail
crate=''
for ((position = 1; position <= $#; position++)); do
  if [[ ${!position} == --crate-name ]]; then
    next=$((position + 1))
    crate=${!next}
  fi
done
if [[ -z $crate ]]; then
  exec rustdoc "$@"
fi
env -0 >"$CAPSTAN_RUSTDOC_CALLS/$crate.environment"
printf '%s\0' "$PWD" "$@" >"$CAPSTAN_RUSTDOC_CALLS/$crate.call"
