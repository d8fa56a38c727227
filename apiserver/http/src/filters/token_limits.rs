//! Filter of tokens with limits: those for some requests, and those for the connections of one client certificate.

use std::sync::Arc;

use apiserver_access::User;
use apiserver_machinery::status::ApiResult;

use super::authorization;
use crate::request::connection::Connection;
use crate::request::query::Query;
use crate::request::request_info::RequestInfo;

/// Reason in the audit log.
pub(crate) const NO_RULE: &str = "no access rule of the token allows the request";

/// Returns true if the token of the user may be used on this connection. A token that is bound to a client certificate may
/// be used only by a client that has its key.
pub(super) fn is_for(connection: &Connection, user: &User) -> bool {
    let limits = user.limits.as_ref();
    let Some(bound) = limits.and_then(|limits| limits.certificate.as_ref()) else { return true };
    let shown = connection.certificate.as_ref().and_then(|certificate| certificate.thumbprint());
    if shown.as_ref() == Some(bound) {
        return true;
    }
    let has_certificate = connection.certificate.is_some();
    tracing::info!(has_certificate, "a token is refused: it is bound to another client certificate");
    false
}

/// Checks that an access rule of the user's token allows the request. It comes before authorization, which can only take
/// more away, and before impersonation: the rules are for the request that the token came with.
///
/// # Errors
/// 403 that says which rule is missing.
pub(crate) fn check(info: &RequestInfo, query: &Query, user: &Arc<User>) -> ApiResult<()> {
    let limits = user.limits.as_ref();
    let Some(rules) = limits.and_then(|limits| limits.requests.as_ref()) else { return Ok(()) };
    let method = info.method.as_str();
    if rules.allow(method, &info.canonical_path()) {
        return Ok(());
    }
    let attributes = authorization::attributes(info, query, user);
    Err(authorization::refusal(&attributes, &rules.absence(method)))
}

#[cfg(test)]
mod tests {
    use apiserver_access::{
        AccessRule, AccessRules, CertificatePools, PeerCertificate, ReloadablePools, TokenLimits,
    };
    use http::Method;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::UnixTime;

    use super::*;

    fn user(limits: TokenLimits) -> Arc<User> {
        Arc::new(User { limits: Some(Arc::new(limits)), ..User::authenticated("keystone:Default/demo", []) })
    }

    #[test]
    fn ia_52_each_request_needs_a_rule_with_its_method_and_path() {
        let rule = |method: &str, path: &str| AccessRule { method: method.to_owned(), path: path.to_owned() };
        let rules = vec![
            rule("GET", "/apis/cluster.x-k8s.io/*/namespaces/team/machines"),
            rule("POST", "/apis/*/*/namespaces/{name}/machines/*/reboot"),
        ];
        let requests = Some(AccessRules::new("container-infra", rules));
        let limited = user(TokenLimits { requests, certificate: None });
        let of_team = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
        let reboot = format!("{of_team}/m/reboot");
        for (method, path, is_watch, expected) in [
            (Method::GET, of_team, false, true),
            (Method::GET, of_team, true, true),
            (Method::DELETE, of_team, false, false),
            (Method::POST, of_team, false, false),
            (Method::GET, "/apis/cluster.x-k8s.io/v1beta2/namespaces/other/machines", false, false),
            (Method::GET, "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines/m", false, false),
            (Method::POST, reboot.as_str(), false, true),
            (Method::GET, reboot.as_str(), false, false),
            (Method::GET, "/apis", false, false),
            (Method::GET, "/openapi/v3", false, false),
            (Method::GET, "/readyz", false, false),
            (Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", false, false),
        ] {
            let info = RequestInfo::resolve(&method, path, is_watch, None);
            let query = Query::parse("");
            let found = check(&info, &query, &limited);
            assert_eq!(found.is_ok(), expected, "{method} {path}");
            if let Err(error) = found {
                assert_eq!(error.code, 403, "{method} {path}");
                let missing = format!("the service \"container-infra\", the method \"{method}\"");
                assert!(error.message.contains(&missing), "{}", error.message);
            }
            let free = Arc::new(User::authenticated("keystone:Default/demo", []));
            assert!(check(&info, &query, &free).is_ok(), "{method} {path}");
        }
    }

    #[test]
    fn ia_52_a_bound_token_needs_the_connection_of_its_certificate() {
        let pools = Arc::new(ReloadablePools::new(CertificatePools::default(), Arc::new(UnixTime::now)));
        let connection = || {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::default().self_signed(&key).unwrap();
            let certificate = PeerCertificate::new(&[certificate.der().clone()], Arc::clone(&pools));
            Connection { certificate: Some(Arc::new(certificate)), ..Connection::default() }
        };
        let (own, other) = (connection(), connection());
        let certificate = own.certificate.as_ref().unwrap().thumbprint();
        let bound = user(TokenLimits { requests: None, certificate });
        assert!(is_for(&own, &bound));
        assert!(!is_for(&other, &bound) && !is_for(&Connection::default(), &bound));
        let free = User::authenticated("keystone:Default/demo", []);
        assert!(is_for(&other, &free) && is_for(&Connection::default(), &free));
    }
}
