//! Mapping of HTTP responses, and of calls without a response, to [`CloudError`]. No other module does this.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use controllers_infrastructure::{CloudError, ErrorClass, without_present_time};
use http::{HeaderMap, Response, StatusCode, header};

use crate::error_text::{Words, words};
use crate::transport::SendError;

/// Returns the error for a response that is not a success.
pub(crate) fn refused(operation: &str, answer: &Response<Bytes>) -> CloudError {
    let status = answer.status();
    let words = words(answer.body(), &status.to_string());
    let retry_after = retry_after(answer.headers());
    let message = match redirect(answer) {
        Some(place) => format!("it redirects to {place:?}, and Capstan follows no redirects"),
        None => sentence(status, &words),
    };
    CloudError {
        class: match class(status, &words, retry_after.is_some_and(|wait| !wait.is_zero())) {
            // The 404 page of a proxy says nothing about a resource. Only Glance itself answers in HTML.
            ErrorClass::NotFound if !words.json && !operation.contains(" /images/") => ErrorClass::Broken,
            class => class,
        },
        operation: operation.to_owned(),
        step: None,
        service: None,
        message,
        request_id: request_id(answer.headers()),
        status: Some(status.as_u16()),
        retry_after,
    }
}

/// Returns the error for a success whose body does not conform to the API.
pub(crate) fn unreadable(operation: &str, answer: &Response<Bytes>, why: &str) -> CloudError {
    CloudError {
        request_id: request_id(answer.headers()),
        status: Some(answer.status().as_u16()),
        ..CloudError::new(ErrorClass::Broken, operation, format!("the answer cannot be read: {why}"))
    }
}

/// Returns the error for a call without a response. Only a call that changes something has an unknown
/// outcome; a read without a response has no effect.
pub(crate) fn unanswered(operation: &str, read: bool, error: &SendError) -> CloudError {
    let source = match error {
        SendError::Http(source) => source,
        SendError::NotAllowed(why) | SendError::Invalid(why) => {
            return CloudError::new(ErrorClass::Broken, operation, format!("cannot be sent: {why}"));
        }
        SendError::TooLate => {
            let why = "not sent: the controller lease was read more than half a second before the request could be written; \
                       look for slow connections, or for a machine with too much work";
            return CloudError::new(ErrorClass::Unreachable, operation, why);
        }
    };
    let class = if source.is_connect() || source.is_builder() || error.is_unsent() || read {
        ErrorClass::Unreachable
    } else {
        ErrorClass::Unknown
    };
    let message = match (source.is_connect(), source.is_timeout()) {
        (true, true) => "no connection in time".to_owned(),
        (true, false) => format!("no connection: {}", root_cause(source)),
        (false, true) => "no response in time".to_owned(),
        (false, false) => format!("no answer: {}", root_cause(source)),
    };
    CloudError::new(class, operation, message)
}

/// Returns the cloud's request id of a call.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    // Nova sends both, older releases only the second.
    ["x-openstack-request-id", "x-compute-request-id"]
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok())
        .map(str::to_owned)
}

/// Returns the innermost source of an error: outer layers only say that a call failed. It has no present time: a condition
/// with it would be another one at each attempt.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    without_present_time(cause.to_string())
}

/// Types of Neutron's errors for a network, or a cloud, without free capacity.
const EXHAUSTED: [&str; 3] =
    ["IpAddressGenerationFailure", "ExternalIpAddressExhausted", "NoNetworkAvailable"];

