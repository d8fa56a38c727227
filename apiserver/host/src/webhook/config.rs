//! Authorization file: `apiserver.config.k8s.io AuthorizationConfiguration`, as kube-apiserver reads it.

use std::collections::HashSet;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde::Deserialize;
use serde_json::json;

use super::settings::{Webhook, WebhookSettings, settings};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "AuthorizationConfiguration";

/// Types of authorizers.
const TYPES: [&str; 6] = [SYSTEM, MACHINE, RBAC, "Keystone", "Host", WEBHOOK];

const SYSTEM: &str = "System";
const MACHINE: &str = "Machine";
const RBAC: &str = "RBAC";
const WEBHOOK: &str = "Webhook";

/// Upstream's type with the same purpose as [`MACHINE`]. It is accepted in its place, so that a file of a kube-apiserver
/// needs fewer changes.
const NODE: &str = "Node";

/// Longest name of an authorizer: that of a DNS subdomain.
const LONGEST_NAME: usize = 253;

/// File that cannot be used. The text names each field, its error, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAuthorization(String);

/// Valid authorization file.
#[derive(Debug)]
pub struct AuthorizationConfiguration {
    /// Authorizers in their order.
    pub authorizers: Vec<AuthorizerKind>,
}

/// One authorizer.
#[derive(Debug)]
pub enum AuthorizerKind {
    /// Constant rules: administrators, the server's own identities, discovery and health.
    System,
    /// Objects of the Machine of a machine's certificate.
    Machine,
    /// Roles and bindings in the store.
    Rbac,
    /// Roles in the Keystone project of a namespace.
    Keystone,
    /// The host cluster, for its own users.
    Host,
    /// Webhook.
    Webhook(Box<WebhookSettings>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    authorizers: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<Webhook>,
}

impl AuthorizationConfiguration {
    /// Reads a file.
    ///
    /// # Errors
    /// [`InvalidAuthorization`] with all errors of the fields.
    pub fn parse(text: &str) -> Result<Self, InvalidAuthorization> {
        let file: File = serde_saphyr::from_str(text)
            .map_err(|error| InvalidAuthorization(format!("strict decoding error: {error}")))?;
        if file.api_version != API_VERSION || file.kind != KIND {
            return Err(InvalidAuthorization(format!(
                "expected apiVersion {API_VERSION} and kind {KIND}, found {:?} and {:?}",
                file.api_version, file.kind
            )));
        }
        let mut errors = Vec::new();
        let authorizers = authorizers(file.authorizers, &mut errors);
        if errors.is_empty() {
            return Ok(Self { authorizers });
        }
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Err(InvalidAuthorization(texts.join("; ")))
    }
}

fn authorizers(entries: Vec<Entry>, errors: &mut Vec<FieldError>) -> Vec<AuthorizerKind> {
    let root = FieldPath::new("authorizers");
    if entries.first().is_none_or(|entry| entry.kind != SYSTEM) {
        let detail = "the first authorizer must have the type System: without it, the server's own controllers and \
            its administrators are locked out";
        errors.push(FieldError::required(root.index(0), detail));
    }
    let (mut names, mut types, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
    for (index, entry) in entries.into_iter().enumerate() {
        let path = root.index(index);
        check_name(&entry.name, &path.child("name"), errors);
        if !names.insert(entry.name.clone()) {
            errors.push(FieldError::duplicate(path.child("name"), &json!(entry.name)));
        }
        let kind = if entry.kind == NODE { MACHINE } else { entry.kind.as_str() };
        if kind == MACHINE && types.contains(RBAC) {
            let detail = "must come before the type RBAC: bindings would otherwise give machines more than the objects \
                of their own Machine";
            errors.push(FieldError::invalid(path.child("type"), &json!(entry.kind), detail));
        }
        if kind != WEBHOOK && !types.insert(kind.to_owned()) {
            errors.push(FieldError::duplicate(path.child("type"), &json!(entry.kind)));
        }
        found.extend(authorizer(entry, &path, errors));
    }
    found
}

fn authorizer(entry: Entry, path: &FieldPath, errors: &mut Vec<FieldError>) -> Option<AuthorizerKind> {
    if entry.webhook.is_some() && entry.kind != WEBHOOK {
        let detail = format!("may only be specified for type Webhook, not {}", entry.kind);
        errors.push(FieldError::forbidden(path.child("webhook"), &detail));
    }
    match (entry.kind.as_str(), entry.webhook) {
        (SYSTEM, _) => Some(AuthorizerKind::System),
        (MACHINE | NODE, _) => Some(AuthorizerKind::Machine),
        (RBAC, _) => Some(AuthorizerKind::Rbac),
        ("Keystone", _) => Some(AuthorizerKind::Keystone),
        ("Host", _) => Some(AuthorizerKind::Host),
        (WEBHOOK, Some(webhook)) => {
            let settings = settings(entry.name, &webhook, &path.child("webhook"), errors);
            Some(AuthorizerKind::Webhook(Box::new(settings)))
        }
        (WEBHOOK, None) => {
            errors.push(FieldError::required(path.child("webhook"), "required for type Webhook"));
            None
        }
        ("", _) => {
            errors.push(FieldError::required(path.child("type"), &format!("one of {}", TYPES.join(", "))));
            None
        }
        (other, _) => {
            errors.push(FieldError::not_supported(path.child("type"), &json!(other), &TYPES));
            None
        }
    }
}

fn check_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let is_label = |label: &str| {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(is_good) && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    } else if name.len() > LONGEST_NAME || !name.split('.').all(is_label) {
        errors.push(FieldError::invalid(path.clone(), &json!(name), "must be a DNS subdomain"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(authorizers: &str) -> Result<AuthorizationConfiguration, String> {
        let head =
            format!("apiVersion: {API_VERSION}\nkind: {KIND}\nauthorizers:\n- {{type: System, name: s}}\n");
        AuthorizationConfiguration::parse(&format!("{head}{authorizers}")).map_err(|error| error.to_string())
    }

    fn webhook(changes: &str) -> Result<AuthorizationConfiguration, String> {
        let text = "- type: Webhook\n  name: w\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    \
            matchConditionSubjectAccessReviewVersion: v1\n    failurePolicy: NoOpinion\n    connectionInfo: {type: \
            KubeConfigFile, kubeConfigFile: /w.yaml}\n    matchConditions: [{expression: \"request.user != 'a'\"}]\n";
        let (from, to) = changes.split_once(" => ").unwrap_or(("\n", "\n"));
        assert!(text.contains(from), "{from}");
        parse(&text.replacen(from, to, 1))
    }

    #[test]
    fn a_valid_file_has_upstreams_defaults() {
        let found = webhook("").unwrap();
        let [AuthorizerKind::System, AuthorizerKind::Webhook(settings)] = found.authorizers.as_slice() else {
            panic!("{found:?}");
        };
        let seconds = [settings.timeout, settings.allowed_ttl, settings.denied_ttl].map(|it| it.as_secs());
        assert_eq!((seconds, settings.denies_on_failure), ([3, 300, 30], false));
        assert_eq!(settings.conditions.0.len(), 1);
        assert!(parse("- {type: RBAC, name: r}\n- {type: Host, name: h}\n").is_ok());
    }

    #[test]
    fn iz_01_a_file_has_machines_and_projects_of_keystone_at_any_place_that_gives_machines_no_more() {
        let kinds = |authorizers: &str| parse(authorizers).map(|found| format!("{:?}", found.authorizers));
        for machine in ["Machine", "Node"] {
            let all = format!(
                "- {{type: {machine}, name: m}}\n- {{type: Keystone, name: k}}\n- {{type: RBAC, name: r}}\n"
            );
            assert_eq!(kinds(&all).unwrap(), "[System, Machine, Keystone, Rbac]");
            let late = format!("- {{type: RBAC, name: r}}\n- {{type: {machine}, name: m}}\n");
            let error = kinds(&late).unwrap_err();
            let expected =
                format!("authorizers[2].type: Invalid value: \"{machine}\": must come before the type RBAC");
            assert!(error.contains(&expected), "{error}");
            let with_webhook = format!("- {{type: {machine}, name: m, webhook: {{}}}}\n");
            let error = kinds(&with_webhook).unwrap_err();
            assert!(error.contains("authorizers[1].webhook: Forbidden"), "{error}");
        }
        for (authorizers, expected) in [
            (
                "- {type: Machine, name: m}\n- {type: Node, name: n}\n",
                "authorizers[2].type: Duplicate value: \"Node\"",
            ),
            (
                "- {type: Keystone, name: k}\n- {type: Keystone, name: l}\n",
                "authorizers[2].type: Duplicate value: \"Keystone\"",
            ),
            ("- {type: Keystone, name: K}\n", "authorizers[1].name: Invalid value: \"K\""),
            ("- {type: keystone, name: k}\n", "authorizers[1].type: Unsupported value: \"keystone\""),
            ("- {name: k}\n", "authorizers[1].type: Required value: one of System, Machine, RBAC, Keystone"),
        ] {
            let error = kinds(authorizers).unwrap_err();
            assert!(error.contains(expected), "{authorizers}: {error}");
        }
    }

    #[test]
    fn each_error_names_its_field() {
        for (change, expected) in [
            ("timeout: 3s => timeout: 31s", "authorizers[1].webhook.timeout: Invalid value: \"31s\""),
            ("timeout: 3s => timeout: 0s", "authorizers[1].webhook.timeout: Invalid value: \"0s\""),
            ("    timeout: 3s\n => ", "authorizers[1].webhook.timeout: Required value"),
            ("name: w => name: W", "authorizers[1].name: Invalid value"),
            ("name: w => name: s", "authorizers[1].name: Duplicate value: \"s\""),
            ("type: Webhook => type: ABAC", "authorizers[1].type: Unsupported value: \"ABAC\""),
            ("type: Webhook => type: RBAC", "authorizers[1].webhook: Forbidden"),
            ("NoOpinion => Allow", "authorizers[1].webhook.failurePolicy: Unsupported value: \"Allow\""),
            ("/w.yaml => w.yaml", "authorizers[1].webhook.connectionInfo.kubeConfigFile: Invalid value"),
            ("KubeConfigFile, => Other,", "authorizers[1].webhook.connectionInfo.type: Unsupported value"),
            (
                "request.user != 'a' => request.user",
                "authorizers[1].webhook.matchConditions[0].expression: Invalid",
            ),
            ("request.user != 'a' =>  ", "authorizers[1].webhook.matchConditions[0].expression: Required"),
            (
                "AccessReviewVersion: v1 => AccessReviewVersion: v2",
                "webhook.subjectAccessReviewVersion: Unsupported",
            ),
            ("timeout: => timeouts:", "strict decoding error"),
        ] {
            let error = webhook(change).unwrap_err();
            assert!(error.contains(expected), "{change}: {error}");
        }
        let conditions: Vec<String> =
            (0..65).map(|number| format!("{{expression: \"request.user != '{number}'\"}}")).collect();
        let many = format!("[{{expression: \"request.user != 'a'\"}}] => [{}]", conditions.join(", "));
        let error = webhook(&many).unwrap_err();
        assert!(error.contains("matchConditions: Too many: 65"), "{error}");
        let twice = "[{expression: \"request.user != 'a'\"}] => [{expression: 'true'}, {expression: 'true'}]";
        assert!(webhook(twice).unwrap_err().contains("matchConditions[1].expression: Duplicate value"));
        let error = parse("- {type: RBAC, name: r}\n- {type: RBAC, name: q}\n").unwrap_err();
        assert!(error.contains("authorizers[2].type: Duplicate value: \"RBAC\""), "{error}");
        let text =
            format!("apiVersion: {API_VERSION}\nkind: {KIND}\nauthorizers: [{{type: RBAC, name: r}}]\n");
        let error = AuthorizationConfiguration::parse(&text).unwrap_err().to_string();
        assert!(error.contains("must have the type System"), "{error}");
    }
}
