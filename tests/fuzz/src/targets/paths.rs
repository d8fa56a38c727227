//! Target for paths, which name the resource of a request.

use apiserver_http::RequestInfo;
use http::{Method, Uri};

use crate::finding::{Verdict, demand};

/// Uses the input as the path of a URL; an invalid path is refused before it is resolved.
pub(super) fn check_path(input: &[u8]) -> Verdict {
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
    // The request must act on the resource that is authorized: no part of the path may contain another.
    let parts = [&path.group, &path.version, &path.namespace, &path.resource, &path.name, &path.subresource];
    let whole = parts.iter().all(|part| !part.contains('/'));
    demand(whole && !path.resource.is_empty(), || format!("{uri} is resolved to {path:?}"))?;
    demand(info.path.contains(path.resource.as_str()), || format!("{path:?} is not in {}", info.path))
}
