//! Concurrency limits: queues requests, fairly for each user.

use std::sync::Arc;

use apiserver_access::User;

use crate::flow_control::{FairQueue, Seat};
use crate::observe::metrics::RequestSeries;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, Subject};
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Objects that a list may read for one seat: upstream's number.
const OBJECTS_PER_SEAT: usize = 100;

/// Maximum number of seats of a list: upstream's number.
const MOST_SEATS: usize = 10;

/// Number of objects from which a list counts as large: it keeps a processor busy for milliseconds.
const LARGE: usize = 1000;

/// Number of objects from which a list is encoded in a thread of its own. Fewer take less than a millisecond even as a
/// table or as YAML, and the connection's other streams can wait for that.
const MANY: usize = 50;

/// Admission of a request.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Seat that it holds; none if it needs none.
    pub(crate) seat: Option<Seat>,
    /// Set if it keeps a processor busy.
    pub(crate) is_heavy: bool,
}

/// Waits for a seat among the requests in flight. Watches are long-running and need none, and neither do documents,
/// which cost nothing. A user to whom `system:masters` gives all permissions needs none, so that an administrator can repair
/// an overloaded server.
///
/// # Errors
/// 429 if too many requests of the user wait, or this one has waited too long.
pub(crate) async fn admit(
    server: &ApiServer,
    info: &RequestInfo,
    query: &Query,
    user: &User,
    is_hosted: bool,
    series: &RequestSeries,
) -> Result<Admission, Box<HttpResponse>> {
    let is_document = info.subject == Subject::Path && info.path != "/metrics";
    if is_document || info.is_long_running() || server.settings.system_masters.include(user) {
        return Ok(Admission { seat: None, is_heavy: objects_read(server, info, query) > MANY });
    }
    let objects = objects_read(server, info, query);
    let (level, queue, seats) = queue_of(server, info, objects, is_hosted);
    let started = tokio::time::Instant::now();
    match queue.enter(&user.name, seats).await {
        Ok(seat) => {
            server.telemetry.metrics.waited(level, started.elapsed());
            Ok(Admission { seat: Some(seat), is_heavy: objects > MANY })
        }
        Err(refusal) => {
            tracing::debug!(
                user = user.name,
                level,
                reason = refusal.word(),
                "request refused: too many requests"
            );
            server.telemetry.metrics.refused(level, refusal);
            series.dropped(429);
            Err(Box::new(response::overloaded()))
        }
    }
}

/// Returns the queue of a request that reads so many objects, and the number of its seats.
fn queue_of<'a>(
    server: &'a ApiServer,
    info: &RequestInfo,
    objects: usize,
    is_hosted: bool,
) -> (&'static str, &'a Arc<FairQueue>, usize) {
    let flow_control = &server.flow_control;
    let hosted = flow_control.hosted.as_ref().filter(|_| is_hosted);
    if !info.is_read_only() {
        return hosted.map_or(("writes", &flow_control.writes, 1), |it| ("hosted-writes", &it.writes, 1));
    }
    if objects > LARGE {
        return ("large-lists", &flow_control.large_lists, 1);
    }
    let seats = (1 + objects / OBJECTS_PER_SEAT).min(MOST_SEATS);
    hosted.map_or(("reads", &flow_control.reads, seats), |it| ("hosted-reads", &it.reads, seats))
}

/// Returns the number of objects that a list reads at most, counted to one more than makes a large list; 0 for any other
/// request. A list of one namespace reads that alone: else the lists of all small namespaces of a large fleet would wait for
/// each other like large ones.
fn objects_read(server: &ApiServer, info: &RequestInfo, query: &Query) -> usize {
    let Some(path) = info.resource().filter(|_| info.verb == "list") else { return 0 };
    let Some(kind) = server.parts.objects.kind_of(&path.group, &path.resource) else { return 0 };
    let limit = query.number("limit").ok().flatten().and_then(|limit| usize::try_from(limit).ok());
    // With a selector, a page may read any number of objects.
    let has_selector = query.has("labelSelector") || query.has("fieldSelector");
    let page = limit.filter(|limit| *limit > 0 && !has_selector).unwrap_or(usize::MAX);
    server.parts.objects.count_in(kind, &path.namespace, page.min(LARGE + 1))
}
