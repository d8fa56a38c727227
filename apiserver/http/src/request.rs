//! A request on its way through the chain.

use apiserver_access::User;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::verb::Caller;
use bytes::Bytes;
use http::HeaderMap;
use hyper::upgrade::OnUpgrade;

use crate::negotiation::{self, Form};
use crate::query::Query;
use crate::request_info::RequestInfo;

/// Everything a verb needs to know.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) headers: HeaderMap,
    pub(crate) query: Query,
    pub(crate) info: RequestInfo,
    pub(crate) user: User,
    /// Whether it came through a host's front proxy.
    pub(crate) proxied: bool,
    pub(crate) body: Bytes,
    /// The connection, for who wants to speak another protocol on it.
    pub(crate) upgrade: Option<OnUpgrade>,
}

impl Call {
    /// Who asks, as objects record it.
    pub(crate) fn caller(&self) -> Caller {
        Caller { username: self.user.name.clone(), groups: self.user.groups.clone() }
    }

    /// The form of an answer that is one object, or a list of them.
    ///
    /// # Errors
    /// 406 when there is none that the client takes.
    pub(crate) fn form(&self, list: bool) -> ApiResult<Form> {
        negotiation::form(&self.headers, &self.query, list)
    }

    /// A header as text; empty when absent.
    pub(crate) fn header(&self, name: &http::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
