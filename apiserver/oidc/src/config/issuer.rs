//! Checks of an issuer.

use std::collections::HashSet;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use reqwest::{Certificate, Client, Url};
use serde_json::json;

use super::Issuer;

/// The only policy for audiences.
const MATCH_ANY: &str = "MatchAny";

/// Begin of every URL.
const SCHEME: &str = "https://";

pub(super) fn check(issuer: &Issuer, own: &[&str], path: &FieldPath, errors: &mut Vec<FieldError>) {
    url(issuer, own, &path.child("url"), errors);
    discovery_url(issuer, &path.child("discoveryURL"), errors);
    audiences(issuer, path, errors);
    let authority = &issuer.certificate_authority;
    if !authority.is_empty() && !certificates(authority).is_some_and(are_valid) {
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

/// Returns true if a client can trust these certificates. PEM may hold any other data.
fn are_valid(certificates: Vec<Certificate>) -> bool {
    Client::builder().tls_certs_only(certificates).build().is_ok()
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
    let (scheme, rest) = text.split_at_checked(SCHEME.len()).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return refuse("URL scheme must be https");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(detail) = repaired(rest, authority) {
        return refuse(detail);
    }
    let url = match text.parse::<Url>() {
        Ok(url) => url,
        Err(error) => return refuse(&error.to_string()),
    };
    if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
        refuse("URL must not contain a username or password");
    }
    if url.query().is_some_and(|query| !query.is_empty()) {
        refuse("URL must not contain a query");
    }
    if url.fragment().is_some_and(|fragment| !fragment.is_empty()) {
        refuse("URL must not contain a fragment");
    }
}

/// Returns the error of a URL that the parser would repair. Tokens must name the issuer exactly as the file does.
fn repaired(rest: &str, authority: &str) -> Option<&'static str> {
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let is_escape = |after: &str| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if rest.contains(|letter: char| letter.is_ascii_control()) {
        Some("URL must not contain control characters")
    } else if authority.contains([' ', '\\']) {
        Some("the host of the URL must not contain spaces or backslashes")
    } else if !path.split('%').skip(1).all(is_escape) {
        Some("each % in the URL must precede two hexadecimal digits")
    } else {
        None
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
