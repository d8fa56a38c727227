//! Values that kubeadm refuses: Capstan must find each one, and a real kubeadm must refuse the file with it.

use apiserver_types::{ClusterConfiguration, ClusterNetwork, InitConfiguration, JoinConfiguration};
use controllers_bootstrap::kubeadm::{self, Init};
use serde_json::{Value, json};

use super::{discovery, typed};

/// End of the names of the files.
pub(super) const SUFFIX: &str = "refused.yaml";

/// Case: its name, the part of the settings, the bad value, and the field that is named.
type Case = (&'static str, Part, Value, &'static str);

/// Part of the settings.
#[derive(Clone, Copy)]
enum Part {
    Cluster,
    Init,
    Join,
    Network,
}

fn cases() -> Vec<Case> {
    [of_cluster(), of_networks(), of_first_node(), of_joining_nodes()].concat()
}

fn of_cluster() -> Vec<Case> {
    use Part::Cluster;
    let external = |endpoint: &str, ca: &str| {
        let (endpoints, certificate, key) = (json!([endpoint]), "/c", "/k");
        json!({"etcd": {"external":
            {"endpoints": endpoints, "caFile": ca, "certFile": certificate, "keyFile": key}}})
    };
    vec![
        ("path", Cluster, json!({"certificatesDir": "pki"}), "certificatesDir"),
        ("endpoint", Cluster, json!({"controlPlaneEndpoint": "api.lab:70000"}), "controlPlaneEndpoint"),
        ("repository", Cluster, json!({"imageRepository": "https://registry.lab"}), "imageRepository"),
        (
            "dns-repository",
            Cluster,
            json!({"dns": {"imageRepository": "registry.lab/A"}}),
            "dns.imageRepository",
        ),
        ("san", Cluster, json!({"apiServer": {"certSANs": ["api_1.lab"]}}), "apiServer.certSANs[0]"),
        (
            "etcd-san",
            Cluster,
            json!({"etcd": {"local": {"peerCertSANs": ["A"]}}}),
            "etcd.local.peerCertSANs[0]",
        ),
        ("etcd-path", Cluster, json!({"etcd": {"local": {"dataDir": "etcd"}}}), "etcd.local.dataDir"),
        ("etcd-url", Cluster, external("http://192.0.2.1:2379", "/a"), "etcd.external.endpoints[0]"),
        ("etcd-ca", Cluster, external("https://192.0.2.1:2379", "a"), "etcd.external.caFile"),
    ]
}

fn of_networks() -> Vec<Case> {
    use Part::Network;
    let blocks = |name: &str, block: &str| json!({name: {"cidrBlocks": [block]}});
    vec![
        ("services", Network, blocks("services", "10.0.0.0/8"), "services.cidrBlocks"),
        ("few-services", Network, blocks("services", "10.96.0.0/29"), "services.cidrBlocks"),
        ("pods", Network, blocks("pods", "10.244.0.0/25"), "pods.cidrBlocks"),
        ("many-pods", Network, blocks("pods", "10.0.0.0/7"), "pods.cidrBlocks"),
        ("few-pods", Network, blocks("pods", "10.0.0.0/27"), "pods.cidrBlocks"),
        ("domain", Network, json!({"serviceDomain": "Cluster.local"}), "serviceDomain"),
    ]
}

fn of_first_node() -> Vec<Case> {
    use Part::Init;
    let token = |fields: Value| {
        let mut token = json!({"token": "abcdef.0123456789abcdef"});
        token.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"bootstrapTokens": [token]})
    };
    vec![
        ("name", Init, json!({"nodeRegistration": {"name": "Node_1"}}), "nodeRegistration.name"),
        ("address", Init, json!({"localAPIEndpoint": {"advertiseAddress": "a.lab"}}), "advertiseAddress"),
        ("port", Init, json!({"localAPIEndpoint": {"bindPort": 70000}}), "localAPIEndpoint.bindPort"),
        ("usage", Init, token(json!({"usages": ["join"]})), "bootstrapTokens[0].usages"),
        (
            "expiry",
            Init,
            token(json!({"ttlSeconds": 60, "expires": "2030-01-01T00:00:00Z"})),
            "bootstrapTokens[0].expires",
        ),
        ("group", Init, token(json!({"groups": ["system:masters"]})), "bootstrapTokens[0].groups[0]"),
    ]
}

fn of_joining_nodes() -> Vec<Case> {
    use Part::Join;
    vec![
        ("ca-path", Join, json!({"caCertPath": "/etc/ca.pem"}), "caCertPath"),
        ("join-name", Join, json!({"nodeRegistration": {"name": "-a"}}), "nodeRegistration.name"),
        (
            "join-token",
            Join,
            json!({"discovery": {"bootstrapToken": {"token": "abc"}}}),
            "bootstrapToken.token",
        ),
        (
            "join-endpoint",
            Join,
            json!({"discovery": {"bootstrapToken": {"apiServerEndpoint": "a"}}}),
            "apiServerEndpoint",
        ),
        ("tls-token", Join, json!({"discovery": {"tlsBootstrapToken": "abc"}}), "tlsBootstrapToken"),
        ("both", Join, json!({"discovery": {"file": {"kubeConfigPath": "/dev/null"}}}), "discovery"),
        (
            "join-address",
            Join,
            json!({"controlPlane": {"localAPIEndpoint": {"advertiseAddress": "a"}}}),
            "advertiseAddress",
        ),
    ]
}

/// Adds the fields of one tree to another.
fn merge(to: &mut Value, from: &Value) {
    match (to, from) {
        (Value::Object(to), Value::Object(from)) => {
            from.iter().for_each(|(key, value)| merge(to.entry(key.clone()).or_insert(Value::Null), value));
        }
        (to, from) => *to = from.clone(),
    }
}

/// Returns the file with a bad value, and the fields that Capstan names.
fn render(version: &str, part: Part, bad: &Value) -> (String, Vec<String>) {
    let name = json!({"nodeRegistration": {"name": "node-1"}});
    let mut parts = [json!({}), name.clone(), name, json!({})];
    merge(&mut parts[2], &json!({"discovery": discovery(), "controlPlane": {}}));
    let index = match part {
        Part::Cluster => 0,
        Part::Init => 1,
        Part::Join => 2,
        Part::Network => 3,
    };
    merge(&mut parts[index], bad);
    let [cluster, init, join, network] = parts;
    let (cluster, node): (ClusterConfiguration, InitConfiguration) = (typed(cluster), typed(init));
    let (join, network): (JoinConfiguration, ClusterNetwork) = (typed(join), typed(network));
    let (text, found) = match part {
        Part::Join => (kubeadm::join(version, &join).unwrap(), kubeadm::refusals_of_join(&join)),
        _ => {
            let (network, cluster, node) = (Some(&network), &cluster, &node);
            let input = Init { cluster_name: "blue", version, endpoint: None, network, cluster, node };
            (kubeadm::init(&input).unwrap(), kubeadm::refusals_of_init(&input))
        }
    };
    (text, found.into_iter().map(|it| it.field).collect())
}

/// Returns name and text of every file, after the check that Capstan names its bad value, and no other one.
pub(super) fn files(version: &str) -> Vec<(&'static str, String)> {
    let cases = cases().into_iter().map(|(name, part, bad, field)| {
        let (text, found) = render(version, part, &bad);
        assert!(found.len() == 1 && found[0].contains(field), "{name}: {found:?}");
        (name, text)
    });
    cases.collect()
}
