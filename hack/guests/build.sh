#!/bin/bash
# Builds the root folder of the guests: Debian 12 with systemd, cloud-init, containerd, kubelet and kubeadm, and with all
# container images of a control plane already unpacked. `cargo xtask e2e` builds the programs and calls this script.
#   build.sh FOLDER          FOLDER must not exist. It appears when it is complete.
#   KUBERNETES ETCD COREDNS  folders with the programs of these projects
#   IGNITION                 the program of Ignition
#   EARLIER EARLIER_VERSION  folder with the programs of an earlier release of Kubernetes, and its version
#   BASE RELEASES            instead of all these: a folder that this script has made, and folders named
#                            kubernetes-VERSION with the programs of further releases
#   KUBERNETES_VERSION ETCD_VERSION COREDNS_VERSION   their versions, e.g. v1.36.3
set -euo pipefail
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TARGET=$1
ROOT=$TARGET.unfinished WORK=$TARGET.work
say() { echo "[build +${SECONDS}s] $*"; }
PAUSE_VERSION=3.10.2   # what kubeadm 1.36 requests
PACKAGES=systemd-sysv,udev,cloud-init,iproute2,ifupdown,net-tools,netbase,login,dbus,containerd,runc,\
containernetworking-plugins,conntrack,iptables,nftables,ethtool,socat,kmod,procps,ca-certificates,mount,util-linux,\
iputils-ping,curl,chrony,fdisk,gdisk,sudo,gettext-base,libbsd0

if [[ -e $TARGET ]]; then say "$TARGET exists"; exit 0; fi
# An interrupted build leaves mounts only in its own mount namespace, so the folders can be removed.
rm -rf --one-file-system "$ROOT" "$WORK"
mkdir -p "$ROOT" "$WORK"

# ---------------------------------------------------------------- packages
install_host_packages() {
  local p miss=
  for p in mmdebstrap gcc libc6-dev python3; do
    [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || true) == ii* ]] || miss="$miss $p"
  done
  [[ -z $miss ]] || DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $miss
}

# Nodes that Ignition configures have ntpd, and those that cloud-init configures have chrony. Debian's packages of both
# exclude each other.
NTPD='cd "$1/tmp" && chroot "$1" sh -c "cd /tmp && apt-get -qq download ntpsec" &&
  dpkg-deb --fsys-tarfile ntpsec_*.deb | tar -x -C "$1" ./usr/sbin/ntpd && rm ntpsec_*.deb'

