//! Fields of kubeadm's configuration, which it decodes strictly.

use serde_json::Value;

/// Form of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Any,
    Text,
    Flag,
    Number,
    /// Names and texts.
    Texts,
    List(&'static Self),
    Fields(&'static [(&'static str, Self)]),
    /// The fields of both.
    Both(&'static Self, &'static Self),
}

use Shape::{Any, Both, Fields, Flag, List, Number, Text, Texts};

const TEXT_LIST: Shape = List(&Text);
const TYPE: Shape = Fields(&[("apiVersion", Text), ("kind", Text)]);
const ARGUMENTS: Shape = List(&Fields(&[("name", Text), ("value", Text)]));
const TAINTS: Shape = List(&Fields(&[("key", Text), ("value", Text), ("effect", Text), ("timeAdded", Text)]));
const VOLUMES: Shape = List(&Fields(&[
    ("name", Text),
    ("hostPath", Text),
    ("mountPath", Text),
    ("readOnly", Flag),
    ("pathType", Text),
]));
const IMAGE: Shape = Fields(&[("imageRepository", Text), ("imageTag", Text)]);
const NETWORKING: Shape = Fields(&[("serviceSubnet", Text), ("podSubnet", Text), ("dnsDomain", Text)]);
const ENDPOINT: Shape = Fields(&[("advertiseAddress", Text), ("bindPort", Number)]);
const PATCHES: Shape = Fields(&[("directory", Text)]);
const TOKENS: Shape = List(&Fields(&[
    ("token", Text),
    ("description", Text),
    ("ttl", Text),
    ("expires", Text),
    ("usages", TEXT_LIST),
    ("groups", TEXT_LIST),
]));
const TIMEOUTS: Shape = Fields(&[
    ("controlPlaneComponentHealthCheck", Text),
    ("kubeletHealthCheck", Text),
    ("kubernetesAPICall", Text),
    ("etcdAPICall", Text),
    ("tlsBootstrap", Text),
    ("discovery", Text),
    ("upgradeManifests", Text),
]);
const BOOTSTRAP_TOKEN: Shape = Fields(&[
    ("token", Text),
    ("apiServerEndpoint", Text),
    ("caCertHashes", TEXT_LIST),
    ("unsafeSkipCAVerification", Flag),
]);
const FILE: Shape = Fields(&[("kubeConfigPath", Text)]);

const DISCOVERY_4: Shape =
    Fields(&[("bootstrapToken", BOOTSTRAP_TOKEN), ("file", FILE), ("tlsBootstrapToken", Text)]);
const DISCOVERY_3: Shape = Both(&DISCOVERY_4, &Fields(&[("timeout", Text)]));

const REGISTRATION: Shape = Fields(&[
    ("name", Text),
    ("criSocket", Text),
    ("taints", TAINTS),
    ("ignorePreflightErrors", TEXT_LIST),
    ("imagePullPolicy", Text),
]);
const REGISTRATION_3: Shape = Both(&REGISTRATION, &Fields(&[("kubeletExtraArgs", Texts)]));
const REGISTRATION_4: Shape =
    Both(&REGISTRATION, &Fields(&[("kubeletExtraArgs", ARGUMENTS), ("imagePullSerial", Flag)]));

const COMPONENT_3: Shape = Fields(&[("extraArgs", Texts), ("extraVolumes", VOLUMES)]);
const COMPONENT_4: Shape =
    Fields(&[("extraArgs", ARGUMENTS), ("extraVolumes", VOLUMES), ("extraEnvs", List(&Any))]);
const API_SERVER_3: Shape =
    Both(&COMPONENT_3, &Fields(&[("certSANs", TEXT_LIST), ("timeoutForControlPlane", Text)]));
const API_SERVER_4: Shape = Both(&COMPONENT_4, &Fields(&[("certSANs", TEXT_LIST)]));

const ETCD: Shape = Fields(&[("dataDir", Text), ("serverCertSANs", TEXT_LIST), ("peerCertSANs", TEXT_LIST)]);
const LOCAL_3: Shape = Both(&IMAGE, &Both(&ETCD, &Fields(&[("extraArgs", Texts)])));
const LOCAL_4: Shape =
    Both(&IMAGE, &Both(&ETCD, &Fields(&[("extraArgs", ARGUMENTS), ("extraEnvs", List(&Any))])));
const EXTERNAL: Shape =
    Fields(&[("endpoints", TEXT_LIST), ("caFile", Text), ("certFile", Text), ("keyFile", Text)]);

