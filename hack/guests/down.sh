#!/bin/bash
# Stops what up.sh started: containers, compute host, and virtual routers. hack/openstack/down.sh stops the rest.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
H=${OPENSTACK_HOME:-/tmp/openstack}
L=$H/libvirt-guests
starttime() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
stop() { # NAME SECONDS, as in hack/openstack/down.sh
  local f=$H/run/$1.pid pid st i
  [[ -s $f ]] || return 0
  read -r pid st < "$f"
  if [[ -n $pid && -n $st && $(starttime "$pid") == "$st" ]]; then
    kill -TERM "$pid" 2>/dev/null
    for ((i=0; i<$2*10; i++)); do [[ $(starttime "$pid") == "$st" ]] || break; sleep 0.1; done
    kill -KILL -- "-$pid" 2>/dev/null   # with libvirtd and the readers of consoles
  fi
  rm -f "$f"
}
URI="lxc:///system?socket=$L/run/libvirt-sock"
if [[ -s $H/run/guests-compute.pid ]]; then
  for domain in $(timeout 20 virsh -c "$URI" list --name 2>/dev/null); do timeout 60 virsh -c "$URI" destroy "$domain" > /dev/null; done
fi
stop guests-compute 8
stop guests-routers 5
/usr/bin/python3 -s "$HERE/routers.py" "$H" stop
# A compute host that was killed leaves the disks of its servers behind.
losetup --noheadings --output NAME,BACK-FILE | awk -v home="$H/" 'index($2, home) == 1 { print $1 }' | xargs -r losetup --detach
# Groups that libvirt does not know stay behind. A group of a process that runs cannot be removed.
for group in /sys/fs/cgroup/*/machine/lxc-*.libvirt-lxc; do
  pid=${group##*/lxc-}
  [[ ! -d $group || -d /proc/${pid%%-*} ]] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
done
exit 0