debian() {
  mmdebstrap --quiet --mode=root --variant=minbase --aptopt='Apt::Install-Recommends "false"' --include="$PACKAGES" \
    --customize-hook="$NTPD" bookworm "$ROOT"
  rm -rf "$ROOT"/var/cache/apt/archives/*.deb "$ROOT"/var/lib/apt/lists/* "$ROOT"/usr/share/{doc,man,locale}
}

# ---------------------------------------------------------------- guest system
system() {
  cp -r --no-preserve=ownership "$HERE/root/." "$ROOT/"
  chmod 755 "$ROOT"/usr/local/bin/* "$ROOT"/usr/local/sbin/*
  sed -i "s/@PAUSE@/$PAUSE_VERSION/" "$ROOT/etc/containerd/config.toml"
  mkdir -p "$ROOT/var/lib/guest-disk"
  install -m 755 "$KUBERNETES"/{kubeadm,kubelet,kubectl} "$ROOT/usr/bin/"
  # The driver of the compute host links these programs into a server whose image has this version in its name.
  mkdir -p "$ROOT/opt/kubernetes/$EARLIER_VERSION"
  install -m 755 "$EARLIER"/{kubeadm,kubelet} "$ROOT/opt/kubernetes/$EARLIER_VERSION/"
  install -m 755 "$IGNITION" "$ROOT/usr/bin/ignition"
  chroot "$ROOT" systemctl --quiet enable containerd.service kubelet.service guest-prepare.service guest-network.service
  chroot "$ROOT" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-timesyncd.service
}

# ---------------------------------------------------------------- container images
# kube-proxy calls nft and iptables: copies them with their libraries from the guest system.
proxy_tree() {
  local tree=$1 file
  mkdir -p "$tree"/usr/sbin "$tree"/lib64
  for file in $(chroot "$ROOT" ldd /usr/sbin/nft /usr/sbin/xtables-nft-multi | grep -o '/lib[^ ]*' | grep -v ':$' | sort -u) \
      $(cd "$ROOT" && find usr/lib/x86_64-linux-gnu/xtables -name '*.so') /usr/sbin/nft /usr/sbin/xtables-nft-multi; do
    mkdir -p "$tree/$(dirname "$file")"
    cp -L "$ROOT/$file" "$tree/$file"
  done
  for file in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$tree/usr/sbin/$file"
  done
  chroot "$tree" /usr/sbin/nft --version > /dev/null
}

image() { # NAME:TAG arguments of oci.py...
  local name=$1 archive
  archive=$WORK/$(basename "${name/:/-}").tar; shift
  python3 "$HERE/oci.py" "$archive" "registry.k8s.io/$name" "$@"
}

release() { # FOLDER VERSION: images of one release of Kubernetes
  local program
  for program in kube-apiserver kube-controller-manager kube-scheduler; do
    image "$program:$2" --file "$1/$program=usr/local/bin/$program"
  done
  image "kube-proxy:$2" --tree "$WORK/proxy" --file "$WORK/start-proxy=usr/local/bin/kube-proxy" \
    --file "$1/kube-proxy=usr/local/libexec/kube-proxy"
}

images() {
  proxy_tree "$WORK/proxy"
  cc -Os -static -s -o "$WORK/start-proxy" "$HERE/proxy.c"
  release "$KUBERNETES" "$KUBERNETES_VERSION"
  release "$EARLIER" "$EARLIER_VERSION"
  image "etcd:${ETCD_VERSION#v}-0" --file "$ETCD/etcd=usr/local/bin/etcd" --file "$ETCD/etcdctl=usr/local/bin/etcdctl"
  image "coredns/coredns:$COREDNS_VERSION" --entrypoint /coredns --file "$COREDNS/coredns=coredns"
  cc -Os -static -s -o "$WORK/pause" "$HERE/pause.c"
  image "pause:$PAUSE_VERSION" --entrypoint /pause --file "$WORK/pause=pause"
}

# A containerd in a chroot imports and unpacks the images, so no guest has to. The mount namespace ends with this
# function: nothing stays mounted.
unpack() {
  ROOT=$ROOT WORK=$WORK unshare --mount --propagation private bash -euc '
    mount -t proc proc "$ROOT/proc"; mount -t sysfs -o ro sysfs "$ROOT/sys"; mkdir -p "$ROOT/run/containerd"
    chroot "$ROOT" containerd > "$WORK/containerd.log" 2>&1 & containerd=$!
    trap "kill $containerd" EXIT
    for i in $(seq 1 200); do chroot "$ROOT" ctr version > /dev/null 2>&1 && break; sleep 0.3; done
    ctr() { chroot "$ROOT" ctr --namespace k8s.io "$@"; }
    for archive in "$WORK"/*.tar; do ctr images import --snapshotter overlayfs - < "$archive"; done
    # Unpacked layers are enough. The packed ones have 450 MB, and containerd would delete their files later.
    layers=$(ctr content ls --quiet "labels.\"containerd.io/uncompressed\"")
    ctr content rm $layers > /dev/null
    cd "$ROOT/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256" && rm -f ${layers//sha256:/}
    trap - EXIT; kill $containerd; wait $containerd || true'
  rm -rf --one-file-system "$ROOT"/run/* "$ROOT"/tmp/*
}

# Adds the releases of RELEASES to a copy of the folder BASE.
further_releases() {
  cp -a "$BASE/." "$ROOT/"
  proxy_tree "$WORK/proxy"
  cc -Os -static -s -o "$WORK/start-proxy" "$HERE/proxy.c"
  local folder
  for folder in $RELEASES; do
    mkdir -p "$ROOT/opt/kubernetes/${folder##*kubernetes-}"
    install -m 755 "$folder"/{kubeadm,kubelet} "$ROOT/opt/kubernetes/${folder##*kubernetes-}/"
    release "$folder" "${folder##*kubernetes-}"
  done
}

install_host_packages
if [[ -n ${BASE:-} ]]; then
  further_releases
else
  debian
  say "Debian is installed"
  system
  images
fi
say "the images are written"
unpack
rm -rf "$WORK"
mv "$ROOT" "$TARGET"
say "$TARGET: $(du -sh "$TARGET" | cut -f1)"
