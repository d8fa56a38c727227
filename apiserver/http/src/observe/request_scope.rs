//! Request scope: facts about one request and its response, for metrics and the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::User;
use apiserver_machinery::resource::Resource;
use apiserver_trace::Span;
use http::HeaderMap;
use http_body::Body;

use crate::flow_control::Seat;
use crate::observe::Telemetry;
use crate::observe::audit::{Outcome, Record, Stage};
use crate::observe::metrics::{RequestSeries, SeriesKey};
use crate::observe::request_trace::{Caller, RequestTrace};
use crate::request::request_info::RequestInfo;
use crate::response::body::{BodyObserver, ResponseBody};
use crate::response::{Deprecated, HttpResponse, StatusInfo};

/// Scope of a request, from its head to the head of its response.
#[derive(Debug)]
pub(crate) struct RequestScope {
    telemetry: Arc<Telemetry>,
    audit_id: String,
    series: Arc<RequestSeries>,
    record: Option<Record>,
    is_known: bool,
    is_admitted: bool,
    outcome: Outcome,
    panicked: bool,
    is_rejected_early: bool,
    waited: Duration,
    /// Body of a write: its verb in upstream's words, and its size in bytes.
    record_body: Option<(&'static str, usize)>,
    seat: Option<Seat>,
    trace: RequestTrace,
    warnings: Vec<String>,
}

impl RequestScope {
    pub(crate) fn open(
        telemetry: &Arc<Telemetry>,
        audit_id: String,
        key: &SeriesKey,
        record: Option<Record>,
    ) -> Self {
        Self {
            telemetry: Arc::clone(telemetry),
            audit_id,
            series: telemetry.metrics.series(key),
            record,
            is_known: false,
            is_admitted: false,
            outcome: Outcome::default(),
            panicked: false,
            is_rejected_early: false,
            waited: Duration::ZERO,
            record_body: None,
            seat: None,
            trace: RequestTrace::default(),
            warnings: Vec::new(),
        }
    }

    /// Traces the request, if traces are on.
    pub(crate) fn traced(self, trace: RequestTrace) -> Self {
        Self { trace, ..self }
    }

    /// Opens the span of the request, once its caller is known or refused.
    pub(crate) fn open_span(&mut self, headers: &HeaderMap, caller: Caller) {
        self.trace.open(headers, &self.series.key().labels, caller);
    }

    /// Returns the span of the request.
    pub(crate) const fn span(&self) -> &Span {
        self.trace.span()
    }

    /// Returns the audit id of the request.
    pub(crate) fn audit_id(&self) -> &str {
        &self.audit_id
    }

    pub(crate) fn series(&self) -> &RequestSeries {
        &self.series
    }

    /// Returns true once the request is authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Notes the authenticated user. As in upstream, the audit log has no event before that.
    pub(crate) fn set_user(&mut self, user: &Arc<User>, info: &RequestInfo) {
        self.is_known = !user.is_anonymous();
        if let (Some(record), Some(log)) = (&mut self.record, &self.telemetry.audit) {
            record.set_user(user, info, &log.policy());
        }
        self.write(Stage::RequestReceived, None);
    }

    /// Notes the user that the request acts as, and the constrained mode that allowed it.
    pub(crate) fn set_impersonated(&mut self, user: &Arc<User>, constraint: Option<String>) {
        if let Some(record) = &mut self.record {
            record.set_impersonated(user, constraint);
        }
    }

    /// Notes the decision of authorization, `allow` or `forbid`, and its reason. There is no decision if the authorizers
    /// failed.
    pub(crate) fn decided(&mut self, decision: Option<&'static str>, reason: &str) {
        if let Some(record) = &mut self.record {
            record.set_decision(decision, reason);
        }
    }

    /// Returns true if the request has an audit event.
    pub(crate) fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// Notes annotations of the audit event.
    pub(crate) fn annotate(&mut self, annotations: BTreeMap<String, String>) {
        if let Some(record) = &mut self.record {
            record.annotate(annotations);
        }
    }

    /// Notes a warning of the filters for the response.
    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Returns the warnings, each once.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Notes that the request has passed all filters. As in upstream, no request is counted before that.
    pub(crate) fn admitted(&mut self) {
        self.is_admitted = true;
    }

