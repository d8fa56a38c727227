//! Files that the cloud controller manager and the drivers of volumes read: `cloud.conf` and `clouds.yaml`. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use controllers_infrastructure::Credentials;
use serde_json::{Value, json};

use super::record::Held;

/// Name of the entry in the new `clouds.yaml`.
pub(super) const CLOUD: &str = "openstack";

/// Path at which Pods mount the Secret. Upstream's manifests of both components use it.
const MOUNTED: &str = "/etc/config";

/// Key of the CA in the Secret.
const CA_KEY: &str = "ca.crt";

/// Cloud of a Cluster: everything of its credentials but the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CloudEntry {
    auth_url: String,
    region: String,
    interface: Option<String>,
    verify: bool,
    ca: Option<String>,
    /// Fingerprint of the whole entry and the CA.
    pub source: String,
}

impl CloudEntry {
    /// Reads the entry of the credentials. `region` is that of their session.
    ///
    /// # Errors
    /// The file is not usable. The text does not quote it.
    pub(super) fn read(credentials: &Credentials, region: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! { with_snippet: false };
        let file: Value = serde_saphyr::from_str_with_options(&credentials.clouds_yaml, options)
            .map_err(|_| "the credentials are no clouds.yaml".to_owned())?;
        let entry = file.get("clouds").and_then(|clouds| clouds.get(&credentials.cloud_name));
        let entry = entry.ok_or_else(|| format!("clouds.yaml has no cloud {:?}", credentials.cloud_name))?;
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let auth_url = text("/auth/auth_url").ok_or_else(|| "auth.auth_url is missing".to_owned())?;
        // A path in the entry is one of the machine of its author; only a PEM text can be passed on.
        let inline = text("/cacert").filter(|text| text.contains("BEGIN CERTIFICATE"));
        let ca = credentials.ca_certificate.clone().or(inline);
        let interface = text("/interface").or_else(|| text("/endpoint_type"));
        let interface = interface.map(|word| word.trim_end_matches("URL").to_owned());
        let verify = entry.get("verify") != Some(&Value::Bool(false));
        let all = json!([entry, ca, region]).to_string();
        Ok(Self { auth_url, region: region.to_owned(), interface, verify, ca, source: hash(all.as_bytes()) })
    }

    /// Returns credentials with which Capstan itself logs in.
    pub(super) fn credentials(&self, held: &Held, id: &str) -> Credentials {
        Credentials {
            clouds_yaml: self.clouds_yaml(held, id, None).to_string(),
            cloud_name: CLOUD.to_owned(),
            ca_certificate: self.ca.clone(),
            region: Some(self.region.clone()),
            identity: None,
        }
    }

    fn clouds_yaml(&self, held: &Held, id: &str, ca_path: Option<&str>) -> Value {
        let mut entry = json!({
            "auth_type": "v3applicationcredential",
            "auth": {
                "auth_url": self.auth_url, "application_credential_id": id,
                "application_credential_secret": held.secret,
            },
            "region_name": self.region, "verify": self.verify,
        });
        if let Some(interface) = &self.interface {
            entry["interface"] = json!(interface);
        }
        if let Some(path) = ca_path {
            entry["cacert"] = json!(path);
        }
        json!({"clouds": {CLOUD: entry}})
    }

    /// Returns the content of the Secret in the workload cluster. `networks` are the ids of the external network and of
    /// the subnet of the nodes, as far as they are known: load balancers need them.
    pub(super) fn files(&self, held: &Held, id: &str, networks: &Networks) -> BTreeMap<String, String> {
        let mut conf = String::from("[Global]\n");
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(conf, "{key}={}", quoted(value));
        };
        line("auth-url", &self.auth_url);
        line("application-credential-id", id);
        line("application-credential-secret", &held.secret);
        line("region", &self.region);
        if let Some(interface) = &self.interface {
            line("os-endpoint-type", interface);
        }
        let ca_path = self.ca.as_ref().map(|_| format!("{MOUNTED}/{CA_KEY}"));
        if let Some(path) = &ca_path {
            line("ca-file", path);
        }
        if !self.verify {
            line("tls-insecure", "true");
        }
        let parts = [("floating-network-id", &networks.external), ("subnet-id", &networks.subnet)];
        if parts.iter().any(|(_, id)| id.is_some()) {
            conf.push_str("\n[LoadBalancer]\n");
        }
        for (key, id) in parts {
            if let Some(id) = id {
                let _ = writeln!(conf, "{key}={}", quoted(id));
            }
        }
        let clouds = self.clouds_yaml(held, id, ca_path.as_deref());
        let mut files = BTreeMap::from([
            ("cloud.conf".to_owned(), conf),
            // JSON is YAML, and needs no rules for special characters.
            ("clouds.yaml".to_owned(), format!("{clouds:#}\n")),
            ("cluster-name".to_owned(), networks.cluster.clone()),
        ]);
        if let Some(ca) = &self.ca {
            files.insert(CA_KEY.to_owned(), ca.clone());
        }
        files
    }
}

