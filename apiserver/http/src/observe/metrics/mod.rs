//! `/metrics`, with upstream's names and labels, so that common dashboards work.
//!
//! What is asked for with each request is made once and kept: a family's lock and the making of labels
//! are not for every request.

mod access;
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

use apiserver_access::{Unauthenticated, User};
use apiserver_executor::TaskName;
use apiserver_machinery::store::ObjectStore;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::flow_control::{FlowControl, Refusal};
use crate::request::connection::Connection;
use crate::response::{self, Answer};

use access::AccessMetrics;
use flow_control::LoadMetrics;
use labels::PluginLabels;
use objects::StockMetrics;
pub(crate) use request_labels::Asked;
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
    requests: RequestMetrics,
    load: LoadMetrics,
    stock: StockMetrics,
    audit_events: Count,
    audit_errors: Count,
}

impl Metrics {
    /// `registry` may hold further metrics, of storage for one.
    pub(crate) fn new(mut registry: Registry) -> Self {
        let (audit_events, audit_errors) = (Count::default(), Counters::default());
        registry.register("apiserver_audit_event", "Audit events written", audit_events.clone());
        registry.register("apiserver_audit_error", "Audit events that were lost", audit_errors.clone());
        Self {
            access: AccessMetrics::new(&mut registry),
            requests: RequestMetrics::new(&mut registry),
            load: LoadMetrics::new(&mut registry),
            stock: StockMetrics::new(&mut registry),
            audit_events,
            audit_errors: audit_errors.get_or_create_owned(&PluginLabels { plugin: "log" }),
            registry,
        }
    }

    /// The series of requests for the same.
    pub(crate) fn series(&self, asked: &Asked) -> Arc<RequestSeries> {
        self.requests.series(asked)
    }

    /// It was found out whose a request is, or not.
    pub(crate) fn authenticated(
        &self,
        connection: &Connection,
        found: &Result<Arc<User>, Unauthenticated>,
        took: Duration,
    ) {
        self.access.authenticated(found, took);
        let by_certificate = connection.peer.identity().filter(|peer| peer.is_client);
        if let (Ok(user), Some(peer)) = (found, by_certificate)
            && user.name == peer.common_name
        {
            self.access.certificate(access::left_until(peer.not_after));
        }
    }

    /// Counts an authorization with this decision.
    pub(crate) fn authorized(&self, decision: &'static str, took: Duration) {
        self.access.decided(decision, took);
    }

    pub(crate) fn handshake_failed(&self) {
        self.access.handshake_failed();
    }

    pub(crate) fn waited(&self, level: &'static str, wait: Duration) {
        self.load.waited(level, wait);
    }

    pub(crate) fn refused(&self, level: &'static str, why: Refusal) {
        self.load.refused(level, why);
    }

    pub(crate) fn audited(&self) {
        self.audit_events.inc();
    }

    pub(crate) fn audit_lost(&self) {
        self.audit_errors.inc();
    }

    /// Serves all metrics. `restarts` counts those of each supervised task that can be restarted.
    pub(crate) fn serve(
        &self,
        objects: &ObjectStore,
        flow_control: &FlowControl,
        restarts: &[(TaskName, u64)],
    ) -> Answer {
        self.stock.look(objects);
        self.load.look(flow_control);
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