/// Returns the class of a refusal. `told_when` is set if the service said when to try again.
fn class(status: StatusCode, words: &Words, told_when: bool) -> ErrorClass {
    let said = words.message.to_ascii_lowercase();
    let quota = said.contains("quota") || said.contains("maximum number of ports");
    match status.as_u16() {
        // Neutron has no address, or no network, left.
        _ if words.kind.as_deref().is_some_and(|kind| EXHAUSTED.contains(&kind)) => ErrorClass::NoValidHost,
        403 | 413 | 409 if quota && words.kind.as_deref().is_none_or(|kind| kind == "OverQuota") => {
            ErrorClass::Quota
        }
        // Octavia has the lock of the project for another change.
        503 if said.contains("project busy") => ErrorClass::Conflict,
        _ if said.contains("no valid host") => ErrorClass::NoValidHost,
        // Cinder is still at work on the volume.
        400 if said.contains("volume status must be") => ErrorClass::Conflict,
        403 if said.contains("only volume-backed servers") => ErrorClass::Invalid,
        400 | 422 => ErrorClass::Invalid,
        401 => ErrorClass::Unauthorized,
        // Nothing was found, but because a router has no gateway yet.
        404 if words.kind.as_deref() == Some("ExternalGatewayForFloatingIPNotFound") => ErrorClass::Conflict,
        403 => ErrorClass::Forbidden,
        404 | 410 => ErrorClass::NotFound,
        // 412: a Neutron resource has another revision than the request requires.
        409 | 412 => ErrorClass::Conflict,
        429 => ErrorClass::Throttled,
        413 | 503 if told_when => ErrorClass::Throttled,
        500.. => ErrorClass::Broken,
        400.. if words.json => ErrorClass::Invalid,
        _ => ErrorClass::Broken,
    }
}

/// Returns the message without the status code, with which the page of a proxy begins.
fn sentence(status: StatusCode, words: &Words) -> String {
    let rest = words.message.strip_prefix(status.as_str()).map(str::trim_start);
    rest.filter(|rest| !rest.is_empty()).unwrap_or(&words.message).to_owned()
}

/// Returns the address that a response redirects to.
fn redirect(answer: &Response<Bytes>) -> Option<&str> {
    let place = answer.headers().get(header::LOCATION).filter(|_| answer.status().is_redirection());
    place?.to_str().ok()
}

