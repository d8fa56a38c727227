#!/bin/bash
# After hack/openstack/up.sh: adds the compute host "libvirt-guests" in zone "guests", whose servers are system containers
# on a root folder that build.sh has made, and virtual routers for their networks. Idempotent. down.sh removes both.
#   up.sh FOLDER IMAGE...   FOLDER: root folder of the guests. IMAGE: names that it gets in Glance
#   OPENSTACK_HOME       folder of the OpenStack
set -euo pipefail
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
H=${OPENSTACK_HOME:-/tmp/openstack}
ROOT=$1; shift
L=$H/libvirt-guests
starttime() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() { local pid st; [[ -s $H/run/$1.pid ]] || return 1; read -r pid st < "$H/run/$1.pid"; [[ -n $st && $(starttime "$pid") == "$st" ]]; }
# hack/openstack/down.sh stops all processes of these files
spawn() { local n=$1; shift; alive "$n" && return 0; setsid nohup "$@" >> "$H/log/$n.out" 2>&1 < /dev/null & local p=$!; sleep 0.3; echo "$p $(starttime $p)" > "$H/run/$n.pid"; }
admin() { OS_CLIENT_CONFIG_FILE=$H/clouds.yaml OS_CLOUD=lab-admin openstack "$@"; }

# ---- packages
miss=
for p in libvirt-daemon libvirt-daemon-driver-lxc libvirt-clients python3-libvirt nftables conntrack iproute2 procps; do
  [[ $(dpkg-query -W -f '${db:Status-Abbrev}' $p 2>/dev/null || true) == ii* ]] || miss="$miss $p"
done
[[ -z $miss ]] || DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $miss > "$H/log/apt-guests.out" 2>&1

# A compute host of another root folder has other servers.
mkdir -p "$L"/{run,drivers} "$H/state/nova-guests/instances"
[[ $(cat "$L/root" 2>/dev/null) == "$ROOT" ]] || { "$HERE/down.sh"; echo "$ROOT" > "$L/root"; }

# ---- inotify: systemd, containerd, kubelet and each pod of a node have instances, 20 to 30 in all. With the kernel's limit
# of 128, the kubelet of the sixth node ends with "too many open files". The limit counts users, not containers.
limit=/proc/sys/fs/inotify/max_user_instances
[[ $(cat "$limit") -ge 8192 ]] || echo 8192 > "$limit"

# ---- virtual routers
spawn guests-routers /usr/bin/python3 -s "$HERE/routers.py" "$H"

# ---- compute host. Its name begins with "libvirt", so that its ports get a Linux bridge. libvirtd and nova-compute share
# a mount namespace: nova-compute mounts the root folders that libvirtd hands to containers. They end together.
drivers=$(dirname "$(ls /usr/lib/*/libvirt/connection-driver/libvirt_driver_lxc.so)")
ln -sfn "$drivers/libvirt_driver_lxc.so" "$L/drivers/"
cat > "$L/libvirtd.conf" <<C
unix_sock_dir = "$L/run"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "2:stderr"
C
cat > "$H/etc/nova/compute-guests.conf" <<C
[DEFAULT]
host = libvirt-guests
state_path = $H/state/nova-guests
instances_path = $H/state/nova-guests/instances
compute_driver = guestdriver.GuestDriver
force_config_drive = True
reserved_host_memory_mb = 0
# Flavors do not limit containers.
initial_cpu_allocation_ratio = 64
initial_ram_allocation_ratio = 64
initial_disk_allocation_ratio = 64
[libvirt]
virt_type = lxc
connection_uri = lxc:///system?socket=$L/run/libvirt-sock
cpu_mode = none
images_type = raw
rbd_user =
[privsep_osbrick]
helper_command = /usr/bin/python3 -s /usr/bin/privsep-helper
C
if ! alive guests-compute; then
  since=$(date -u '+%F %T')
  GUEST_ROOT=$ROOT H=$H L=$L HERE=$HERE spawn guests-compute unshare --mount --uts --propagation private bash -euc '
    hostname libvirt-guests   # name of the resource provider, because another compute host has the name of the machine
    mkdir -p /run/libvirt; mount -t tmpfs tmpfs /run/libvirt   # a second libvirtd has its locks there
    # With cgroup v1, libvirt binds only those trees. It fails with a cgroup v2 mount beside them.
    [[ ! -d /sys/fs/cgroup/cpuacct ]] || ! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
    LIBVIRT_DRIVER_DIR="$L/drivers" libvirtd -f "$L/libvirtd.conf" -p "$L/libvirtd.pid" >> "$H/log/guests-libvirtd.out" 2>&1 &
    for i in $(seq 1 100); do [[ -S $L/run/libvirt-sock ]] && break; sleep 0.2; done
    cd /
    exec /usr/bin/python3 -s -B -c "import sys; sys.argv[0]=\"nova-compute\"; from nova.cmd.compute import main; import nova.virt; nova.virt.__path__.append(\"$HERE/nova\"); sys.exit(main())" \
      --config-file "$H/etc/nova/nova-compute.conf" --config-file "$H/etc/nova/compute-guests.conf" --log-file "$H/log/guests-compute.log"'
  # A compute host reports every ten seconds. An earlier report does not count.
  for i in $(seq 1 600); do
    n=$(mariadb -S "$H/run/mysqld.sock" -u root -N nova_cell1 -e "select count(*) from services s join compute_nodes c on c.host = s.host where c.deleted=0 and s.deleted=0 and s.host='libvirt-guests' and (s.last_seen_up > '$since' or s.created_at > '$since')")
    [[ $n -ge 1 ]] && break
    alive guests-compute || { tail -n 5 "$H/log/guests-compute.log" "$H/log/guests-compute.out" >&2; exit 1; }
    sleep 0.2
  done
fi
if [[ ! -e $H/state/mapped.guests ]]; then
  nova-manage --config-file "$H/etc/nova/nova.conf" cell_v2 discover_hosts >> "$H/log/discover.out" 2>&1
  admin aggregate show guests > /dev/null 2>&1 || admin aggregate create --zone guests guests > /dev/null
  admin aggregate show guests -f value -c hosts | grep -q libvirt-guests || admin aggregate add host guests libvirt-guests > /dev/null
  touch "$H/state/mapped.guests"
fi

# ---- the images have no content: the compute host uses the root folder
for image in "$@"; do
  [[ ! -e $H/state/image.$image ]] || continue
  head -c 1024 /dev/zero > "$L/image"
  # kube-KEY-RELEASE
  release=${image##*-}
  admin image show "$image" > /dev/null 2>&1 ||
    admin image create --public --container-format bare --disk-format raw --property "kubernetes_release=$release" \
      --file "$L/image" "$image" > /dev/null
  touch "$H/state/image.$image"
done
echo "zone guests, images $*, libvirt: virsh -c 'lxc:///system?socket=$L/run/libvirt-sock' list"
