//! Real guest system that returns its boot id over HTTP. A reboot changes the boot id.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::lab::Lab;
use super::openstack::{Access, HOST, OpenStack, complete, get, post, server_of, text};

/// Longest boot of an emulated guest on a busy machine.
const BOOT: Duration = Duration::from_mins(8);

/// Cluster on the lab's own network, without an external network, and one Machine.
const MANIFEST: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: NAMESPACE}
stringData:
  clouds.yaml: |
CLOUDS
---
apiVersion: v1
kind: Secret
metadata: {name: guest-bootstrap, namespace: NAMESPACE}
type: cluster.x-k8s.io/secret
stringData:
  format: cloud-config
  value: |
    #cloud-config
    write_files:
      - path: /usr/local/bin/answer
        permissions: "0755"
        content: |
          #!/usr/bin/perl
          use IO::Socket::INET;
          my $listener = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die;
          while (my $peer = $listener->accept) {
            open(my $file, '<', '/proc/sys/kernel/random/boot_id');
            my $id = <$file>;
            chomp $id;
            while (my $line = <$peer>) { last if $line =~ /^\r?\n$/; }
            print $peer "HTTP/1.0 200 OK\r\nContent-Length: ", length($id), "\r\n\r\n$id";
            close $peer;
          }
      - path: /etc/systemd/system/answer.service
        content: |
          [Unit]
          After=network.target
          [Service]
          ExecStart=/usr/local/bin/answer
          Restart=always
          [Install]
          WantedBy=multi-user.target
    runcmd:
      - systemctl enable answer.service
      # On disk before the first answer: a hard reboot cuts the power.
      - sync
      - systemctl start answer.service
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: guests, namespace: NAMESPACE}
spec:
  controlPlaneEndpoint: {host: 10.9.0.200, port: 6443}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackCluster, name: guests}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackCluster
metadata: {name: guests, namespace: NAMESPACE}
spec:
  identityRef: {name: credentials, cloudName: lab}
  network: {filter: {name: realnet}}
  enableExternalNetwork: false
  apiServer: {enableFloatingIP: false}
  controlPlaneEndpoint: {host: 10.9.0.200, port: 6443}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackMachine
metadata: {name: guest, namespace: NAMESPACE}
spec:
  flavor: {filter: {name: m1.small}}
  image: {filter: {name: debian12-real}}
  configDrive: true
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: guest, namespace: NAMESPACE}
spec:
  clusterName: guests
  failureDomain: real
  bootstrap: {dataSecretName: guest-bootstrap}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachine, name: guest}
"#;

/// Access as a user of the host, with the namespace of the guest.
const GUEST: Access = Access { user: HOST.user, namespace: "guests" };

/// Boots a guest and reboots it through the host. The boot id must change with the operation: not before it began, and
/// at the latest when it is Complete.
pub(super) fn reboot(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<()> {
    let before = openstack.records(&["inventory"])?;
    let clouds = openstack.clouds_block()?;
    let manifest = MANIFEST.replace("NAMESPACE", GUEST.namespace).replace("CLOUDS\n", &clouds);
    lab.kubectl(GUEST.user, &["apply", "-f", &lab.file("guest.yaml", &manifest)?])?;
    let wait = [
        "-n",
        GUEST.namespace,
        "wait",
        "machine/guest",
        "--for=condition=InfrastructureReady",
        "--timeout=180s",
    ];
    lab.kubectl(GUEST.user, &wait)?;
    let server = server_of(lab, &GUEST, "guest")?;
    let addresses = "{.status.addresses[?(@.type==\"InternalIP\")].address}";
    let address = get(lab, &GUEST, "machine/guest", addresses)?;
    let first = boot_id(openstack, &server, &address, None)?;
    ensure!(boot_id(openstack, &server, &address, None)? == first, "the boot id changed without a reboot");
    let operation = post(lab, &GUEST, "guest", "reboot", r#"{"type": "Hard"}"#)?;
    complete(lab, &GUEST, &operation)?;
    ensure!(openstack.actions(&server, "reboot")? == 1, "Nova did not record exactly one reboot");
    // The old system has stopped when the operation is Complete, so only the new one can respond.
    let second = boot_id(openstack, &server, &address, Some(&first))?;
    ensure!(second != first, "the guest was not rebooted: boot id {first} is still there");
    lab.kubectl(GUEST.user, &["-n", GUEST.namespace, "delete", "cluster", "guests", "--timeout=180s"])?;
    super::lab::until("the project has the same resources as before", || {
        Ok(openstack.records(&["inventory"])? == before)
    })
}

/// Requests the boot id of the guest until it responds. `old`: a boot id that must not be returned any more.
fn boot_id(openstack: &OpenStack, server: &str, address: &str, old: Option<&str>) -> anyhow::Result<String> {
    let end = Instant::now() + BOOT;
    loop {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "5", &format!("http://{address}:8080/")]);
        let output = curl.output()?;
        let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !answer.is_empty() {
            ensure!(old != Some(answer.as_str()), "the guest still returns boot id {answer} after Complete");
            return Ok(answer);
        }
        if Instant::now() > end {
            let console = openstack.records(&["console", server])?;
            bail!("the guest at {address} does not respond; its console:\n{}", text(&console, ""));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
