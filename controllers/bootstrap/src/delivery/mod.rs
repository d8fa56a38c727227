//! Delivery of bootstrap data by a URL: the user data of a server is a short document that fetches the complete one. Then
//! the cloud and its metadata service never have a key or a token.
//!
//! The URL contains a code that only the holder of the data can compute. Capstan's own address responds to it once.

use aws_lc_rs::hmac;
use serde_json::json;

/// Start of the path of every URL.
const PREFIX: &str = "/bootstrap";

/// Text that the code is computed from, before the name of the Secret.
const CONTEXT: &str = "capstan.dev/bootstrap-data";

/// Script of the stub. cloud-init runs it before it writes files and creates users.
const SCRIPT: &str = include_str!("fetch.sh");

/// Directory of the script and the CA. It is not on a disk.
const DIRECTORY: &str = "/run/capstan";

/// Address of Capstan for machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Start of the URLs, e.g. `https://capstan.example.org:7444`.
    pub url: String,
    /// CA of the address, in PEM.
    pub ca: String,
}

/// Bootstrap data of one Machine.
#[derive(Clone, Copy)]
pub struct Data<'a> {
    /// Namespace of the Secret with the data.
    pub namespace: &'a str,
    /// Name of the Secret with the data.
    pub name: &'a str,
    /// The complete document.
    pub document: &'a [u8],
}

impl std::fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Data<'_> {
    fn text(&self) -> String {
        format!("{CONTEXT}/{}/{}", self.namespace, self.name)
    }

    /// Returns the path of the URL. It is the same in every pass, so nothing has to be stored.
    pub fn path(&self) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.document);
        let tag = hmac::sign(&key, self.text().as_bytes());
        let code: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}/{}/{}/{code}", self.namespace, self.name)
    }

    /// Reports whether a code is that of this data. The time that it takes does not depend on the code.
    pub fn is_code(&self, code: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.document);
        let pair = |index: usize| code.get(index..index + 2).and_then(|it| u8::from_str_radix(it, 16).ok());
        let bytes: Option<Vec<u8>> = (0..code.len()).step_by(2).map(pair).collect();
        bytes.is_some_and(|bytes| hmac::verify(&key, self.text().as_bytes(), &bytes).is_ok())
    }
}

/// Returns namespace, name and code of a path; `None` if it is no path of bootstrap data.
pub fn parse(path: &str) -> Option<(&str, &str, &str)> {
    let mut parts = path.strip_prefix(PREFIX)?.strip_prefix('/')?.split('/');
    let (namespace, name, code) = (parts.next()?, parts.next()?, parts.next()?);
    let is_complete = parts.next().is_none() && ![namespace, name, code].contains(&"");
    is_complete.then_some((namespace, name, code))
}

/// Returns the user data that fetches the complete document in a format; `None` for a format without such a document.
pub fn stub(format: &str, source: &Source, data: &Data<'_>) -> Option<String> {
    let url = format!("{}{}", source.url.trim_end_matches('/'), data.path());
    match format {
        "cloud-config" => Some(cloud_config(&url, &source.ca, data.name)),
        "ignition" => Some(ignition(&url, &source.ca)),
        _ => None,
    }
}

/// Returns a cloud-config with one command. Only `bootcmd` runs before the modules that the document has settings for.
fn cloud_config(url: &str, ca: &str, name: &str) -> String {
    let command = format!(
        "mkdir -p {DIRECTORY}\ncat > {DIRECTORY}/ca.pem <<'PEM'\n{}\nPEM\n\
         cat > {DIRECTORY}/fetch <<'SCRIPT'\n{SCRIPT}SCRIPT\n\
         sh {DIRECTORY}/fetch '{url}' {DIRECTORY}/ca.pem '{name}'\n",
        ca.trim_end()
    );
    // A text of JSON is one of YAML.
    format!("#cloud-config\nbootcmd:\n- {}\n", serde_json::Value::String(command))
}

/// Returns an Ignition configuration that names its replacement, which Ignition fetches by itself.
fn ignition(url: &str, ca: &str) -> String {
    let authority = crate::ignition::data_url(ca.as_bytes());
    json!({"ignition": {
        "version": crate::ignition::VERSION,
        "config": {"replace": {"source": url}},
        "security": {"tls": {"certificateAuthorities": [{"source": authority}]}},
    }})
    .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const DATA: Data<'_> = Data { namespace: "n", name: "m", document: b"#cloud-config\n# a token" };

    fn source() -> Source {
        Source { url: "https://192.0.2.1:7444/".to_owned(), ca: "-----BEGIN CERTIFICATE-----\n".to_owned() }
    }

    #[test]
    fn the_code_depends_on_the_document_and_on_its_name() {
        let path = DATA.path();
        let (namespace, name, code) = parse(&path).unwrap();
        assert_eq!((namespace, name, code.len()), ("n", "m", 64));
        assert!(DATA.is_code(code));
        assert!(!Data { name: "other", ..DATA }.is_code(code));
        assert!(!Data { document: b"#cloud-config\n", ..DATA }.is_code(code));
        for wrong in ["", "0", "zz", "é", &code[2..], &format!("{code}00")] {
            assert!(!DATA.is_code(wrong), "{wrong}");
        }
    }

    #[test]
    fn only_paths_of_bootstrap_data_are_parsed() {
        for path in
            ["/", "/bootstrap", "/bootstrap/n/m", "/bootstrap/n//c", "/bootstrap/n/m/c/d", "/other/n/m/c"]
        {
            assert_eq!(parse(path), None, "{path}");
        }
        assert_eq!(parse("/bootstrap/n/m/c"), Some(("n", "m", "c")));
    }

    #[test]
    fn a_stub_has_the_url_and_the_ca_and_nothing_of_the_document() {
        let stub = stub("cloud-config", &source(), &DATA).unwrap();
        assert!(stub.starts_with("#cloud-config\n"), "there is no Jinja in it");
        let tree: Value = serde_saphyr::from_str(&stub).unwrap();
        let command = tree["bootcmd"][0].as_str().unwrap();
        let url = format!("'https://192.0.2.1:7444{}'", DATA.path());
        assert!(command.contains(&url) && command.contains("BEGIN CERTIFICATE"), "{command}");
        assert!(!stub.contains("a token"));
        assert_eq!(super::stub("other", &source(), &DATA), None);
    }

    #[test]
    fn ignition_replaces_its_configuration_by_the_document() {
        let stub = stub("ignition", &source(), &DATA).unwrap();
        let tree: Value = serde_json::from_str(&stub).unwrap();
        let url = format!("https://192.0.2.1:7444{}", DATA.path());
        assert_eq!(tree["ignition"]["config"]["replace"]["source"], url);
        let authority = &tree["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"];
        assert_eq!(authority, "data:,-----BEGIN%20CERTIFICATE-----%0A");
    }

    #[test]
    fn the_script_is_valid_for_a_shell() {
        let checked = std::process::Command::new("sh").args(["-n", "-c", SCRIPT]).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
