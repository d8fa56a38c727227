//! Front proxy of the host cluster: its CA and its headers. The same object names the CAs of the host's users.

use std::collections::BTreeMap;

use apiserver_access::RequestHeaders;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};

/// Namespace of the ConfigMap.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Name of the ConfigMap.
pub(crate) const NAME: &str = "extension-apiserver-authentication";

/// CA of the front proxy, and the headers in which it names users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxy {
    /// CA certificate in PEM.
    pub ca: String,
    /// CA certificates of the host's users in PEM. Empty if the host names none.
    pub client_ca: String,
    /// Header names and allowed common names.
    pub headers: RequestHeaders,
}

/// Error of the front proxy's ConfigMap.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    /// This server's user may not read the ConfigMap.
    #[error(
        "configmap {NAMESPACE}/{NAME} of the host cannot be read: bind role extension-apiserver-authentication-reader to this server's user (`capstan host manifests` does)"
    )]
    Forbidden(#[source] kube::Error),
    /// The ConfigMap cannot be read for another reason.
    #[error("configmap {NAMESPACE}/{NAME} of the host cannot be read")]
    Unreadable(#[source] kube::Error),
    /// The ConfigMap cannot be watched now.
    #[error("configmap {NAMESPACE}/{NAME} of the host cannot be watched")]
    Unwatched(#[source] Box<watcher::Error>),
    /// The ConfigMap lacks a field, or a field is invalid.
    #[error("configmap {NAMESPACE}/{NAME} of the host: {0}")]
    Unusable(String),
}

impl FrontProxy {
    /// Returns the front proxy of a host that was never read: no certificate is one of it.
    pub fn unknown() -> Self {
        Self { ca: String::new(), client_ca: String::new(), headers: RequestHeaders::default() }
    }
}

/// Reads the front proxy from the host.
///
/// # Errors
/// [`FrontProxyError`] says what to do.
pub async fn front_proxy(client: &kube::Client) -> Result<FrontProxy, FrontProxyError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let found = api.get(NAME).await.map_err(unreadable)?;
    read(&found.data.unwrap_or_default())
}

/// Returns the error of a read. A missing permission is one reason of several: a host that is down needs no binding.
fn unreadable(error: kube::Error) -> FrontProxyError {
    let is_refused = matches!(&error, kube::Error::Api(status) if status.code == 403);
    if is_refused { FrontProxyError::Forbidden(error) } else { FrontProxyError::Unreadable(error) }
}

/// Watches the front proxy: its current state, then every change. After an error the watch goes on.
pub fn front_proxies(client: kube::Client) -> impl Stream<Item = Result<FrontProxy, FrontProxyError>> + Send {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let changes = watcher::watch_object(api, NAME).default_backoff();
    changes.map(|change| match change {
        Ok(Some(found)) => read(&found.data.unwrap_or_default()),
        Ok(None) => Err(FrontProxyError::Unusable("it does not exist".to_owned())),
        Err(error) => Err(FrontProxyError::Unwatched(Box::new(error))),
    })
}

fn read(data: &BTreeMap<String, String>) -> Result<FrontProxy, FrontProxyError> {
    let ca = data.get("requestheader-client-ca-file").filter(|ca| !ca.is_empty());
    let ca = ca.ok_or_else(|| {
        FrontProxyError::Unusable(
            "requestheader-client-ca-file is missing: the host has no front proxy".to_owned(),
        )
    })?;
    let list = |key: &str, default: Vec<String>| match data.get(key) {
        None => Ok(default),
        Some(text) => serde_json::from_str::<Vec<String>>(text)
            .map_err(|error| FrontProxyError::Unusable(format!("{key} is not a list of strings: {error}"))),
    };
    let usual = RequestHeaders::default();
    Ok(FrontProxy {
        ca: ca.clone(),
        client_ca: data.get("client-ca-file").cloned().unwrap_or_default(),
        headers: RequestHeaders {
            allowed_names: list("requestheader-allowed-names", usual.allowed_names)?,
            username: list("requestheader-username-headers", usual.username)?,
            uid: list("requestheader-uid-headers", usual.uid)?,
            group: list("requestheader-group-headers", usual.group)?,
            extra_prefix: list("requestheader-extra-headers-prefix", usual.extra_prefix)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_a_refusal_is_a_missing_binding() {
        for (code, expected) in [(403, true), (401, false), (404, false)] {
            let error = kube::Error::Api(Box::new(Status::failure("no", "No").with_code(code)));
            assert_eq!(unreadable(error).to_string().contains("bind role"), expected, "{code}");
        }
        assert!(!unreadable(kube::Error::TlsRequired).to_string().contains("bind role"));
    }

    #[test]
    fn the_front_proxy_configuration_of_the_host_is_parsed() {
        let data = BTreeMap::from([
            ("requestheader-client-ca-file".to_owned(), "PEM".to_owned()),
            ("requestheader-allowed-names".to_owned(), r#"["front-proxy-client"]"#.to_owned()),
            ("requestheader-username-headers".to_owned(), r#"["X-Remote-User"]"#.to_owned()),
            ("client-ca-file".to_owned(), "PEM of users".to_owned()),
        ]);
        let found = read(&data).unwrap();
        assert_eq!(found.headers.allowed_names, ["front-proxy-client"]);
        assert_eq!(found.headers.uid, ["X-Remote-Uid"]);
        assert_eq!(found.client_ca, "PEM of users");
        assert!(read(&BTreeMap::new()).is_err());
        let bad = BTreeMap::from([
            ("requestheader-client-ca-file".to_owned(), "PEM".to_owned()),
            ("requestheader-allowed-names".to_owned(), "front".to_owned()),
        ]);
        assert!(read(&bad).unwrap_err().to_string().contains("requestheader-allowed-names"));
    }
}
