//! Trace of a request: its span begins at its arrival, and is opened when its user is known.

use std::time::SystemTime;

use apiserver_trace::{Kind, Parent, Span};
use http::{HeaderMap, StatusCode};

use crate::observe::metrics::RequestLabels;

/// Longest audit id in a span. A caller may send a longer one. Unit: bytes.
const LONGEST_ID: usize = 64;

/// Trace of one request. While traces are off, it does nothing.
#[derive(Debug, Default)]
pub(crate) struct RequestTrace {
    arrived: Option<SystemTime>,
    audit_id: String,
    span: Span,
}

impl RequestTrace {
    pub(crate) fn begin(audit_id: &str) -> Self {
        if !apiserver_trace::is_on() {
            return Self::default();
        }
        let audit_id = if audit_id.len() <= LONGEST_ID { audit_id.to_owned() } else { String::new() };
        Self { arrived: Some(SystemTime::now()), audit_id, span: Span::NONE }
    }

    /// Opens the span. The trace context of the headers counts for an authenticated caller only: everybody else could have
    /// all requests recorded. Requests of the server's own controllers begin no trace.
    pub(crate) fn open(&mut self, headers: &HeaderMap, labels: &RequestLabels, caller: Caller) {
        let Some(arrived) = self.arrived else { return };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let parent = match caller {
            Caller::Unknown => Parent::NONE,
            Caller::Known | Caller::Internal => Parent::read(header("traceparent"), header("tracestate")),
        };
        if caller == Caller::Internal && parent.is_none() {
            return;
        }
        let RequestLabels { verb, resource, subresource, .. } = labels;
        let target =
            if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
        self.span =
            Span::root(format!("{verb} {target}").trim_end().to_owned(), Kind::Server, arrived, &parent);
        if self.span.is_recorded() {
            self.span.set("capstan.verb", *verb);
            self.span.set("capstan.group", labels.group.clone());
            self.span.set("capstan.resource", target);
            self.span.set("capstan.audit_id", std::mem::take(&mut self.audit_id));
            self.span.step("authentication", arrived);
        }
    }

    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Ends the span with the code of the response.
    pub(crate) fn end(&mut self, code: StatusCode) {
        let span = std::mem::take(&mut self.span);
        span.set("http.response.status_code", i64::from(code.as_u16()));
        if code.is_server_error() {
            span.fail("the response is a server error");
        }
    }
}

/// Caller of a request, as far as its trace context is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A caller that is not authenticated.
    Unknown,
    /// An authenticated user.
    Known,
    /// A controller of this process.
    Internal,
}
