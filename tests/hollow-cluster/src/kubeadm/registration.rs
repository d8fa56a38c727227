//! Registration of a node: its name, labels, taints and provider id.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use tests_openstack_simulator::GuestServer;

use crate::json::{set, text};
use crate::options::HollowOptions;

/// Label and taint of control plane nodes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Labels of Kubernetes that a kubelet may set on its own Node.
const ALLOWED: [&str; 9] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "failure-domain.beta.kubernetes.io/zone",
];

/// A node before its first registration.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    pub(crate) name: String,
    pub(crate) control_plane: bool,
    /// Version of the kubelet.
    pub(crate) version: String,
    /// Node without identity of one boot.
    pub(crate) node: Value,
}

/// Returns a flag of the kubelet. The last one applies. The shell has removed single quotes.
fn argument(registration: &Value, name: &str) -> Option<String> {
    let arguments = registration.get("kubeletExtraArgs")?;
    let found = match arguments {
        Value::Object(map) => map.get(name)?.as_str()?,
        Value::Array(items) => {
            let last = items.iter().rev().find(|item| text(item, "/name") == name)?;
            text(last, "/value")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    Some(found.replace('\'', ""))
}

/// Returns an error unless the name is a lowercase RFC 1123 subdomain.
fn check_name(name: &str) -> Result<(), String> {
    let valid = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(inner)
    };
    if name.len() <= 253 && name.split('.').all(valid) {
        return Ok(());
    }
    Err(format!(
        "nodeRegistration.name: Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case \
         alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
    ))
}

fn labels(registration: &Value, name: &str, control_plane: bool) -> Result<Map<String, Value>, String> {
    let mut labels = Map::new();
    for (key, value) in
        [("kubernetes.io/hostname", name), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")]
    {
        labels.insert(key.to_owned(), value.into());
        labels.insert(format!("beta.{key}").replace("beta.kubernetes.io/hostname", key), value.into());
    }
    let given = argument(registration, "node-labels").unwrap_or_default();
    for pair in given.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let domain = key.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
        let ours = |suffix: &str| domain == suffix || domain.ends_with(&format!(".{suffix}"));
        let free = ["node.kubernetes.io", "kubelet.kubernetes.io"].iter().any(|suffix| ours(suffix));
        if (ours("kubernetes.io") || ours("k8s.io")) && !free && !ALLOWED.contains(&key) {
            return Err(format!(
                "error execution phase kubelet-start: the kubelet does not start: unknown 'kubernetes.io' or 'k8s.io' \
                 labels specified with --node-labels: [{key}]"
            ));
        }
        labels.insert(key.to_owned(), value.into());
    }
    if control_plane {
        labels.insert(CONTROL_PLANE.to_owned(), "".into());
        labels.insert("node.kubernetes.io/exclude-from-external-load-balancers".to_owned(), "".into());
    }
    Ok(labels)
}

/// Returns the taints: those of the configuration, else kubeadm's own, and those of the kubelet's flag.
fn taints(registration: &Value, control_plane: bool) -> Vec<Value> {
    let mut taints = match registration.get("taints") {
        Some(Value::Array(given)) => given.clone(),
        _ if control_plane => vec![json!({"key": CONTROL_PLANE, "effect": "NoSchedule"})],
        _ => Vec::new(),
    };
    let flag = argument(registration, "register-with-taints").unwrap_or_default();
    for written in flag.split(',').filter(|written| !written.is_empty()) {
        let (pair, effect) = written.rsplit_once(':').unwrap_or((written, "NoSchedule"));
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        taints.push(json!({"key": key, "value": value, "effect": effect}));
    }
    taints
}

/// Returns the registration of a server.
pub(crate) fn of(
    options: &HollowOptions,
    server: &GuestServer,
    registration: &Value,
    control_plane: bool,
    version: &str,
) -> Result<Registration, String> {
    let configured = text(registration, "/name");
    let name = if configured.is_empty() { server.hostname.as_str() } else { configured };
    let name = name.trim().to_lowercase();
    check_name(&name)?;
    let external =
        argument(registration, "cloud-provider").as_deref() == Some("external") || options.sets_provider_ids;
    // The fixture plays the cloud controller manager, which fills in the id at once.
    let provider = argument(registration, "provider-id")
        .filter(|id| !id.is_empty())
        .or_else(|| external.then(|| format!("openstack:///{}", server.id)));
    let mut node = json!({
        "metadata": {
            "name": name,
            "labels": labels(registration, &name, control_plane)?,
            "annotations": {
                "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///var/run/containerd/containerd.sock",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {},
        "status": status(server, &name, version),
    });
    if let Some(provider) = provider {
        set(&mut node, &["spec", "providerID"], provider);
    }
    let taints = taints(registration, control_plane);
    if !taints.is_empty() {
        set(&mut node, &["spec", "taints"], taints);
    }
    Ok(Registration { name, control_plane, version: version.to_owned(), node })
}

fn status(server: &GuestServer, name: &str, version: &str) -> Value {
    let mut addresses: Vec<Value> = server
        .addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address.to_string()}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": name}));
    let resources = json!({"cpu": "2", "memory": "4194304Ki", "pods": "110", "ephemeral-storage": "20Gi"});
    json!({
        "addresses": addresses, "capacity": resources, "allocatable": resources,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "kubeletVersion": version, "kubeProxyVersion": "", "architecture": "amd64", "operatingSystem": "linux",
            "osImage": server.image.as_deref().unwrap_or("Hollow Linux"), "kernelVersion": "6.8.0-hollow",
            "containerRuntimeVersion": "containerd://2.0.0", "machineID": server.id.replace('-', ""),
            "systemUUID": server.id, "bootID": "",
        },
    })
}

/// Returns the address that kubeadm advertises: the one that the configuration names, else one of the server. `::` stands for
/// any of IPv6. Otherwise IPv4 comes first.
pub(crate) fn advertised(server: &GuestServer, document: &Value, pointer: &str) -> String {
    let configured = text(document, &format!("{pointer}/advertiseAddress"));
    let named: Option<IpAddr> = configured.parse().ok();
    if !configured.is_empty() && named.is_none_or(|it| !it.is_unspecified()) {
        return configured.to_owned();
    }
    let is_v6 = named.is_some_and(|it| it.is_ipv6());
    let preferred = server.addresses.iter().find(|address| address.is_ipv6() == is_v6);
    preferred.or_else(|| server.addresses.first()).map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> GuestServer {
        GuestServer {
            id: "11-22".to_owned(),
            name: "Node".to_owned(),
            hostname: "node".to_owned(),
            project: String::new(),
            status: "ACTIVE".to_owned(),
            running: true,
            boots: 1,
            disks: 1,
            image: None,
            addresses: vec!["10.6.0.4".parse().unwrap()],
            floating_ips: Vec::new(),
            balanced_ips: Vec::new(),
        }
    }

    #[test]
    fn both_forms_of_kubelet_arguments_set_the_provider_id() {
        let forms = [
            json!({"name": "Node-A", "kubeletExtraArgs": {"provider-id": "openstack:///'11-22'"}, "taints": null}),
            json!({"name": "Node-A", "kubeletExtraArgs": [{"name": "provider-id", "value": "openstack:///'11-22'"}]}),
        ];
        for form in forms {
            let registered = of(&HollowOptions::default(), &server(), &form, true, "v1.33.0").unwrap();
            assert_eq!(registered.name, "node-a");
            assert_eq!(registered.node["spec"]["providerID"], "openstack:///11-22");
            assert_eq!(
                registered.node["spec"]["taints"],
                json!([{"key": CONTROL_PLANE, "effect": "NoSchedule"}])
            );
            assert_eq!(registered.node["metadata"]["labels"][CONTROL_PLANE], "");
        }
    }

    #[test]
    fn an_unspecified_address_stands_for_one_of_the_server_and_ipv4_comes_first() {
        let addresses: [IpAddr; 2] = ["fd00:20::4", "10.6.0.4"].map(|it| it.parse().unwrap());
        let both = GuestServer { addresses: addresses.to_vec(), ..server() };
        let table = [
            (json!({}), "10.6.0.4"),
            (json!({"advertiseAddress": "0.0.0.0"}), "10.6.0.4"),
            (json!({"advertiseAddress": "::"}), "fd00:20::4"),
            (json!({"advertiseAddress": "192.0.2.7"}), "192.0.2.7"),
        ];
        for (endpoint, expected) in table {
            let document = json!({"localAPIEndpoint": endpoint});
            assert_eq!(advertised(&both, &document, "/localAPIEndpoint"), expected, "{document}");
        }
        let six = GuestServer { addresses: addresses[..1].to_vec(), ..server() };
        assert_eq!(advertised(&six, &json!({}), "/localAPIEndpoint"), "fd00:20::4", "it has no other");
    }

    #[test]
    fn taints_and_labels_follow_the_configuration() {
        let form = json!({"taints": [], "kubeletExtraArgs": {"node-labels": "a=b,node.kubernetes.io/c=d"}});
        let registered = of(&HollowOptions::default(), &server(), &form, true, "v1.33.0").unwrap();
        assert_eq!(registered.node["spec"], json!({}));
        assert_eq!(registered.node["metadata"]["labels"]["node.kubernetes.io/c"], "d");
        let form = json!({"kubeletExtraArgs": {"node-labels": "node-role.kubernetes.io/x="}});
        assert!(of(&HollowOptions::default(), &server(), &form, false, "v1.33.0").is_err());
        assert!(
            of(&HollowOptions::default(), &server(), &json!({"name": "{{ x }}"}), false, "v1.33.0").is_err()
        );
    }
}
