//! Checks of an issuer.

use std::collections::HashSet;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use reqwest::{Certificate, Url};
use serde_json::json;

use super::Issuer;

/// The only policy for audiences.
const MATCH_ANY: &str = "MatchAny";

pub(super) fn check(issuer: &Issuer, own: &[&str], path: &FieldPath, errors: &mut Vec<FieldError>) {
    url(issuer, own, &path.child("url"), errors);
    discovery_url(issuer, &path.child("discoveryURL"), errors);
    audiences(issuer, path, errors);
    let authority = &issuer.certificate_authority;
    if !authority.is_empty() && certificates(authority).is_none() {
        let at = path.child("certificateAuthority");
        let detail = "data does not contain any valid RSA or ECDSA certificates";
        errors.push(FieldError::invalid(at, &json!("<omitted>"), detail));
    }
    if !issuer.egress_selector_type.is_empty() {
        let detail = "this server has no egress selector; remove the field";
        let at = path.child("egressSelectorType");
        errors.push(FieldError::invalid(at, &json!(issuer.egress_selector_type), detail));
    }
}

/// Returns the certificates of a PEM text, or `None` if there are none.
pub(crate) fn certificates(pem: &str) -> Option<Vec<Certificate>> {
    Certificate::from_pem_bundle(pem.as_bytes()).ok().filter(|found| !found.is_empty())
}

fn url(issuer: &Issuer, own: &[&str], path: &FieldPath, errors: &mut Vec<FieldError>) {
    if issuer.url.is_empty() {
        return errors.push(FieldError::required(path.clone(), ""));
    }
    if own.contains(&issuer.url.as_str()) {
        let detail = format!("URL must not overlap with disallowed issuers: [{}]", own.join(" "));
        errors.push(FieldError::invalid(path.clone(), &json!(issuer.url), &detail));
    }
    form(&issuer.url, path, errors);
}

fn discovery_url(issuer: &Issuer, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let url = &issuer.discovery_url;
    if url.is_empty() {
        return;
    }
    if !issuer.url.is_empty() && url.trim_end_matches('/') == issuer.url.trim_end_matches('/') {
        let detail = "discoveryURL must be different from URL";
        errors.push(FieldError::invalid(path.clone(), &json!(url), detail));
    }
    form(url, path, errors);
}

/// Checks the form of a URL.
fn form(text: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(path.clone(), &json!(text), detail));
    if !text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
        return refuse("URL scheme must be https");
    }
    let url = match text.parse::<Url>() {
        Ok(url) => url,
        Err(error) => return refuse(&error.to_string()),
    };
    if !url.username().is_empty() || url.password().is_some() {
        refuse("URL must not contain a username or password");
    }
    if url.query().is_some_and(|query| !query.is_empty()) {
        refuse("URL must not contain a query");
    }
    if url.fragment().is_some_and(|fragment| !fragment.is_empty()) {
        refuse("URL must not contain a fragment");
    }
}

fn audiences(issuer: &Issuer, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let at = path.child("audiences");
    if issuer.audiences.is_empty() {
        let detail = format!("at least one {at} is required");
        return errors.push(FieldError::required(at, &detail));
    }
    let mut seen = HashSet::new();
    for (index, audience) in issuer.audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.push(FieldError::required(at.index(index), ""));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(at.index(index), &json!(audience)));
        }
    }
    let policy = issuer.audience_match_policy.as_str();
    let detail = match (issuer.audiences.len(), policy) {
        (_, MATCH_ANY) | (1, "") => return,
        (1, _) => "audienceMatchPolicy must be empty or MatchAny for single audience",
        _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
    };
    errors.push(FieldError::invalid(path.child("audienceMatchPolicy"), &json!(policy), detail));
}
