//! Availability filter: refuses at once requests that cannot be served now. It never answers 404, on which a host's
//! garbage collector would delete objects.

use std::future::Future;

use apiserver_machinery::status::{ApiError, ApiResult};
use http::Version;

use crate::request::connection::Connection;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, Subject};
use crate::request::routes;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Refuses new requests at the end of a shutdown. Health checks and the server's own controllers are still served.
pub(crate) fn refusal_at_the_end(
    server: &ApiServer,
    info: &RequestInfo,
    connection: &Connection,
    version: Version,
) -> Option<HttpResponse> {
    let is_exempt = connection.internal.is_some() || routes::health(&info.path).is_some();
    (server.lifecycle.is_refusing() && !is_exempt).then(|| response::shutting_down(version))
}

/// Refuses a request that needs storage, if storage does not answer or was not read yet.
///
/// # Errors
/// 503 with the time after which to try again.
pub(crate) fn check(server: &ApiServer, info: &RequestInfo, query: &Query, proxied: bool) -> ApiResult<()> {
    let Subject::Resource(path) = &info.subject else {
        let is_early = proxied && is_group_version(&info.path) && !server.parts.objects.is_ready();
        return if is_early { Err(ApiError::starting()) } else { Ok(()) };
    };
    // Reviews need no storage, and an unknown kind is known without it.
    if server.parts.objects.kind(&path.group, &path.version, &path.resource).is_none() {
        return Ok(());
    }
    if !server.parts.objects.is_ready() {
        return Err(ApiError::starting());
    }
    if server.storage.is_given_up() && needs_storage(info, query) {
        return Err(silent());
    }
    Ok(())
}

/// Refuses a request whose client certificate may be revoked, because the revocations have not been read yet. Health and
/// the documents of the API are served: they contain no objects, and storage may be down for long. A host does not get
/// the document by which it decides that its APIService is Available, because its requests for objects are refused.
///
/// # Errors
/// 503 with the time after which to try again.
pub(crate) fn check_certificate(connection: &Connection, info: &RequestInfo) -> ApiResult<()> {
    let may_be_revoked = connection.peer.identity().is_some_and(|peer| peer.may_be_revoked);
    let is_early = connection.peer.is_front_proxy() && is_group_version(&info.path);
    if may_be_revoked && (is_early || !is_document(info)) {
        return Err(ApiError::undecided(
            "it is not known yet whether the client certificate is revoked; try again",
        ));
    }
    Ok(())
}

/// Returns true for a read of health, the version, discovery or the schemas.
fn is_document(info: &RequestInfo) -> bool {
    let first = info.path.trim_start_matches('/').split('/').next();
    let is_of_api = matches!(first, Some("api" | "apis" | "openapi" | "version"));
    info.resource().is_none() && info.is_read_only() && (is_of_api || routes::health(&info.path).is_some())
}

/// Returns true for `/apis/GROUP/VERSION`, by which a host decides whether its APIService is Available. It must not say
/// so before the objects can be served.
fn is_group_version(path: &str) -> bool {
    let parts = path.trim_end_matches('/').strip_prefix("/apis/").map(|rest| rest.split('/').count());
    parts == Some(2)
}

/// Returns true if a request needs storage. A read that allows an old state is served from the cache in any case.
pub(crate) fn needs_storage(info: &RequestInfo, query: &Query) -> bool {
    !info.is_read_only() || query.text("resourceVersion").is_empty()
}

/// Runs a read that needs storage until storage is given up: a read in flight is then refused like a new one. A write
/// goes on, because it may have happened.
///
/// # Errors
/// 503 once storage is given up.
pub(crate) async fn while_storage_answers<T>(
    server: &ApiServer,
    needs_storage: bool,
    reading: impl Future<Output = ApiResult<T>>,
) -> ApiResult<T> {
    if !needs_storage {
        return reading.await;
    }
    tokio::select! {
        biased;
        read = reading => read,
        () = server.storage.given_up() => Err(silent()),
    }
}

fn silent() -> ApiError {
    ApiError::unavailable("storage does not answer; nothing was changed")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apiserver_access::{Peer, PeerIdentity};
    use http::Method;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn only_a_group_version_path_is_an_availability_check() {
        for path in ["/apis/cluster.x-k8s.io/v1beta2", "/apis/cluster.x-k8s.io/v1beta2/"] {
            assert!(is_group_version(path), "{path}");
        }
        for path in ["/apis", "/apis/", "/apis/cluster.x-k8s.io", "/api/v1", "/apis/g/v/machines", "/livez"] {
            assert!(!is_group_version(path), "{path}");
        }
    }

    #[test]
    fn before_the_revocations_are_read_certificates_give_health_and_documents_alone() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "alice");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let connection = |may_be_revoked| {
            let mut identity = PeerIdentity::read(certificate.der()).unwrap();
            identity.may_be_revoked = may_be_revoked;
            Connection { peer: Arc::new(Peer::Known(Box::new(identity))), ..Connection::default() }
        };
        for (method, path, expected) in [
            (Method::GET, "/readyz", true),
            (Method::GET, "/livez/etcd", true),
            (Method::GET, "/version", true),
            (Method::GET, "/apis/cluster.x-k8s.io/v1beta2", true),
            (Method::GET, "/openapi/v3", true),
            (Method::GET, "/api/v1/secrets", false),
            (Method::GET, "/metrics", false),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false),
            (Method::POST, "/capstan/v1/backup", false),
        ] {
            let info = RequestInfo::resolve(&method, path, false, None);
            let refusal = check_certificate(&connection(true), &info).err();
            assert_eq!(refusal.map(|error| error.code), (!expected).then_some(503), "{path}");
            assert!(check_certificate(&connection(false), &info).is_ok(), "{path}");
            assert!(check_certificate(&Connection::default(), &info).is_ok(), "{path}");
        }
        let mut identity = PeerIdentity::read(certificate.der()).unwrap();
        (identity.may_be_revoked, identity.is_front_proxy) = (true, true);
        let host = Connection { peer: Arc::new(Peer::Known(Box::new(identity))), ..Connection::default() };
        for (path, expected) in [("/apis/cluster.x-k8s.io/v1beta2", false), ("/openapi/v3", true)] {
            let info = RequestInfo::resolve(&Method::GET, path, false, None);
            assert_eq!(check_certificate(&host, &info).is_ok(), expected, "{path}");
        }
    }
}
