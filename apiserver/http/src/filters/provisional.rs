//! Filter of provisional namespaces: refuses writes through the host cluster into a namespace that only Capstan has.

use apiserver_machinery::status::ApiResult;

use crate::request::request_info::RequestInfo;
use crate::state::ApiServer;

/// Refuses a write through the host cluster into a namespace that was created on the direct endpoint during an outage, until
/// the host has the namespace, too.
///
/// # Errors
/// 404 about the namespace.
pub(crate) fn check(server: &ApiServer, info: &RequestInfo, proxied: bool) -> ApiResult<()> {
    let namespace = info.resource().map(|path| path.namespace.as_str()).unwrap_or_default();
    if !proxied || info.is_read_only() || namespace.is_empty() {
        return Ok(());
    }
    server.parts.objects.refuse_provisional(namespace)
}