const CLUSTER: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("clusterName", Text),
    ("kubernetesVersion", Text),
    ("controlPlaneEndpoint", Text),
    ("networking", NETWORKING),
    ("certificatesDir", Text),
    ("imageRepository", Text),
    ("featureGates", Any),
]);
const CLUSTER_3: Shape = Both(
    &CLUSTER,
    &Fields(&[
        ("etcd", Fields(&[("local", LOCAL_3), ("external", EXTERNAL)])),
        ("apiServer", API_SERVER_3),
        ("controllerManager", COMPONENT_3),
        ("scheduler", COMPONENT_3),
        ("dns", IMAGE),
    ]),
);
const CLUSTER_4: Shape = Both(
    &CLUSTER,
    &Fields(&[
        ("etcd", Fields(&[("local", LOCAL_4), ("external", EXTERNAL)])),
        ("apiServer", API_SERVER_4),
        ("controllerManager", COMPONENT_4),
        ("scheduler", COMPONENT_4),
        ("dns", Both(&IMAGE, &Fields(&[("disabled", Flag)]))),
        ("proxy", Fields(&[("disabled", Flag)])),
        ("encryptionAlgorithm", Text),
        ("certificateValidityPeriod", Text),
        ("caCertificateValidityPeriod", Text),
    ]),
);

const INIT_3: Shape = Both(
    &TYPE,
    &Fields(&[
        ("bootstrapTokens", TOKENS),
        ("nodeRegistration", REGISTRATION_3),
        ("localAPIEndpoint", ENDPOINT),
        ("certificateKey", Text),
        ("skipPhases", TEXT_LIST),
        ("patches", PATCHES),
    ]),
);
const INIT_4: Shape = Both(
    &TYPE,
    &Fields(&[
        ("bootstrapTokens", TOKENS),
        ("nodeRegistration", REGISTRATION_4),
        ("localAPIEndpoint", ENDPOINT),
        ("certificateKey", Text),
        ("skipPhases", TEXT_LIST),
        ("patches", PATCHES),
        ("dryRun", Flag),
        ("timeouts", TIMEOUTS),
    ]),
);

const CONTROL_PLANE: Shape = Fields(&[("localAPIEndpoint", ENDPOINT), ("certificateKey", Text)]);
const JOIN: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("caCertPath", Text),
    ("controlPlane", CONTROL_PLANE),
    ("skipPhases", TEXT_LIST),
    ("patches", PATCHES),
]);
const JOIN_3: Shape =
    Both(&JOIN, &Fields(&[("nodeRegistration", REGISTRATION_3), ("discovery", DISCOVERY_3)]));
const JOIN_4: Shape = Both(
    &JOIN,
    &Fields(&[
        ("nodeRegistration", REGISTRATION_4),
        ("discovery", DISCOVERY_4),
        ("dryRun", Flag),
        ("timeouts", TIMEOUTS),
    ]),
);

/// Returns the form of a kind in v1beta4, or in v1beta3.
pub(crate) fn of(kind: &str, newer: bool) -> Option<Shape> {
    match (kind, newer) {
        ("ClusterConfiguration", false) => Some(CLUSTER_3),
        ("ClusterConfiguration", true) => Some(CLUSTER_4),
        ("InitConfiguration", false) => Some(INIT_3),
        ("InitConfiguration", true) => Some(INIT_4),
        ("JoinConfiguration", false) => Some(JOIN_3),
        ("JoinConfiguration", true) => Some(JOIN_4),
        _ => None,
    }
}

/// Returns the form of a field.
fn field(shape: Shape, name: &str) -> Option<Shape> {
    match shape {
        Fields(fields) => fields.iter().find(|(field, _)| *field == name).map(|(_, shape)| *shape),
        Both(one, other) => field(*one, name).or_else(|| field(*other, name)),
        Any | Text | Flag | Number | Texts | List(_) => None,
    }
}

/// Checks a value. `path` is its place in the document. `null` is the same as an absent field. Unknown fields
/// are errors only if `strict` is set.
pub(crate) fn check(shape: Shape, value: &Value, path: &str, strict: bool) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let wrong = |wanted: &str| {
        Err(format!("json: cannot unmarshal {value} into Go struct field {path} of type {wanted}"))
    };
    match shape {
        Any => Ok(()),
        Text => {
            if value.is_string() {
                Ok(())
            } else {
                wrong("string")
            }
        }
        Flag => {
            if value.is_boolean() {
                Ok(())
            } else {
                wrong("bool")
            }
        }
        Number => {
            if value.is_i64() {
                Ok(())
            } else {
                wrong("int32")
            }
        }
        Texts => match value.as_object() {
            Some(fields) if fields.values().all(Value::is_string) => Ok(()),
            _ => wrong("map[string]string"),
        },
        List(item) => match value.as_array() {
            Some(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(position, held)| check(*item, held, &format!("{path}[{position}]"), strict)),
            None => wrong("list"),
        },
        Fields(_) | Both(..) => {
            let Some(fields) = value.as_object() else { return wrong("struct") };
            for (name, held) in fields {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match field(shape, name) {
                    Some(shape) => check(shape, held, &inner, strict)?,
                    None if strict => return Err(format!("unknown field {inner:?}")),
                    None => {}
                }
            }
            Ok(())
        }
    }
}