    /// Notes the time in the queue.
    pub(crate) fn waited(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// Keeps a seat until the response is sent.
    pub(crate) fn keep(&mut self, seat: Option<Seat>) {
        self.seat = seat;
    }

    /// Notes that the request was refused before authentication.
    pub(crate) fn rejected_early(&mut self) {
        self.is_rejected_early = true;
    }

    /// Notes the body, which may name an object that the path does not.
    pub(crate) fn record_body(&mut self, info: &RequestInfo, content_type: &str, body: &[u8]) {
        let is_named = info.resource().is_some_and(|path| !path.name.is_empty());
        let verb = match info.verb {
            "create" => Some("create"),
            "update" if is_named => Some("update"),
            "patch" if is_named => Some("patch"),
            "delete" => Some("delete"),
            "deletecollection" => Some("delete_collection"),
            _ => None,
        };
        self.record_body = verb.map(|verb| (verb, body.len()));
        let Some(record) = &mut self.record else { return };
        if matches!(info.verb, "create" | "update") {
            record.set_body(body);
        }
        if !info.is_read_only() {
            record.set_request(info, content_type, body);
        }
    }

    /// Returns true if the audit log records bodies of the request.
    pub(crate) fn records_bodies(&self) -> bool {
        self.record.as_ref().is_some_and(Record::records_bodies)
    }

    /// Notes the kind of the bodies.
    pub(crate) fn set_resource(&mut self, resource: Option<Arc<Resource>>) {
        if let Some(record) = &mut self.record {
            record.set_resource(resource);
        }
    }

    /// Notes the body of the response, before it is compressed.
    pub(crate) fn record_response(&mut self, answer: &mut HttpResponse) {
        if let Some(record) = &mut self.record {
            record.set_response(answer);
        }
    }

    pub(crate) fn panicked(&mut self) {
        self.panicked = true;
    }

    /// Ends the scope with the response.
    pub(crate) fn finish(mut self, mut answer: HttpResponse, took: Duration) -> HttpResponse {
        self.seat = None;
        self.trace.end(answer.status());
        let code = answer.status().as_u16();
        self.outcome = Outcome { code, status: answer.extensions_mut().remove::<StatusInfo>() };
        if answer.extensions().get::<Deprecated>().is_some() {
            self.series.deprecated();
            if let Some(record) = &mut self.record {
                record.set_deprecated();
            }
        }
        if code == 504 {
            self.series.terminated(code);
        }
        let size = answer.body().size_hint().exact();
        let key = self.series.key();
        tracing::debug!(verb = key.labels.verb, resource = key.labels.resource, code, "request");
        if size.is_none() && key.is_watch() {
            self.write(Stage::ResponseStarted, Some(&self.outcome));
            self.series.watch_opened();
            let observer = WatchObserver { scope: self, opened: Instant::now(), opening: took };
            return answer.map(|body| body.observed(observer));
        }
        self.measure(took, size);
        if let ResponseBody::Chunked(chunked) = answer.body_mut()
            && self.is_counted()
        {
            let series = Arc::clone(&self.series);
            chunked.on_end(move |sent| series.sized(sent));
        }
        if self.panicked {
            self.write(Stage::Panic, Some(&self.outcome));
            return answer;
        }
        // One stage, as in upstream, because nothing was executed.
        if self.is_rejected_early {
            self.write(Stage::ResponseStarted, Some(&self.outcome));
            return answer;
        }
        if self.series.key().is_watch() {
            self.write(Stage::ResponseStarted, Some(&self.outcome));
        }
        self.write(Stage::ResponseComplete, Some(&self.outcome));
        answer
    }

    fn is_counted(&self) -> bool {
        self.is_admitted && self.series.key().is_counted()
    }

    fn measure(&self, took: Duration, size: Option<u64>) {
        let code = self.outcome.code;
        if !self.is_counted() {
            return;
        }
        self.series.answered(code, took, self.waited, size);
        // The body was not read if its form is unknown, or if the response's is.
        if let Some((verb, size)) = self.record_body.filter(|_| !matches!(code, 406 | 415)) {
            self.series.body_read(verb, size);
        }
    }

    fn write(&self, stage: Stage, outcome: Option<&Outcome>) {
        let (Some(record), Some(log)) = (&self.record, &self.telemetry.audit) else { return };
        if !log.takes(stage) || !record.is_written(stage, outcome) {
            return;
        }
        let lost = log.write(record.line(stage, outcome));
        self.telemetry.metrics.audited(lost.log, lost.webhook);
    }
}

/// Observer of a watch: each frame of its body is an event.
#[derive(Debug)]
struct WatchObserver {
    scope: RequestScope,
    opened: Instant,
    /// Time from the request to the head of the response.
    opening: Duration,
}

impl BodyObserver for WatchObserver {
    fn frame(&mut self, size: usize) {
        self.scope.series.watch_event(size);
    }
}

impl Drop for WatchObserver {
    fn drop(&mut self) {
        let scope = &self.scope;
        scope.series.watch_closed();
        scope.measure(self.opening + self.opened.elapsed(), None);
        scope.write(Stage::ResponseComplete, Some(&scope.outcome));
    }
}
