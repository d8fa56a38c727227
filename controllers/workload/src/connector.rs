//! Creation of API clients from kubeconfigs.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::WorkloadError;
use crate::limits::LimitLayer;
use crate::request_rate::{RateLimiter, RequestRate};

/// Connector that creates API clients of workload clusters.
#[async_trait]
pub trait WorkloadConnector: Send + Sync + Debug + 'static {
    /// Returns a client for the current context of a kubeconfig in YAML. No call is made yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    async fn client(&self, kubeconfig: &[u8]) -> Result<Client, WorkloadError>;
}

/// Connector over the network.
#[derive(Debug, Default)]
pub struct KubeconfigConnector {
    /// Largest rate of the requests of each client.
    pub rate: RequestRate,
}

/// Longest duration of the TCP and TLS handshakes: that of a probe.
const CONNECT: Duration = Duration::from_secs(5);

/// Longest duration of a request. A watch and a forwarded port last longer, after their first answer.
const REQUEST: Duration = Duration::from_secs(10);

#[async_trait]
impl WorkloadConnector for KubeconfigConnector {
    async fn client(&self, kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        let config = config(kubeconfig).await.map_err(WorkloadError::Kubeconfig)?;
        let builder = ClientBuilder::try_from(config)
            .map_err(|error| WorkloadError::Kubeconfig(crate::describe(&error)))?;
        let rate = Arc::new(RateLimiter::new(self.rate));
        Ok(builder.with_layer(&LimitLayer { request: REQUEST, rate }).build())
    }
}

/// Reads the current context.
async fn config(kubeconfig: &[u8]) -> Result<Config, String> {
    let text = std::str::from_utf8(kubeconfig).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| unreadable(&error))?;
    let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    clusters.into_iter().try_for_each(check_cluster)?;
    let users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    users.into_iter().try_for_each(check_user)?;
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| error.to_string())?;
    if config.cluster_url.host().is_none() {
        return Err(format!("server {:?} is not an URL like https://203.0.113.10:6443", config.cluster_url));
    }
    // The environment of this process may name a proxy, which is not meant for workload clusters.
    config.proxy_url = None;
    // A refused eviction is an answer (429) that the caller waits for.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(REQUEST);
    Ok(config)
}

/// Returns the place of an error, and not its text: the parser quotes the lines around it, which can have credentials.
fn unreadable(error: &KubeconfigError) -> String {
    let KubeconfigError::Parse(error) = error else { return error.to_string() };
    let place = error.location().map(|place| format!(" at line {} column {}", place.line(), place.column()));
    format!("it is not a kubeconfig in YAML{}", place.unwrap_or_default())
}

/// Refuses what reads files of this process, or takes another way than a direct connection.
fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    if is_set(cluster.proxy_url.as_ref()) {
        return Err("proxy-url is not supported; the server must be reachable directly".to_owned());
    }
    if is_set(cluster.certificate_authority.as_ref()) {
        return Err(
            "certificate-authority names a file; put its content into certificate-authority-data".to_owned()
        );
    }
    Ok(())
}

/// Refuses programs that return credentials, and files of this process.
fn check_user(user: &AuthInfo) -> Result<(), String> {
    if user.exec.is_some() {
        return Err("exec is not supported; use a token or a client certificate".to_owned());
    }
    if user.auth_provider.is_some() {
        return Err("auth-provider is not supported; use a token or a client certificate".to_owned());
    }
    let files = [
        (&user.token_file, "tokenFile", "token"),
        (&user.client_certificate, "client-certificate", "client-certificate-data"),
        (&user.client_key, "client-key", "client-key-data"),
    ];
    match files.into_iter().find(|(file, ..)| is_set(file.as_ref())) {
        Some((_, field, instead)) => Err(format!("{field} names a file; put its content into {instead}")),
        None => Ok(()),
    }
}

fn is_set(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: b, user: c}}}}]\n\
             clusters: [{{name: b, cluster: {{{cluster}}}}}]\nusers: [{{name: c, user: {{{user}}}}}]\n"
        )
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_refused_with_the_field() {
        let server = "server: 'https://203.0.113.10:6443'";
        let cases = [
            (kubeconfig(server, "exec: {command: aws}"), "exec is not supported"),
            (kubeconfig(server, "auth-provider: {name: gcp, config: {}}"), "auth-provider is not supported"),
            (kubeconfig(server, "tokenFile: /etc/shadow"), "tokenFile names a file"),
            (kubeconfig(server, "client-key: /etc/shadow"), "client-key names a file"),
            (
                kubeconfig(&format!("{server}, certificate-authority: /etc/shadow"), ""),
                "certificate-authority names a file",
            ),
            (kubeconfig(&format!("{server}, proxy-url: 'http://proxy'"), ""), "proxy-url is not supported"),
            (kubeconfig("", ""), "cluster url is missing"),
            (kubeconfig("server: '/path'", ""), "is not an URL"),
            ("current-context: a".to_owned(), "a"),
            ("a: [".to_owned(), "YAML"),
        ];
        for (kubeconfig, expected) in cases {
            let error =
                KubeconfigConnector::default().client(kubeconfig.as_bytes()).await.err().expect(&kubeconfig);
            assert!(matches!(error, WorkloadError::Kubeconfig(_)));
            assert!(error.to_string().contains(expected), "{error}");
        }
        let good = kubeconfig(server, "token: secret");
        for damaged in [
            format!("{good}\""),
            good.replace("[{name: c, user", "[{name: c, [user"),
            good.replace("users: [", "users: x ["),
        ] {
            let error =
                KubeconfigConnector::default().client(damaged.as_bytes()).await.err().expect(&damaged);
            let text = error.to_string();
            assert!(text.contains("YAML at line ") && !text.contains("secret"), "{text}");
        }
        KubeconfigConnector::default().client(good.as_bytes()).await.expect("usable");
    }
}
