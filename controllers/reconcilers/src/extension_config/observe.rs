//! Observation of the CA certificates of a server.

use apiserver_types::ExtensionConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_extensions::certificates;
use controllers_runtime::{ReconcileError, SecretSource, is_object_name};
use kube::ResourceExt;

/// Annotation with the Secret of the CA certificates: `<namespace>/<name>`. Upstream's.
const ANNOTATION: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";

/// Key of the certificates in the Secret.
const KEY: &str = "ca.crt";

/// Longest `caBundle`, in base64. Unit: bytes.
const LONGEST: usize = 51_200;

/// CA certificates that the annotation names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Authority {
    /// There is no annotation. The spec has the certificates, or those of the system apply.
    NotNamed,
    /// Certificates of the Secret, in base64.
    Found(String),
    /// They cannot be used. The text says why, and what to do.
    Unusable(String),
}

/// Returns the Secret that the annotation of an ExtensionConfig names: namespace and name.
pub(super) fn secret(config: &ExtensionConfig) -> Option<(&str, &str)> {
    let (namespace, name) = config.annotations().get(ANNOTATION)?.split_once('/')?;
    (is_object_name(namespace) && is_object_name(name)).then_some((namespace, name))
}

/// Reads the certificates that the annotation names.
///
/// # Errors
/// The Secret cannot be read.
pub(super) async fn authority(
    secrets: &dyn SecretSource,
    config: &ExtensionConfig,
) -> Result<Authority, ReconcileError> {
    let Some(text) = config.annotations().get(ANNOTATION) else { return Ok(Authority::NotNamed) };
    let Some((namespace, name)) = secret(config) else {
        return Ok(Authority::Unusable(format!(
            "annotation {ANNOTATION} is {text:?}, and not <namespace>/<name> of a Secret. Correct it"
        )));
    };
    let unusable = |why: &str| {
        Authority::Unusable(format!(
            "Secret {namespace}/{name}, which annotation {ANNOTATION} names, cannot be used: {why}. \
             Correct the Secret or the annotation"
        ))
    };
    let Some(found) = secrets.secret(namespace, name).await? else {
        return Ok(unusable("it does not exist"));
    };
    let Some(pem) = found.data.as_ref().and_then(|data| data.get(KEY)) else {
        return Ok(unusable(&format!("it has no key {KEY}")));
    };
    // Readers of the ExtensionConfig see the text, so nothing but certificates may get there.
    if let Err(why) = certificates(&pem.0) {
        return Ok(unusable(&format!("{KEY}: {why}")));
    }
    let bundle = STANDARD.encode(&pem.0);
    if bundle.len() > LONGEST {
        return Ok(unusable(&format!("{KEY} has over {LONGEST} bytes in base64")));
    }
    Ok(Authority::Found(bundle))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api_in_memory::FakeApi;

    fn config(annotation: Option<&str>) -> ExtensionConfig {
        let mut config = ExtensionConfig::new("ext", Default::default());
        if let Some(annotation) = annotation {
            config.annotations_mut().insert(ANNOTATION.to_owned(), annotation.to_owned());
        }
        config
    }

    async fn of(api: &FakeApi, annotation: Option<&str>) -> Authority {
        let context = api.context("extensionconfig-controller");
        authority(context.secrets.as_ref(), &config(annotation)).await.unwrap()
    }

    fn why(authority: Authority) -> String {
        match authority {
            Authority::Unusable(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn only_certificates_of_an_existing_secret_are_used() {
        let api = FakeApi::default();
        assert_eq!(of(&api, None).await, Authority::NotNamed);
        assert!(why(of(&api, Some("ca")).await).contains("not <namespace>/<name>"));
        assert!(why(of(&api, Some("ns/../ca")).await).contains("not <namespace>/<name>"));
        assert!(why(of(&api, Some("ns/ca")).await).contains("Secret ns/ca"));
        let path = "/api/v1/namespaces/ns/secrets/ca";
        let put = |data: serde_json::Value| api.put(path, json!({"data": data}));
        put(json!({}));
        assert!(why(of(&api, Some("ns/ca")).await).contains("no key ca.crt"));
        put(json!({"ca.crt": STANDARD.encode("password")}));
        let refused = why(of(&api, Some("ns/ca")).await);
        assert!(refused.contains("ca.crt: it holds no certificate"), "{refused}");
        assert!(!refused.contains("password"), "{refused}");
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        put(json!({"ca.crt": STANDARD.encode(pem)}));
        assert_eq!(of(&api, Some("ns/ca")).await, Authority::Found(STANDARD.encode(pem)));
        put(json!({"ca.crt": STANDARD.encode(pem.repeat(1000))}));
        assert!(why(of(&api, Some("ns/ca")).await).contains("over 51200 bytes"));
    }
}
