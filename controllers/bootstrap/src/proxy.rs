//! Proxy of a cluster's machines: the environment of containerd, of the kubelet and of kubeadm, from one setting.
//!
//! kubeadm gives its environment to the static pods of the control plane, so the addresses of the cluster itself must
//! not go through the proxy.

use apiserver_types::{Cluster, NetworkRanges};

use crate::setup::File;

/// Annotation of a Cluster with the URL of the proxy, e.g. `http://proxy.example.org:3128`.
pub const URL: &str = "capstan.dev/proxy";

/// Annotation of a Cluster with more destinations that are reached without the proxy, separated by commas.
pub const EXCEPTIONS: &str = "capstan.dev/no-proxy";

/// Destinations that no proxy reaches: the machine itself, and the metadata service.
const LOCAL: [&str; 4] = ["localhost", "127.0.0.1", "::1", "169.254.169.254"];

/// Range of the addresses of services, if the Cluster names none. kubeadm's default.
const SERVICES: &str = "10.96.0.0/12";

/// Domain of services, if the Cluster names none. kubeadm's default.
const DOMAIN: &str = "cluster.local";

/// Units whose environment has the proxy. The kubelet starts later.
const UNITS: [&str; 2] = ["containerd", "kubelet"];

/// Proxy of the machines of a Cluster. `Debug` does not print it: the URL may have a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    url: String,
    exceptions: String,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("exceptions", &self.exceptions).finish_non_exhaustive()
    }
}

/// Error of an annotation that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {name} of the Cluster: {cause}")]
pub struct ProxyError {
    name: &'static str,
    cause: &'static str,
}

impl Proxy {
    /// Reads the proxy of a Cluster; `None` if it has none.
    ///
    /// # Errors
    /// An annotation has a value that is not a URL, or not a list of destinations.
    pub fn of(cluster: &Cluster) -> Result<Option<Self>, ProxyError> {
        let annotation = |name: &str| cluster.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        let Some(url) = annotation(URL).filter(|url| !url.is_empty()) else { return Ok(None) };
        let more = annotation(EXCEPTIONS).unwrap_or_default();
        let is_url =
            ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
        if !is_url || !is_plain(url) {
            return Err(ProxyError { name: URL, cause: "the value is no URL with http or https" });
        }
        if !is_plain(more) {
            return Err(ProxyError {
                name: EXCEPTIONS,
                cause: "the value is no list of hosts separated by commas",
            });
        }
        Ok(Some(Self { url: url.to_owned(), exceptions: exceptions(cluster, more) }))
    }

    fn variables(&self) -> [(&'static str, &str); 3] {
        [("HTTP_PROXY", &self.url), ("HTTPS_PROXY", &self.url), ("NO_PROXY", &self.exceptions)]
    }

    /// Returns the drop-ins of the units.
    pub fn files(&self) -> Vec<File> {
        // A percent sign begins a specifier of systemd.
        let line =
            |(name, value): (&str, &str)| format!("Environment=\"{name}={}\"\n", value.replace('%', "%%"));
        let text: String = self.variables().map(line).concat();
        let path = |unit: &str| format!("/etc/systemd/system/{unit}.service.d/http-proxy.conf");
        UNITS.map(|unit| File::of_root(path(unit), "0600", format!("[Service]\n{text}"))).to_vec()
    }

    /// Returns the commands that precede all others. An exported variable is there for all that follow.
    pub fn commands(&self) -> Vec<String> {
        let export = self.variables().map(|(name, value)| format!(" {name}='{value}'")).concat();
        let restart = "systemctl daemon-reload && systemctl try-restart containerd.service";
        vec![format!("export{export}"), restart.to_owned()]
    }
}

/// Reports whether a value has no character with a meaning for a shell, for systemd or for cloud-init's templates.
fn is_plain(text: &str) -> bool {
    text.chars().all(|it| it.is_ascii_alphanumeric() || "-._~:/?@!&*+,;=%[]".contains(it))
}

/// Returns the destinations that are reached without the proxy.
fn exceptions(cluster: &Cluster, more: &str) -> String {
    let network = cluster.spec.cluster_network.as_ref();
    let ranges = |ranges: Option<&NetworkRanges>| ranges.map(|it| it.cidr_blocks.clone()).unwrap_or_default();
    let mut services = ranges(network.and_then(|it| it.services.as_ref()));
    if services.is_empty() {
        services.push(SERVICES.to_owned());
    }
    let domain = network.and_then(|it| it.service_domain.as_deref()).filter(|domain| !domain.is_empty());
    let endpoint = cluster.spec.control_plane_endpoint.as_ref().and_then(|it| it.host.clone());
    let mut all: Vec<String> = LOCAL.map(str::to_owned).to_vec();
    all.extend(ranges(network.and_then(|it| it.pods.as_ref())));
    all.extend(services);
    all.extend([".svc".to_owned(), format!(".{}", domain.unwrap_or(DOMAIN))]);
    all.extend(endpoint.filter(|host| !host.is_empty()));
    all.extend(more.split(',').filter(|it| !it.is_empty()).map(str::to_owned));
    all.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(annotations: &Value, spec: &Value) -> Result<Option<Proxy>, ProxyError> {
        let object = json!({"metadata": {"name": "c", "annotations": annotations}, "spec": spec});
        Proxy::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_addresses_of_the_cluster_are_reached_without_the_proxy() {
        assert_eq!(of(&json!({EXCEPTIONS: "a"}), &json!({})), Ok(None), "there is no proxy");
        let spec = json!({"controlPlaneEndpoint": {"host": "203.0.113.10", "port": 6443}, "clusterNetwork": {
            "pods": {"cidrBlocks": ["10.244.0.0/16", "fd01::/48"]}, "serviceDomain": "blue.lab"}});
        let proxy = of(&json!({URL: "http://proxy.lab:3128", EXCEPTIONS: "10.6.0.0/24,.lab"}), &spec);
        let proxy = proxy.unwrap().unwrap();
        let exceptions = "localhost,127.0.0.1,::1,169.254.169.254,10.244.0.0/16,fd01::/48,10.96.0.0/12,.svc,.blue.lab,\
            203.0.113.10,10.6.0.0/24,.lab";
        let files = proxy.files();
        assert_eq!(files[0].path, "/etc/systemd/system/containerd.service.d/http-proxy.conf");
        assert_eq!(
            String::from_utf8(files[1].content.clone()).unwrap(),
            format!(
                "[Service]\nEnvironment=\"HTTP_PROXY=http://proxy.lab:3128\"\n\
                 Environment=\"HTTPS_PROXY=http://proxy.lab:3128\"\nEnvironment=\"NO_PROXY={exceptions}\"\n"
            )
        );
        assert!(proxy.commands()[0].ends_with(&format!(" NO_PROXY='{exceptions}'")));
    }

    #[test]
    fn a_value_with_another_meaning_is_refused_and_a_percent_sign_is_kept() {
        for url in
            ["proxy.lab", "http://", "http://a b", "http://a'b", "http://a\"b", "http://a$b", "http://{{b}}"]
        {
            assert!(of(&json!({URL: url}), &json!({})).is_err(), "{url}");
        }
        assert!(of(&json!({URL: "http://a", EXCEPTIONS: "a b"}), &json!({})).is_err());
        let proxy = of(&json!({URL: "http://u:p%40w@a:1"}), &json!({})).unwrap().unwrap();
        let text = String::from_utf8(proxy.files()[0].content.clone()).unwrap();
        assert!(text.contains("=http://u:p%%40w@a:1\""), "{text}");
        assert!(proxy.commands()[0].contains("'http://u:p%40w@a:1'"));
    }
}
