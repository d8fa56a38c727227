//! Cases: authentication files with the verdicts that a kube-apiserver must give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Cases by `area/case`.
pub type AuthenticationCases = BTreeMap<String, AuthenticationCase>;

/// Authentication file, and the verdict that a kube-apiserver must give.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthenticationCase {
    /// Name, unique in its area.
    case: String,
    /// True if kube-apiserver accepts the file.
    pub valid: bool,
    /// Reason why Capstan gives the opposite verdict.
    pub difference: Option<String>,
    /// Whole text of the file. Without it, the file has the other fields of the case.
    text: Option<String>,
    /// Authenticators. An authenticator without an issuer or without mappings gets a valid one.
    #[serde(default)]
    jwt: Vec<Map<String, Value>>,
    /// Requests without credentials.
    anonymous: Option<Value>,
}

impl AuthenticationCase {
    /// Returns the text of the file.
    pub fn text(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let mut file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": self.jwt.iter().map(completed).collect::<Vec<_>>()});
        if let Some(anonymous) = &self.anonymous {
            file["anonymous"] = anonymous.clone();
        }
        file.to_string()
    }

    /// Reads the cases of a directory.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or if two cases have the same name or the same text.
    pub fn load(directory: &Path) -> anyhow::Result<AuthenticationCases> {
        let (mut cases, mut texts) = (BTreeMap::new(), BTreeSet::new());
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("{} cannot be read", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let shown = path.display();
            let text = std::fs::read_to_string(&path).with_context(|| format!("{shown} cannot be read"))?;
            let area: Vec<Self> =
                serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            for case in area {
                let id = format!("{stem}/{}", case.case);
                // A server that reloads its file does not notice a file with the same text.
                ensure!(texts.insert(case.text()), "{id}: another case has the same text");
                ensure!(cases.insert(id.clone(), case).is_none(), "{id} occurs twice");
            }
        }
        Ok(cases)
    }
}

/// Adds the required fields that an authenticator lacks.
fn completed(authenticator: &Map<String, Value>) -> Value {
    let mut whole = json!({"issuer": {"url": "https://i.example", "audiences": ["a"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}}});
    if let Some(fields) = whole.as_object_mut() {
        fields.extend(authenticator.clone());
    }
    whole
}