/// Parses `Retry-After` in seconds: no OpenStack service sends the date form.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>, body: &'static str) -> Response<Bytes> {
        let mut builder = Response::builder().status(status).header("x-openstack-request-id", "req-1");
        if let Some(seconds) = retry_after {
            builder = builder.header("Retry-After", seconds);
        }
        builder.body(Bytes::from_static(body.as_bytes())).unwrap()
    }

    const HTML: &str = "<html><body><h1>Bad Gateway</h1></body></html>";

    /// Responses of the services: status, Retry-After, body and class.
    const RESPONSES: [(u16, Option<&str>, &str, ErrorClass); 28] = [
        (403, None, r#"{"forbidden": {"message": "Quota exceeded for cores"}}"#, ErrorClass::Quota),
        (403, None, r#"{"forbidden": {"message": "Policy doesn't allow"}}"#, ErrorClass::Forbidden),
        (
            409,
            None,
            r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded"}}"#,
            ErrorClass::Quota,
        ),
        (
            409,
            None,
            r#"{"NeutronError": {"type": "NetworkInUse", "message": "in use"}}"#,
            ErrorClass::Conflict,
        ),
        (413, Some("0"), r#"{"overLimit": {"message": "exceeds allowed volumes quota"}}"#, ErrorClass::Quota),
        (413, Some("3"), r#"{"overLimit": {"message": "slow down"}}"#, ErrorClass::Throttled),
        (
            413,
            Some("0"),
            r#"{"overLimit": {"message": "Requested volume size 9000 is larger than maximum allowed limit 1000."}}"#,
            ErrorClass::Invalid,
        ),
        (
            409,
            None,
            r#"{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available"}}"#,
            ErrorClass::NoValidHost,
        ),
        (
            400,
            None,
            r#"{"NeutronError": {"type": "ExternalIpAddressExhausted", "message": "Unable to find any IP address"}}"#,
            ErrorClass::NoValidHost,
        ),
        (
            400,
            None,
            r#"{"badRequest": {"message": "Invalid volume: Volume status must be available or error or error_restoring"}}"#,
            ErrorClass::Conflict,
        ),
        (
            403,
            None,
            r#"{"forbidden": {"message": "Only volume-backed servers are allowed for flavors with zero disk."}}"#,
            ErrorClass::Invalid,
        ),
        (429, None, "", ErrorClass::Throttled),
        (503, Some("2"), "", ErrorClass::Throttled),
        (503, None, HTML, ErrorClass::Broken),
        (
            503,
            None,
            r#"{"faultcode": "Server", "faultstring": "Project busy.  Unable to lock the project.  Please try again."}"#,
            ErrorClass::Conflict,
        ),
        (
            403,
            None,
            r#"{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer"}"#,
            ErrorClass::Quota,
        ),
        (
            409,
            None,
            r#"{"faultcode": "Client", "faultstring": "Load Balancer x is immutable and cannot be updated."}"#,
            ErrorClass::Conflict,
        ),
        (500, None, r#"{"computeFault": {"message": "bug"}}"#, ErrorClass::Broken),
        (400, None, r#"{"badRequest": {"message": "No valid host was found."}}"#, ErrorClass::NoValidHost),
        (400, None, r#"{"badRequest": {"message": "bad"}}"#, ErrorClass::Invalid),
        (422, None, r#"{"error": {"message": "bad"}}"#, ErrorClass::Invalid),
        (401, None, r#"{"error": {"message": "who"}}"#, ErrorClass::Unauthorized),
        (404, None, HTML, ErrorClass::Broken),
        (404, None, r#"{"itemNotFound": {"message": "no server"}}"#, ErrorClass::NotFound),
        (
            404,
            None,
            r#"{"NeutronError": {"type": "ExternalGatewayForFloatingIPNotFound", "message": "not reachable"}}"#,
            ErrorClass::Conflict,
        ),
        (
            412,
            None,
            r#"{"NeutronError": {"type": "RevisionNumberConstraintFailed", "message": "Constrained to 1"}}"#,
            ErrorClass::Conflict,
        ),
        (405, None, HTML, ErrorClass::Broken),
        (302, None, HTML, ErrorClass::Broken),
    ];

    #[test]
    fn every_error_response_has_a_class() {
        for (status, wait, body, class) in RESPONSES {
            let error = refused("POST /x", &answer(status, wait, body));
            assert_eq!(error.class, class, "{status} {body}");
            assert_eq!((error.status, error.request_id.as_deref()), (Some(status), Some("req-1")));
        }
    }

    #[test]
    fn r2_12_a_page_404_means_absent_for_glance_only() {
        let page = answer(404, None, "<html><body>No image found with ID 1</body></html>");
        assert_eq!(refused("GET /images/1", &page).class, ErrorClass::NotFound);
        assert_eq!(refused("DELETE /servers/1", &page).class, ErrorClass::Broken);
    }

    #[test]
    fn an_error_about_a_certificate_is_the_same_at_each_attempt() {
        use tokio_rustls::rustls::pki_types::UnixTime;
        use tokio_rustls::rustls::{CertificateError, Error};

        let at = |seconds: u64| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let text =
            |error: CertificateError| root_cause(&std::io::Error::other(Error::InvalidCertificate(error)));
        let expired = |time| text(CertificateError::ExpiredContext { time: at(time), not_after: at(86_400) });
        let early =
            |time| text(CertificateError::NotValidYetContext { time: at(time), not_before: at(86_400) });
        let expected = "invalid peer certificate: certificate expired: not valid after 1970-01-02T00:00:00Z";
        assert_eq!((expired(90_000), expired(100_000)), (expected.to_owned(), expected.to_owned()));
        assert!(early(10).ends_with("certificate not valid yet: not valid before 1970-01-02T00:00:00Z"));
        assert_eq!(early(10), early(20));
        assert_eq!(root_cause(&std::io::Error::other("verification time")), "verification time");
    }

    #[test]
    fn an_html_error_page_becomes_a_short_message() {
        let html = "<html><body><h1>Bad Gateway</h1><hr>nginx</body></html>";
        let error = refused("GET /servers", &answer(502, Some("7"), html));
        assert_eq!(error.to_string(), "GET /servers: 502: Bad Gateway nginx (request req-1)");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }
}
