#!/bin/sh
# Records the results of Go's own engine, and the names of its functions. Needs Go, and the module of Sprig.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp main.go data.json templates.txt "$folder"
cd "$folder"
go mod init oracle >/dev/null 2>&1
go get github.com/Masterminds/sprig/v3@v3.3.0 >/dev/null 2>&1
# Upstream's image has no other zone.
TZ=UTC go run . >"$OLDPWD/results.jsonl"
cp functions.txt "$OLDPWD"
