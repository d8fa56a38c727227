//! The query, and the form of the answer.

use http::{Method, Request, header};

use super::requests;
use crate::finding::Verdict;
use crate::server::World;

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";

/// The input is a query of a list, of a watch, of a get, of a patch and of a deletion.
pub(super) fn query(world: &World, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let asked = [
        (Method::GET, format!("{WIDGETS}?{text}")),
        (Method::GET, format!("{WIDGETS}?watch=1&timeoutSeconds=1&{text}")),
        (Method::GET, format!("{WIDGETS}/w?{text}")),
        (Method::PATCH, format!("{WIDGETS}/w?{text}&dryRun=All")),
        (Method::DELETE, format!("{WIDGETS}?{text}&dryRun=All")),
    ];
    for (method, target) in asked {
        let body = if method == Method::PATCH { "{}" } else { "" };
        let request = Request::builder().method(method).uri(target);
        let request = request.header(header::CONTENT_TYPE, "application/merge-patch+json");
        requests::ask(world, request, body.as_bytes())?;
    }
    Ok(())
}

/// The input is an `Accept`, for each sort of answer there is.
pub(super) fn accept(world: &World, input: &[u8]) -> Verdict {
    let missing = format!("{WIDGETS}/none");
    let (one, watch) = (format!("{WIDGETS}/w"), format!("{WIDGETS}?watch=1&timeoutSeconds=1"));
    for target in [WIDGETS, &one, &missing, &watch, "/apis", "/openapi/v2", "/openapi/v3", "/version"] {
        let request = Request::get(target).header(header::ACCEPT, input);
        requests::ask(world, request, b"")?;
    }
    Ok(())
}
