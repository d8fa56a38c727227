//! Targets for the query, and for the format of the response.

use http::{Method, Request, header};

use super::requests;
use crate::finding::Verdict;
use crate::server::FuzzServer;

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";

/// Uses the input as the query of a list, a watch, a get, a patch and a deletion.
pub(super) fn query(server: &FuzzServer, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let all = [
        (Method::GET, format!("{WIDGETS}?{text}")),
        (Method::GET, format!("{WIDGETS}?watch=1&timeoutSeconds=1&{text}")),
        (Method::GET, format!("{WIDGETS}/w?{text}")),
        (Method::PATCH, format!("{WIDGETS}/w?{text}&dryRun=All")),
        (Method::DELETE, format!("{WIDGETS}?{text}&dryRun=All")),
    ];
    for (method, target) in all {
        let body = if method == Method::PATCH { "{}" } else { "" };
        let request = Request::builder().method(method).uri(target);
        let request = request.header(header::CONTENT_TYPE, "application/merge-patch+json");
        requests::send(server, request, body.as_bytes())?;
    }
    Ok(())
}

/// Uses the input as the `Accept` header, for each kind of response.
pub(super) fn accept(server: &FuzzServer, input: &[u8]) -> Verdict {
    let missing = format!("{WIDGETS}/none");
    let (one, watch) = (format!("{WIDGETS}/w"), format!("{WIDGETS}?watch=1&timeoutSeconds=1"));
    for target in [WIDGETS, &one, &missing, &watch, "/apis", "/openapi/v2", "/openapi/v3", "/version"] {
        let request = Request::get(target).header(header::ACCEPT, input);
        requests::send(server, request, b"")?;
    }
    Ok(())
}
