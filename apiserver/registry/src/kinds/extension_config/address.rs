//! Validation of the address of an extension.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::{names, uri};

/// Adds every error of a client's configuration.
pub(super) fn validate(client: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let url = client.get("url").filter(|url| *url != "");
    let service = client.get("service");
    match (url, service) {
        (None, None) => {
            errors.push(FieldError::required(path.clone(), "either url or service must be defined"));
        }
        (Some(_), Some(_)) => {
            errors.push(FieldError::forbidden(path.clone(), "only one of url or service can be defined"));
        }
        _ => {}
    }
    if let Some(url) = url {
        validate_url(url, &path.child("url"), errors);
    }
    if let Some(service) = service {
        validate_service(service, &path.child("service"), errors);
    }
}

fn validate_url(url: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = url.as_str().unwrap_or_default();
    match uri::scheme(text) {
        Err(reason) => {
            let detail = format!("must be a valid URL, e.g. https://example.com: parse {text:?}: {reason}");
            errors.push(FieldError::invalid(path.clone(), url, &detail));
        }
        Ok("https") => {}
        Ok(_) => {
            let detail = "'https' is the only allowed URL scheme, e.g. https://example.com";
            errors.push(FieldError::invalid(path.clone(), url, detail));
        }
    }
}

fn validate_service(service: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    type Rule = fn(&str) -> Vec<String>;
    let rules: [(&str, Rule); 2] = [("name", names::service), ("namespace", names::label)];
    for (field, rule) in rules {
        let Some(value) = service.get(field).filter(|value| *value != "") else {
            errors.push(FieldError::required(path.child(field), "must not be empty"));
            continue;
        };
        let wrong = rule(value.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|error| FieldError::invalid(path.child(field), value, error)));
    }
    if let Some(value) = service.get("path").filter(|value| *value != "") {
        let text = value.as_str().unwrap_or_default();
        if let Err(reason) = uri::scheme(text) {
            let detail = format!("must be a valid URL path e.g. /path/to/hook: parse {text:?}: {reason}");
            errors.push(FieldError::invalid(path.child("path"), value, &detail));
        }
        if !text.starts_with('/') {
            let detail = "must start with \"/\" to be a valid URL path";
            errors.push(FieldError::invalid(path.child("path"), value, detail));
        }
    }
    if let Some(port) =
        service.get("port").filter(|port| !port.as_i64().is_some_and(|port| (1..=65535).contains(&port)))
    {
        errors.push(FieldError::invalid(path.child("port"), port, "must be between 1 and 65535, inclusive"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(client: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(client, &FieldPath::new("at"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_extension_has_either_a_url_or_a_service() {
        let service = json!({"name": "s", "namespace": "n", "path": "/p", "port": 8443});
        for good in [json!({"url": "https://x.example:1/p?q=%20"}), json!({"service": service})] {
            assert_eq!(found(&good), Vec::<String>::new());
        }
        assert_eq!(
            found(&json!({"caBundle": "x"})),
            ["at: Required value: either url or service must be defined"]
        );
        assert_eq!(
            found(&json!({"url": "https://x", "service": service})),
            ["at: Forbidden: only one of url or service can be defined"]
        );
    }

    #[test]
    fn an_extension_url_must_be_https() {
        let scheme = "'https' is the only allowed URL scheme, e.g. https://example.com";
        for (url, end) in [
            ("http://x", scheme),
            ("/only/a/path", scheme),
            ("x.example", "invalid URI for request"),
            ("https://x/%zz", "invalid URL escape \"%zz\""),
            ("https://a b", "invalid character \" \" in host name"),
        ] {
            let errors = found(&json!({"url": url}));
            assert!(
                errors.len() == 1 && errors[0].starts_with("at.url: ") && errors[0].ends_with(end),
                "{errors:?}"
            );
        }
    }

    #[test]
    fn a_service_has_a_name_and_a_port() {
        let service = json!({"name": "1s", "path": "p", "port": 70000});
        let errors = found(&json!({"service": service}));
        let at: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        assert_eq!(
            at,
            [
                "at.service.name",
                "at.service.namespace",
                "at.service.path",
                "at.service.path",
                "at.service.port"
            ]
        );
        assert!(errors[4].ends_with("Invalid value: 70000: must be between 1 and 65535, inclusive"));
    }
}
