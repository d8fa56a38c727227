//! Validation of the address of a webhook.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::admission_rules::text;
use crate::rules::uri;

/// Form of an address, for messages.
const FORM: &str = "; desired format: https://host[/path]";

/// Validates `clientConfig`. A Service is refused, because no Service runs here.
pub(super) fn validate(client: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    match (client.get("url"), client.get("service")) {
        (None, None) | (Some(_), Some(_)) => {
            errors.push(FieldError::required(path.clone(), "exactly one of url or service is required"));
        }
        (Some(_), None) => validate_url(text(client, "url"), &path.child("url"), errors),
        (None, Some(_)) => {
            let detail = "Capstan serves no Services and does not read those of a host cluster; set url to an \
                address that all replicas of Capstan reach";
            errors.push(FieldError::forbidden(path.child("service"), detail));
        }
    }
}

fn validate_url(url: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Err(reason) = uri::scheme(url.split('#').next().unwrap_or_default()) {
        let detail = format!("url must be a valid URL: parse {url:?}: {reason}{FORM}");
        return errors.push(FieldError::required(path.clone(), &detail));
    }
    let mut refuse = |value: &str, detail: &str| {
        errors.push(FieldError::invalid(path.clone(), &json!(value), detail));
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        refuse(scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        refuse("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        refuse(query, "query parameters are not permitted in the URL");
    }
}
