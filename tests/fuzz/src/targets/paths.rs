//! Paths: what a request is about.

use apiserver_http::RequestInfo;
use http::{Method, Uri};

use crate::finding::{Verdict, demand};

/// The input is the path of a URL; what is none is refused before anybody looks at it.
pub(super) fn judge(input: &[u8]) -> Verdict {
    let Ok(uri) = Uri::try_from(input) else { return Ok(()) };
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    for method in methods {
        let info = RequestInfo::resolve(&method, uri.path(), false, Some("name"));
        check(&info, &uri)?;
        std::hint::black_box(info.watched_name());
    }
    Ok(())
}

fn check(info: &RequestInfo, uri: &Uri) -> Verdict {
    let Some(path) = info.resource() else { return Ok(()) };
    // What a permission is asked for must be what is done: no part of the path may hold another.
    let parts = [&path.group, &path.version, &path.namespace, &path.resource, &path.name, &path.subresource];
    let whole = parts.iter().all(|part| !part.contains('/'));
    demand(whole && !path.resource.is_empty(), || format!("{uri} is resolved to {path:?}"))?;
    demand(info.path.contains(path.resource.as_str()), || format!("{path:?} is not in {}", info.path))
}
