//! Refused values of a ClusterConfiguration.

use apiserver_types::{ClusterConfiguration, ExternalEtcd, LocalEtcd};

use super::Refusal;
use super::values::{absolute_path, alternative_name, broken, host_and_port, repository, secure_url};

/// Returns the refused values.
pub(super) fn refusals(cluster: &ClusterConfiguration) -> Vec<Refusal> {
    let mut found = Found::default();
    found.check("certificatesDir", cluster.certificates_dir.as_deref(), absolute_path);
    found.check("controlPlaneEndpoint", cluster.control_plane_endpoint.as_deref(), host_and_port);
    found.check("imageRepository", cluster.image_repository.as_deref(), repository);
    let dns = cluster.dns.as_ref().and_then(|dns| dns.image_repository.as_deref());
    found.check("dns.imageRepository", dns, repository);
    let names = cluster.api_server.as_ref().and_then(|it| it.cert_sans.as_deref());
    found.check_each("apiServer.certSANs", names, alternative_name);
    let etcd = cluster.etcd.as_ref();
    let (local, external) = (etcd.and_then(|it| it.local.as_ref()), etcd.and_then(|it| it.external.as_ref()));
    if local.is_some() && external.is_some() {
        let cause = "local and external exclude each other";
        found.0.push(Refusal::new("spec.clusterConfiguration.etcd", cause));
    }
    local.into_iter().for_each(|it| found.check_local(it));
    external.into_iter().for_each(|it| found.check_external(it));
    found.0
}

/// Refused values so far.
#[derive(Default)]
struct Found(Vec<Refusal>);

impl Found {
    fn check(&mut self, field: &str, value: Option<&str>, rule: fn(&str) -> Option<&'static str>) {
        let cause = value.filter(|value| !value.is_empty()).and_then(|value| broken(value, rule));
        self.0.extend(cause.map(|cause| Refusal::new(format!("spec.clusterConfiguration.{field}"), cause)));
    }

    fn check_each(&mut self, field: &str, values: Option<&[String]>, rule: fn(&str) -> Option<&'static str>) {
        for (index, value) in values.unwrap_or_default().iter().enumerate() {
            self.check(&format!("{field}[{index}]"), Some(value.as_str()), rule);
        }
    }

    fn check_local(&mut self, local: &LocalEtcd) {
        self.check("etcd.local.dataDir", local.data_dir.as_deref(), absolute_path);
        self.check("etcd.local.imageRepository", local.image_repository.as_deref(), repository);
        self.check_each("etcd.local.serverCertSANs", local.server_cert_sans.as_deref(), alternative_name);
        self.check_each("etcd.local.peerCertSANs", local.peer_cert_sans.as_deref(), alternative_name);
    }

    fn check_external(&mut self, external: &ExternalEtcd) {
        self.check_each("etcd.external.endpoints", Some(&external.endpoints), secure_url);
        for (field, path) in [
            ("caFile", &external.ca_file),
            ("certFile", &external.cert_file),
            ("keyFile", &external.key_file),
        ] {
            self.check(&format!("etcd.external.{field}"), Some(path.as_str()), absolute_path);
        }
    }
}
