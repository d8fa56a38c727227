//! Authentication file: `apiserver.config.k8s.io AuthenticationConfiguration`, as kube-apiserver reads it.

mod decode;
mod expressions;
mod issuer;
mod mappings;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde::Deserialize;
use serde_json::json;

pub(crate) use expressions::Expressions;
pub(crate) use issuer::certificates;

/// Group of the file.
const GROUP: &str = "apiserver.config.k8s.io";

/// Versions of the file. They have the same fields. The first is the stable one.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Kind of the file.
const KIND: &str = "AuthenticationConfiguration";

/// Largest number of authenticators: upstream's.
const MOST_AUTHENTICATORS: usize = 64;

/// File that cannot be used. The text names each field, its error, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfiguration(String);

impl InvalidConfiguration {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

/// Valid authentication file.
#[derive(Debug)]
pub struct Configuration {
    /// Warning about the file, for people.
    pub warning: Option<String>,
    /// Requests without credentials. `None` if the file does not say.
    pub anonymous: Option<Anonymous>,
    pub(crate) authenticators: Vec<(Authenticator, Expressions)>,
}

/// Requests without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Anonymous {
    /// True if they are allowed.
    #[serde(default)]
    pub enabled: bool,
    /// Paths to which they are restricted. If empty, they may have any path.
    #[serde(default)]
    pub conditions: Vec<AnonymousCondition>,
}

impl Anonymous {
    /// Returns the only paths that are allowed, or `None` if all are.
    pub fn paths(self) -> Option<Vec<String>> {
        let paths: Vec<String> = self.conditions.into_iter().map(|condition| condition.path).collect();
        if self.enabled && paths.is_empty() { None } else { Some(paths) }
    }
}

/// Condition of a request without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnonymousCondition {
    /// Path, which is compared exactly. No request has an empty one.
    #[serde(default)]
    pub path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<Authenticator>,
    anonymous: Option<Anonymous>,
}

/// Authenticator of the tokens of one issuer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Authenticator {
    #[serde(default)]
    pub(crate) issuer: Issuer,
    #[serde(default)]
    pub(crate) claim_validation_rules: Vec<ClaimValidationRule>,
    #[serde(default)]
    pub(crate) claim_mappings: ClaimMappings,
    #[serde(default)]
    pub(crate) user_validation_rules: Vec<UserValidationRule>,
}

/// Issuer, and the place of its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    #[serde(rename = "discoveryURL")]
    pub(crate) discovery_url: String,
    pub(crate) certificate_authority: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) audience_match_policy: String,
    pub(crate) egress_selector_type: String,
}

/// Rule for the claims: either a claim with its value, or an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ClaimValidationRule {
    pub(crate) claim: String,
    pub(crate) required_value: String,
    pub(crate) expression: String,
    pub(crate) message: String,
}

/// Mapping of the claims to the parts of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ClaimMappings {
    pub(crate) username: PrefixedClaimOrExpression,
    pub(crate) groups: PrefixedClaimOrExpression,
    pub(crate) uid: ClaimOrExpression,
    pub(crate) extra: Vec<ExtraMapping>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PrefixedClaimOrExpression {
    pub(crate) claim: String,
    pub(crate) prefix: Option<String>,
    pub(crate) expression: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ClaimOrExpression {
    pub(crate) claim: String,
    pub(crate) expression: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ExtraMapping {
    pub(crate) key: String,
    pub(crate) value_expression: String,
}

/// Rule for the mapped user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UserValidationRule {
    pub(crate) expression: String,
    pub(crate) message: String,
}

impl Configuration {
    /// Reads a file. `own_issuers` are issuers that it may not name: the server's own.
    ///
    /// # Errors
    /// [`InvalidConfiguration`] with all errors of the fields.
    pub fn parse(text: &str, own_issuers: &[&str]) -> Result<Self, InvalidConfiguration> {
        let file = decode::decode(text)?;
        let version = version(&file)?;
        let (authenticators, errors) = authenticators(file.jwt, own_issuers);
        let errors: Vec<_> = errors.into_iter().chain(file.anonymous.as_ref().and_then(anonymous)).collect();
        if !errors.is_empty() {
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(InvalidConfiguration(text));
        }
        let stable = VERSIONS[0];
        let warning = (version != stable)
            .then(|| format!("apiVersion {GROUP}/{version} is deprecated; use {GROUP}/{stable}"));
        Ok(Self { warning, anonymous: file.anonymous, authenticators })
    }
}

fn version(file: &File) -> Result<&'static str, InvalidConfiguration> {
    let version = file.api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
    let known = VERSIONS.into_iter().find(|known| Some(*known) == version);
    known.filter(|_| file.kind == KIND).ok_or_else(|| {
        InvalidConfiguration(format!(
            "expected apiVersion {GROUP}/{} and kind {KIND}, found {:?} and {:?}",
            VERSIONS[0], file.api_version, file.kind
        ))
    })
}

fn authenticators(
    jwt: Vec<Authenticator>,
    own_issuers: &[&str],
) -> (Vec<(Authenticator, Expressions)>, Vec<FieldError>) {
    let root = FieldPath::new("jwt");
    if jwt.len() > MOST_AUTHENTICATORS {
        return (Vec::new(), vec![FieldError::too_many(root, jwt.len(), 64)]);
    }
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let (mut urls, mut discovery_urls) = (HashSet::new(), HashSet::new());
    for (index, authenticator) in jwt.into_iter().enumerate() {
        let path = root.index(index);
        let of_issuer = path.child("issuer");
        issuer::check(&authenticator.issuer, own_issuers, &of_issuer, &mut errors);
        let expressions = Expressions::compile(&authenticator, &path, &mut errors);
        let issuer = &authenticator.issuer;
        if !urls.insert(issuer.url.clone()) {
            errors.push(FieldError::duplicate(of_issuer.child("url"), &json!(issuer.url)));
        }
        if !issuer.discovery_url.is_empty() && !discovery_urls.insert(issuer.discovery_url.clone()) {
            let at = of_issuer.child("discoveryURL");
            errors.push(FieldError::duplicate(at, &json!(issuer.discovery_url)));
        }
        found.push((authenticator, expressions));
    }
    (found, errors)
}

fn anonymous(anonymous: &Anonymous) -> Option<FieldError> {
    let is_wrong = !anonymous.enabled && !anonymous.conditions.is_empty();
    is_wrong.then(|| {
        let paths: Vec<&str> = anonymous.conditions.iter().map(|it| it.path.as_str()).collect();
        let detail = "enabled should be set to true when conditions are defined";
        FieldError::invalid(FieldPath::new("anonymous.conditions"), &json!(paths), detail)
    })
}