/// Facts about the cluster for load balancers and volumes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Networks {
    pub external: Option<String>,
    pub subnet: Option<String>,
    /// Name of the cluster in the names of load balancers and the metadata of volumes. It is unique among all clusters of a
    /// project, and never changes.
    pub cluster: String,
}

/// Returns the hash of a Secret's content.
pub(super) fn content_hash(files: &BTreeMap<String, String>) -> String {
    hash(json!(files).to_string().as_bytes())
}

fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Quotes a value in the form of git's configuration, which both components read.
fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(entry: &Value, ca: Option<&str>) -> Credentials {
        Credentials {
            clouds_yaml: json!({"clouds": {"c": entry}}).to_string(),
            cloud_name: "c".to_owned(),
            ca_certificate: ca.map(str::to_owned),
            region: None,
            identity: None,
        }
    }

    fn held() -> Held {
        let time = "2026-11-21T06:00:00Z".parse().unwrap();
        let text = |text: &str| text.to_owned();
        Held {
            name: text("n"),
            secret: text("s\"1"),
            id: None,
            user: None,
            made_at: time,
            expires_at: time,
            source: text("x"),
            roles: Vec::new(),
        }
    }

    #[test]
    fn the_files_have_the_new_credential_and_the_cloud_of_the_old_one() {
        let entry = json!({"auth": {"auth_url": "https://k/v3", "username": "u", "password": "secret"},
            "interface": "internalURL"});
        let cloud = CloudEntry::read(&credentials(&entry, Some("PEM")), "r1").unwrap();
        let networks = Networks { external: Some("ext".to_owned()), subnet: None, cluster: "n-c".to_owned() };
        let files = cloud.files(&held(), "id-1", &networks);
        let expected = "[Global]\nauth-url=\"https://k/v3\"\napplication-credential-id=\"id-1\"\n\
                        application-credential-secret=\"s\\\"1\"\nregion=\"r1\"\nos-endpoint-type=\"internal\"\n\
                        ca-file=\"/etc/config/ca.crt\"\n\n[LoadBalancer]\nfloating-network-id=\"ext\"\n";
        assert_eq!(files["cloud.conf"], expected);
        assert_eq!((files["ca.crt"].as_str(), files["cluster-name"].as_str()), ("PEM", "n-c"));
        let clouds: Value = serde_saphyr::from_str(&files["clouds.yaml"]).unwrap();
        assert_eq!(clouds["clouds"]["openstack"]["auth"]["application_credential_id"], "id-1");
        assert!(files.values().all(|text| !text.contains("password")), "{files:?}");
        assert_ne!(content_hash(&files), content_hash(&cloud.files(&held(), "id-2", &networks)));
    }

    #[test]
    fn the_fingerprint_changes_with_the_entry_the_ca_and_the_region() {
        let entry = |password: &str| json!({"auth": {"auth_url": "https://k/v3", "password": password}});
        let of =
            |entry: &Value, ca, region| CloudEntry::read(&credentials(entry, ca), region).unwrap().source;
        let first = of(&entry("1"), None, "r");
        assert_eq!(first, of(&entry("1"), None, "r"));
        for other in
            [of(&entry("2"), None, "r"), of(&entry("1"), Some("CA"), "r"), of(&entry("1"), None, "s")]
        {
            assert_ne!(first, other);
        }
        let missing = credentials(&json!({"auth": {}}), None);
        assert_eq!(CloudEntry::read(&missing, "r").unwrap_err(), "auth.auth_url is missing");
    }
}
