#!/bin/sh
# Fetches the bootstrap data, and lets cloud-init use it from this stage on. Later boots find it on the disk.
umask 077
url="$1"
ca="$2"
machine="$3"
directory=/var/lib/cloud/instance
document="$directory/bootstrap-data"
log=/run/capstan/fetch.log

fetch() {
  if command -v curl >/dev/null; then
    curl -fsS --cacert "$ca" --max-time 60 -o "$document.new" "$url"
  else
    python3 - "$url" "$ca" "$document.new" <<'PYTHON'
import ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
try:
    data = urllib.request.urlopen(sys.argv[1], context=context, timeout=60).read()
except urllib.error.HTTPError as error:
    sys.stderr.write("%s\n" % error)
    sys.exit(22)
except Exception as error:
    sys.stderr.write("%s\n" % error)
    sys.exit(1)
open(sys.argv[3], "wb").write(data)
PYTHON
  fi
}

fail() {
  echo "capstan-bootstrap: $machine fetch $1"
  cat "$log"
  exit 1
}

if [ ! -s "$document" ]; then
  tries=0
  until fetch 2>"$log"; do
    code=$?
    tries=$((tries + 1))
    # A refusal does not change. A route may take a while.
    if [ "$code" = 22 ] || [ "$tries" -ge 60 ]; then
      fail "$code" | tee /dev/console
      exit 1
    fi
    sleep 5
  done
  if [ "$(head -c 18 "$document.new")" = "## template: jinja" ]; then
    if ! cloud-init devel render "$document.new" >"$document.part" 2>"$log"; then
      fail "$?" | tee /dev/console
      exit 1
    fi
    rm -f "$document.new"
  else
    mv "$document.new" "$document.part"
  fi
  mv "$document.part" "$document"
fi
cp "$document" "$directory/cloud-config.txt"
for module in write_files disk_setup mounts users_groups; do
  cloud-init single --name "$module"
done
cloud-init single --name bootcmd --frequency always
