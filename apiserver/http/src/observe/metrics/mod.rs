//! Metrics at `/metrics`, with upstream's names and labels, so that common dashboards work.
//!
//! The series that each request needs are created once and kept, because the lock of a family and the creation of
//! labels are too slow for every request.

mod access;
mod authorizers;
mod flow_control;
mod labels;
mod objects;
mod process;
mod request_labels;
mod requests;
mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use apiserver_access::{Authenticated, Unauthenticated};
use apiserver_executor::TaskName;
use apiserver_machinery::store::ObjectStore;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::flow_control::{FlowControl, Refusal};
use crate::request::connection::Connection;
use crate::response::{self, HttpResponse};

use access::AccessMetrics;
use authorizers::AuthorizerMetrics;
use flow_control::FlowControlMetrics;
use labels::PluginLabels;
use objects::ObjectMetrics;
pub(crate) use request_labels::{RequestLabels, SeriesKey};
use requests::RequestMetrics;
pub(crate) use requests::RequestSeries;

type Count = Counter<u64, AtomicU64>;
type Counters<L> = Family<L, Count>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    access: AccessMetrics,
    authorizers: AuthorizerMetrics,
    requests: RequestMetrics,
    flow_control: FlowControlMetrics,
    objects: ObjectMetrics,
    audit_events: Count,
    audit_errors: Count,
    audit_webhook_errors: Count,
}

impl Metrics {
    /// Creates the metrics. `registry` may have others already, e.g. those of storage.
    pub(crate) fn new(mut registry: Registry) -> Self {
        let (audit_events, audit_errors) = (Count::default(), Counters::default());
        registry.register("apiserver_audit_event", "Audit events written", audit_events.clone());
        registry.register("apiserver_audit_error", "Audit events that were lost", audit_errors.clone());
        Self {
            access: AccessMetrics::new(&mut registry),
            authorizers: AuthorizerMetrics::new(&mut registry),
            requests: RequestMetrics::new(&mut registry),
            flow_control: FlowControlMetrics::new(&mut registry),
            objects: ObjectMetrics::new(&mut registry),
            audit_events,
            audit_errors: audit_errors.get_or_create_owned(&PluginLabels { plugin: "log" }),
            audit_webhook_errors: audit_errors.get_or_create_owned(&PluginLabels { plugin: "webhook" }),
            registry,
        }
    }

    /// Returns the series of requests with this key.
    pub(crate) fn series(&self, key: &SeriesKey) -> Arc<RequestSeries> {
        self.requests.series(key)
    }

    /// Counts an authentication with this result.
    pub(crate) fn authenticated(
        &self,
        connection: &Connection,
        found: &Result<Authenticated, Unauthenticated>,
        took: Duration,
    ) {
        self.access.authenticated(found.as_ref().ok().map(|found| &*found.user), took);
        let by_certificate = connection.peer.identity().filter(|peer| peer.is_client);
        if let (Ok(Authenticated { user, is_proxied: false }), Some(peer)) = (found, by_certificate)
            && user.name == peer.common_name
        {
            self.access.certificate(access::left_until(peer.not_after));
        }
    }

    /// Counts an authorization with this decision, and the authorizer that has decided.
    pub(crate) fn authorized(&self, authorizer: &str, decision: &'static str, took: Duration) {
        self.access.decided(decision, took);
        self.authorizers.decided(authorizer, decision);
    }

    pub(crate) fn handshake_failed(&self) {
        self.access.handshake_failed();
    }

    /// Counts a connection that was closed before its handshake.
    pub(crate) fn handshake_refused(&self) {
        self.access.handshake_refused();
    }

    pub(crate) fn waited(&self, level: &'static str, wait: Duration) {
        self.flow_control.waited(level, wait);
    }

    pub(crate) fn refused(&self, level: &'static str, why: Refusal) {
        self.flow_control.refused(level, why);
    }

    /// Counts an audit event, and the events that the file and the webhook have lost.
    pub(crate) fn audited(&self, lost_in_file: u64, lost_in_webhook: u64) {
        self.audit_events.inc();
        self.audit_errors.inc_by(lost_in_file);
        self.audit_webhook_errors.inc_by(lost_in_webhook);
    }

    /// Serves all metrics. `restarts` has the count of each supervised task that can be restarted.
    pub(crate) fn serve(
        &self,
        objects: &ObjectStore,
        flow_control: &FlowControl,
        restarts: &[(TaskName, u64)],
    ) -> HttpResponse {
        self.objects.collect(objects);
        self.flow_control.collect(flow_control);
        let mut encoded = String::new();
        if encode(&mut encoded, &self.registry).is_err() {
            return response::text(500, "metrics cannot be encoded\n");
        }
        let mut text = text::prometheus(&encoded);
        process::write(&mut text);
        process::write_restarts(&mut text, restarts);
        response::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text)
    }
}
