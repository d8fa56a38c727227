//! In-process server of all kinds, with clients of different users.

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{Attributes, Authenticator, Authorizer, Decision, User, Verdict};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, Settings, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{ObjectStore, OwnNamespaces};
use async_trait::async_trait;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// `admin` has all permissions. Other users have those in their groups, as `verb resource/subresource`.
#[derive(Debug)]
struct Groups;

#[async_trait]
impl Authorizer for Groups {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let asked = format!("{} {}/{}", attributes.verb, attributes.resource, attributes.subresource);
        let may = attributes.user.name == "admin" || attributes.user.is_in(asked.trim_end_matches('/'));
        Verdict::of(if may { Decision::Allow } else { Decision::NoOpinion(String::new()) }, self.name())
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    server: Arc<ApiServer>,
    _directory: Arc<tempfile::TempDir>,
}

impl Server {
    /// Starts a server with the namespace `ns`.
    pub(crate) async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// Starts a server with these settings and the namespace `ns`.
    pub(crate) async fn start_with(settings: Settings) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        let objects = Arc::new(ObjectStore::open(
            Arc::new(apiserver_registry::registry()),
            store,
            Arc::new(Encryption::default()),
            Arc::new(OwnNamespaces),
            &Supervisor::default(),
            CancellationToken::new(),
        ));
        let server = Arc::new(ApiServer::with_settings(
            Parts {
                objects: Arc::clone(&objects),
                authenticator: Arc::new(Authenticator::default()),
                authorizer: Arc::new(Groups),
                hosted_authorizer: Arc::new(Groups),
                identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
                checks: Vec::new(),
                supervisor: Supervisor::default(),
            },
            settings,
        ));
        while !objects.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let server = Self { server, _directory: directory };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        assert_eq!(server.admin("POST", "/api/v1/namespaces", &namespace).await.0, 201);
        server
    }

    /// Returns the objects.
    #[allow(dead_code, reason = "not every test reads them itself")]
    pub(crate) fn objects(&self) -> &ObjectStore {
        self.server.objects()
    }

    /// Sends a request of the administrator.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(User::authenticated("admin", []), method, path, body).await
    }

    /// Sends a request of a user with these permissions.
    #[allow(dead_code, reason = "not every test has somebody else")]
    pub(crate) async fn with(&self, may: &[&str], method: &str, path: &str, body: &Value) -> (u16, Value) {
        let user = User::authenticated("bob", may.iter().map(|thing| (*thing).to_owned()));
        self.send(user, method, path, body).await
    }

    /// Sends a server-side apply of the administrator.
    #[allow(dead_code, reason = "not every test applies")]
    pub(crate) async fn apply(&self, path: &str, manager: &str, body: &Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager={manager}");
        self.send(User::authenticated("admin", []), "APPLY", &path, body).await
    }

    /// Deletes an object as the administrator. Returns the warnings in the response.
    #[allow(dead_code, reason = "not every test deletes")]
    pub(crate) async fn delete(&self, path: &str) -> Vec<String> {
        let answer = self.answer(User::authenticated("admin", []), "DELETE", path, &Value::Null).await;
        assert!(answer.status().is_success(), "{answer:?}");
        let texts = answer.headers().get_all("warning").iter().map(|text| text.to_str().unwrap().to_owned());
        texts.collect()
    }

    /// Sends a request of a user.
    pub(crate) async fn send(&self, user: User, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.answer(user, method, path, body).await;
        let code = answer.status().as_u16();
        let bytes = answer.into_body();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
    }

    async fn answer(&self, user: User, method: &str, path: &str, body: &Value) -> Response<bytes::Bytes> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (method, content_type) = match method {
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "PATCH" => (method, "application/merge-patch+json"),
            _ => (method, "application/json"),
        };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
        let answer = InProcess::new(Arc::clone(&self.server), user).call(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
    }
}
