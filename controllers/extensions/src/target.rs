//! Address of a handler.

use std::time::Duration;

use apiserver_types::ClientConfig;
use reqwest::Url;

use crate::Hook;

/// Port of a Service whose reference names none.
const DEFAULT_PORT: i32 = 443;

/// Returns the URL of a handler: that of the server, the path of the hook, and the timeout as the server is to know it.
///
/// # Errors
/// The text says what is wrong with the address.
pub(crate) fn url(
    config: &ClientConfig,
    hook: Hook,
    handler: Option<&str>,
    timeout: Duration,
) -> Result<Url, String> {
    let mut url = base(config)?;
    let path = format!("{}{}", url.path().trim_end_matches('/'), hook.path(handler));
    url.set_path(&path);
    url.set_query(Some(&format!("timeout={}s", timeout.as_secs())));
    Ok(url)
}

/// Returns the URL of a server.
fn base(config: &ClientConfig) -> Result<Url, String> {
    let (field, text) = match (&config.service, &config.url) {
        (Some(service), _) => {
            let port = service.port.unwrap_or(DEFAULT_PORT);
            let path = service.path.as_deref().unwrap_or_default().trim_start_matches('/');
            let host = format!("{}.{}.svc", service.name, service.namespace);
            ("spec.clientConfig.service", format!("https://{host}:{port}/{path}"))
        }
        (None, Some(url)) => ("spec.clientConfig.url", url.clone()),
        (None, None) => return Err("spec.clientConfig has neither url nor service".to_owned()),
    };
    // The text of a URL that cannot be parsed may be a password.
    let url: Url = text.parse().map_err(|error| format!("{field} is no URL: {error}"))?;
    if url.scheme() != "https" {
        return Err(format!("{field} begins with {}, and not with https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("{field} has a user or a password, which is not allowed"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(config: Value) -> Result<String, String> {
        let config: ClientConfig = serde_json::from_value(config).unwrap();
        url(&config, Hook::UpdateMachine, Some("up"), Duration::from_secs(3)).map(String::from)
    }

    #[test]
    fn the_path_of_the_hook_follows_that_of_the_server() {
        let path = "hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/up?timeout=3s";
        let table = [
            (json!({"url": "https://a.example"}), "https://a.example/"),
            (json!({"url": "https://a.example:8443/base/"}), "https://a.example:8443/base/"),
            (json!({"service": {"name": "s", "namespace": "n"}}), "https://s.n.svc/"),
            (
                json!({"service": {"name": "s", "namespace": "n", "port": 8443, "path": "/base"}}),
                "https://s.n.svc:8443/base/",
            ),
            (json!({"service": {"name": "s", "namespace": "n", "path": "base"}}), "https://s.n.svc/base/"),
        ];
        for (config, server) in table {
            assert_eq!(of(config), Ok(format!("{server}{path}")));
        }
        let discovery = ClientConfig { url: Some("https://a.example".to_owned()), ..ClientConfig::default() };
        let discovery = url(&discovery, Hook::Discovery, None, Duration::from_secs(10)).unwrap();
        assert_eq!(discovery.path(), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery");
    }

    #[test]
    fn an_address_without_https_or_with_a_password_is_refused_and_not_shown() {
        for (config, expected) in [
            (json!({"url": "http://a.example"}), "begins with http,"),
            (json!({"url": "https://me:secret@a.example"}), "a user or a password"),
            (json!({"url": "secret"}), "is no URL"),
            (json!({}), "neither url nor service"),
        ] {
            let error = of(config).unwrap_err();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }
}
