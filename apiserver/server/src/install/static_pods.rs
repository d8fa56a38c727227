//! Static Pods: the services of a node as Pods that its kubelet starts from files. It needs no API server for that, so
//! they start again on their node while the host cluster is down.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Layout;
use super::installation::{ETCD_CLIENT, Installation};

/// User and group of the image, with which both services run.
pub(super) const USER: u32 = 65_532;

/// Image of etcd, unless another one is given: that of `manifests/overlays/ha-etcd`.
const ETCD_IMAGE: &str = "registry.k8s.io/etcd:3.6.8-0";

/// Class of Pods that the kubelet removes last, and its value, which the kubelet does not look up for a static Pod.
const PRIORITY: (&str, u32) = ("system-node-critical", 2_000_001_000);

/// Time for the four steps of a shutdown, see docs/running.md. Unit: seconds.
const SHUTDOWN: u32 = 120;

/// Time for the end of etcd. Unit: seconds.
const SHUTDOWN_OF_ETCD: u32 = 30;

/// Images of the static Pods of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StaticPods {
    /// Image of Capstan.
    pub(crate) image: String,
    /// Image of etcd.
    pub(crate) etcd_image: String,
}

impl StaticPods {
    /// Returns the images of the flags; `None` if systemd is to start the services.
    pub(super) fn of_flags(image: Option<&String>, etcd_image: Option<&String>) -> Option<Self> {
        let etcd_image = etcd_image.cloned().unwrap_or_else(|| ETCD_IMAGE.to_owned());
        image.map(|image| Self { image: image.clone(), etcd_image })
    }

    /// Returns the Pod of Capstan.
    pub(super) fn capstan(&self, layout: &Layout, installation: &Installation) -> anyhow::Result<String> {
        let host = installation.address.to_string();
        let get =
            |path: &str| json!({"host": host, "path": path, "port": installation.port, "scheme": "HTTPS"});
        let container = json!({
            "name": "capstan",
            "image": self.image,
            "args": ["serve", "--config", layout.config()],
            // As in manifests/base.
            "startupProbe": {"httpGet": get("/livez"), "periodSeconds": 2, "failureThreshold": 30},
            "livenessProbe":
                {"httpGet": get("/livez"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
            "readinessProbe":
                {"httpGet": get(super::balancers::READY), "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        });
        let directories = [("config", layout.config_directory(), true), ("data", layout.data(), false)];
        pod("capstan", SHUTDOWN, container, &directories)
    }

    /// Returns the Pod of etcd.
    pub(super) fn etcd(&self, layout: &Layout) -> anyhow::Result<String> {
        let port = json!({"host": "127.0.0.1", "port": ETCD_CLIENT});
        let container = json!({
            "name": "capstan-etcd",
            "image": self.etcd_image,
            "command": ["etcd", "--config-file", layout.etcd_config()],
            // A new member receives all data before it opens its port.
            "startupProbe": {"tcpSocket": port, "periodSeconds": 10, "failureThreshold": 60},
            "livenessProbe": {"tcpSocket": port, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
            "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
        });
        let directories = [
            ("config", layout.config_directory(), true),
            ("certificates", layout.data().join("etcd"), true),
            ("data", layout.etcd_data(), false),
        ];
        pod("capstan-etcd", SHUTDOWN_OF_ETCD, container, &directories)
    }
}

/// Returns a Pod with directories of the node at the same paths. Each has a name, a path, and whether it is only read.
fn pod(
    name: &str,
    shutdown: u32,
    mut container: Value,
    directories: &[(&str, PathBuf, bool)],
) -> anyhow::Result<String> {
    let mounts = directories
        .iter()
        .map(|(name, path, is_read_only)| json!({"name": name, "mountPath": path, "readOnly": is_read_only}));
    let volumes = directories
        .iter()
        .map(|(name, path, _)| json!({"name": name, "hostPath": {"path": path, "type": "Directory"}}));
    if let Some(fields) = container.as_object_mut() {
        fields.insert("volumeMounts".to_owned(), mounts.collect());
        let security = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}});
        fields.insert("securityContext".to_owned(), security);
    }
    let document = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"app": name}},
        "spec": {
            // The addresses and ports in the configurations are those of the node.
            "hostNetwork": true,
            "priorityClassName": PRIORITY.0,
            "priority": PRIORITY.1,
            "terminationGracePeriodSeconds": shutdown,
            "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": volumes.collect::<Vec<_>>(),
        },
    });
    let text = serde_saphyr::to_string(&document)?;
    Ok(format!("# Of `capstan init` or `capstan join`: the kubelet of this node starts it\n{text}"))
}

/// Writes a Pod into the directory of the kubelet, which may look at any moment. It ignores names that begin with a dot.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let temporary = path.with_file_name(format!(".{name}"));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_etcd_is_that_of_the_manifests() {
        let values = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/chart/values.yaml");
        let values: Value = serde_saphyr::from_str(&std::fs::read_to_string(values).unwrap()).unwrap();
        assert_eq!(values["etcd"]["image"], ETCD_IMAGE);
        let pods = StaticPods::of_flags(Some(&"capstan:1".to_owned()), None).unwrap();
        assert_eq!((pods.image.as_str(), pods.etcd_image.as_str()), ("capstan:1", ETCD_IMAGE));
        assert_eq!(
            StaticPods::of_flags(None, Some(&"etcd:1".to_owned())),
            None,
            "systemd starts the services"
        );
    }
}
