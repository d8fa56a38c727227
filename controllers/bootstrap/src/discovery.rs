//! Discovery: how a joining node finds its cluster and trusts it.

use apiserver_types::{Bytes, FileDiscoveryKubeConfig, JoinConfiguration, KubeConfigUser, NodeTaint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::certificates::{CertificateError, ca_certificate_hashes};
use crate::setup::File;
use crate::token::{Token, TokenError};

/// Taint of a worker until the labels of its Machine are on its Node. The Machine's controller removes it.
const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";

/// Name of cluster, user and context in the kubeconfig for discovery. Upstream's name.
const ENTRY: &str = "default";

/// Version of the credential program's API, if the user sets none.
const EXEC_API: &str = "client.authentication.k8s.io/v1";

/// Facts about the cluster that a joining node receives.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Control plane endpoint as `host:port`, once it is known.
    pub endpoint: Option<&'a str>,
    /// Certificates of the cluster's CA, in PEM.
    pub ca: &'a str,
    /// The node is one of the control plane.
    pub control_plane: bool,
}

/// Error of a join that cannot be completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The Cluster has no endpoint yet.
    #[error("the control plane endpoint of the Cluster is not set yet")]
    NoEndpoint,
    /// A worker has settings of a control plane node.
    #[error(
        "joinConfiguration.controlPlane is set, but the Machine is no control plane Machine. Remove the field"
    )]
    ControlPlane,
    /// The CA cannot be read.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// No token was generated.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Returns the configuration of a join with everything that the user left out. It is stored before it is used, because
/// a token is random.
///
/// # Errors
/// The endpoint is not known, the CA cannot be read, or a worker is configured as a control plane node.
pub fn complete(join: &JoinConfiguration, known: &Known<'_>) -> Result<JoinConfiguration, DiscoveryError> {
    let mut join = join.clone();
    match (known.control_plane, &join.control_plane) {
        (true, None) => join.control_plane = Some(Default::default()),
        (false, Some(_)) => return Err(DiscoveryError::ControlPlane),
        _ => {}
    }
    let endpoint = || known.endpoint.map(ToOwned::to_owned).ok_or(DiscoveryError::NoEndpoint);
    let discovery = join.discovery.get_or_insert_default();
    if let Some(file) = &mut discovery.file {
        let Some(config) = &mut file.kube_config else { return Ok(join) };
        let cluster = config.cluster.get_or_insert_default();
        if is_empty(&cluster.server) {
            cluster.server = Some(format!("https://{}", endpoint()?));
        }
        if cluster.certificate_authority_data.as_ref().is_none_or(|data| data.0.is_empty()) {
            cluster.certificate_authority_data = Some(Bytes(STANDARD.encode(known.ca)));
        }
        return Ok(join);
    }
    let token = discovery.bootstrap_token.get_or_insert_default();
    if token.ca_cert_hashes.as_ref().is_none_or(Vec::is_empty) {
        token.ca_cert_hashes = Some(ca_certificate_hashes(known.ca)?);
    }
    if is_empty(&token.api_server_endpoint) {
        token.api_server_endpoint = Some(endpoint()?);
    }
    if is_empty(&token.token) {
        token.token = Some(Token::generate()?.text());
    }
    Ok(join)
}

fn is_empty(text: &Option<String>) -> bool {
    text.as_ref().is_none_or(String::is_empty)
}

/// Returns the token of a join. There is none, if the node finds its cluster by a file.
pub fn token(join: &JoinConfiguration) -> Option<&str> {
    let discovery = join.discovery.as_ref().filter(|discovery| discovery.file.is_none())?;
    discovery.bootstrap_token.as_ref()?.token.as_deref().filter(|token| !token.is_empty())
}

/// Returns the configuration of a worker's join with the taint of Machines that are not initialized. The taint is never
/// stored.
#[must_use]
pub fn with_taint(mut join: JoinConfiguration) -> JoinConfiguration {
    let taints = join.node_registration.get_or_insert_default().taints.get_or_insert_default();
    let taint =
        NodeTaint { key: UNINITIALIZED.to_owned(), effect: "NoSchedule".to_owned(), ..NodeTaint::default() };
    if !taints.iter().any(|known| known.key == taint.key && known.effect == taint.effect) {
        taints.push(taint);
    }
    join
}

/// Returns the kubeconfig for discovery by a file, if the user wants one to be written.
pub fn kubeconfig_file(join: &JoinConfiguration) -> Option<File> {
    let file = join.discovery.as_ref()?.file.as_ref()?;
    let text = serde_saphyr::to_string(&kubeconfig(file.kube_config.as_ref()?)).ok()?;
    Some(File::of_root(file.kube_config_path.as_str(), "0640", text))
}

fn kubeconfig(config: &FileDiscoveryKubeConfig) -> Value {
    let cluster = config.cluster.clone().unwrap_or_default();
    let cluster = present([
        ("server", cluster.server.map(Value::from)),
        ("certificate-authority-data", cluster.certificate_authority_data.map(|data| data.0.into())),
        ("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify.map(Value::from)),
        ("proxy-url", cluster.proxy_url.map(Value::from)),
        ("tls-server-name", cluster.tls_server_name.map(Value::from)),
    ]);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": ENTRY, "cluster": cluster}],
        "contexts": [{"name": ENTRY, "context": {"cluster": ENTRY, "user": ENTRY}}],
        "current-context": ENTRY,
        "users": [{"name": ENTRY, "user": user(&config.user)}],
    })
}

