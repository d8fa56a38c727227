//! Parsed request: path, query, body, connection, and the call of a handler that results.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod json;
pub(crate) mod query;
pub(crate) mod request_info;
pub(crate) mod routes;
pub(crate) mod yaml;

use std::net::IpAddr;
use std::sync::Arc;

use apiserver_access::{PeerCertificate, ShownToken, User};
use apiserver_machinery::action::Caller;
use apiserver_machinery::admission::Permissions;
use apiserver_machinery::admission_control::RequestAdmission;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::WriteOptions;
use apiserver_schema::field_errors::FieldError;
use apiserver_schema::go_text::is_printable;
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use hyper::upgrade::OnUpgrade;

use crate::request::query::Query;
use crate::request::request_info::RequestInfo;

/// Call of a handler.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) headers: HeaderMap,
    pub(crate) query: Query,
    pub(crate) info: RequestInfo,
    /// Audit id of the request; empty for a read.
    pub(crate) audit_id: String,
    pub(crate) user: Arc<User>,
    /// Set for a request through the host's front proxy.
    pub(crate) proxied: bool,
    /// Permissions of the user, if the request may write an object.
    pub(crate) permissions: Option<Arc<dyn Permissions>>,
    /// Admission of the request by configurations, if any can apply to it.
    pub(crate) admission: Option<Arc<dyn RequestAdmission>>,
    pub(crate) body: Bytes,
    /// Client certificate of the connection, for a handler whose response outlives it.
    pub(crate) certificate: Option<Arc<PeerCertificate>>,
    /// Token of a watch whose user is known by it.
    pub(crate) token: Option<ShownToken>,
    /// Address of the client.
    pub(crate) address: Option<IpAddr>,
    /// Connection, for a handler that speaks another protocol on it.
    pub(crate) upgrade: Option<OnUpgrade>,
}

impl Call {
    /// Returns the caller, as objects record it.
    pub(crate) fn caller(&self) -> Caller {
        let user = &self.user;
        Caller {
            username: user.name.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            audit_id: self.audit_id.clone(),
        }
    }

    /// Returns the options of a write, with the field manager or, without one, the client's name. `options` names the
    /// options' kind in errors.
    pub(crate) fn write_options(&self, options: &str) -> ApiResult<WriteOptions> {
        self.checked_options(options, Vec::new())
    }

    /// Returns the options of a write in which errors were found before: all errors are reported at once.
    pub(crate) fn checked_options(&self, options: &str, errors: Vec<FieldError>) -> ApiResult<WriteOptions> {
        let mut write = self.query.write_options(options, errors)?;
        write.permissions.clone_from(&self.permissions);
        write.admission.clone_from(&self.admission);
        write.timeout = self.query.timeout()?;
        if write.manager.is_empty() {
            let agent = self.headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
            write.manager = manager_of(&String::from_utf8_lossy(agent));
        }
        Ok(write)
    }

    /// Returns a header as text; empty if it is absent.
    pub(crate) fn header(&self, name: &http::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Returns the program in a user agent, without its version: at most 128 printable bytes.
fn manager_of(user_agent: &str) -> String {
    const LONGEST: usize = 128;
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for character in program.chars().filter(|character| is_printable(*character)) {
        if manager.len() + character.len_utf8() > LONGEST {
            break;
        }
        manager.push(character);
    }
    if manager.is_empty() { "unknown".to_owned() } else { manager }
}

#[cfg(test)]
mod tests {
    use super::manager_of;

    #[test]
    fn the_default_field_manager_is_the_program_in_the_user_agent() {
        assert_eq!(manager_of("kubectl/v1.36.3 (linux/amd64) kubernetes/abc"), "kubectl");
        assert_eq!(manager_of("curl"), "curl");
        assert_eq!(manager_of(""), "unknown");
        assert_eq!(manager_of("/1.0"), "unknown");
        assert_eq!(manager_of("a\tb\u{200b}\u{a0}c d"), "abc d");
        assert_eq!(manager_of(&"\u{e9}".repeat(100)).len(), 128);
    }
}