fn user(user: &KubeConfigUser) -> Value {
    let exec = user.exec.as_ref().map(|exec| {
        present([
            ("apiVersion", Some(exec.api_version.as_deref().unwrap_or(EXEC_API).into())),
            ("command", Some(exec.command.as_str().into())),
            ("args", exec.args.clone().map(Value::from)),
            (
                "env",
                exec.env
                    .as_ref()
                    .map(|env| env.iter().map(|it| json!({"name": it.name, "value": it.value})).collect()),
            ),
            ("provideClusterInfo", Some(exec.provide_cluster_info.unwrap_or_default().into())),
            ("interactiveMode", Some("Never".into())),
        ])
    });
    let provider = user.auth_provider.as_ref().map(|provider| {
        let config = provider.config.as_ref().map(|config| json!(config));
        present([("name", Some(provider.name.as_str().into())), ("config", config)])
    });
    present([("exec", exec), ("auth-provider", provider)])
}

/// Returns an object of the fields that have a value.
fn present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use crate::certificates::{KeyAlgorithm, certificate_authority};

    use super::*;

    fn ca() -> String {
        certificate_authority(KeyAlgorithm::EcdsaP256, None, jiff::Timestamp::UNIX_EPOCH).unwrap().certificate
    }

    fn join(value: Value) -> JoinConfiguration {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_the_user_left_out_is_filled_in_once() {
        let ca = ca();
        let known = Known { endpoint: Some("203.0.113.10:6443"), ca: &ca, control_plane: true };
        let first = complete(&JoinConfiguration::default(), &known).unwrap();
        assert_eq!(first.control_plane, Some(Default::default()));
        let discovery = first.discovery.clone().unwrap().bootstrap_token.unwrap();
        assert_eq!(discovery.api_server_endpoint.as_deref(), known.endpoint);
        assert_eq!(discovery.ca_cert_hashes, Some(ca_certificate_hashes(&ca).unwrap()));
        assert!(Token::parse(token(&first).unwrap()).is_ok());
        assert_eq!(complete(&first, &known).unwrap(), first, "a second pass changes nothing");
    }

    #[test]
    fn a_join_waits_for_the_endpoint_and_refuses_a_worker_of_the_control_plane() {
        let ca = ca();
        let known = Known { endpoint: None, ca: &ca, control_plane: false };
        assert_eq!(complete(&JoinConfiguration::default(), &known), Err(DiscoveryError::NoEndpoint));
        let own = json!({"discovery": {"bootstrapToken": {"apiServerEndpoint": "a:1"}}});
        assert!(complete(&join(own), &known).is_ok(), "the user has named another endpoint");
        assert_eq!(complete(&join(json!({"controlPlane": {}})), &known), Err(DiscoveryError::ControlPlane));
    }

    #[test]
    fn discovery_by_a_file_needs_no_token() {
        let ca = ca();
        let known = Known { endpoint: Some("[fd00::1]:6443"), ca: &ca, control_plane: false };
        let plain = join(json!({"discovery": {"file": {"kubeConfigPath": "/run/d.yaml"}}}));
        assert_eq!(complete(&plain, &known).unwrap(), plain);
        assert_eq!((token(&plain), kubeconfig_file(&plain)), (None, None));
        let given =
            join(json!({"discovery": {"file": {"kubeConfigPath": "/run/d.yaml", "kubeConfig": {"user": {
            "exec": {"command": "get-token", "args": ["a"], "env": [{"name": "N", "value": "v"}]}}}}}}));
        let completed = complete(&given, &known).unwrap();
        let file = kubeconfig_file(&completed).unwrap();
        assert_eq!((file.path.as_str(), file.permissions.as_deref()), ("/run/d.yaml", Some("0640")));
        let tree: Value = serde_saphyr::from_str(std::str::from_utf8(&file.content).unwrap()).unwrap();
        assert_eq!(
            tree["clusters"][0]["cluster"],
            json!({"server": "https://[fd00::1]:6443",
            "certificate-authority-data": STANDARD.encode(&ca)})
        );
        assert_eq!(
            tree["users"][0]["user"],
            json!({"exec": {"apiVersion": EXEC_API, "command": "get-token",
            "args": ["a"], "env": [{"name": "N", "value": "v"}], "provideClusterInfo": false,
            "interactiveMode": "Never"}})
        );
        assert_eq!(tree["current-context"], "default");
    }

    #[test]
    fn a_worker_gets_its_taint_once_and_keeps_the_users() {
        let taints = |value: Value| {
            let join = with_taint(with_taint(join(value)));
            join.node_registration.unwrap().taints.unwrap().into_iter().map(|it| it.key).collect::<Vec<_>>()
        };
        assert_eq!(taints(json!({})), [UNINITIALIZED]);
        assert_eq!(taints(json!({"nodeRegistration": {"taints": []}})), [UNINITIALIZED]);
        let own = json!({"nodeRegistration": {"taints": [{"key": "own", "effect": "NoExecute"}]}});
        assert_eq!(taints(own), ["own", UNINITIALIZED]);
    }
}
