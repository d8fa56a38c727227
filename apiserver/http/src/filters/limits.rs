//! Not too much at once, and to everybody their share.

use std::sync::Arc;

use apiserver_access::User;

use crate::flow_control::{FairQueue, Seat};
use crate::observe::metrics::RequestSeries;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, Subject};
use crate::response::{self, Answer};
use crate::state::ApiServer;

/// Objects that a list may read for one seat: upstream's number.
const OBJECTS_PER_SEAT: usize = 100;

/// Most seats a list takes: likewise.
const MOST_SEATS: usize = 10;

/// A list of more objects is large: it keeps a processor busy for milliseconds.
const LARGE: usize = 1000;

/// A list of more than these is made on a thread of its own. Fewer take less than a millisecond even as a table or as
/// YAML, which the connection's other streams may wait for.
const MANY: usize = 50;

/// A request's turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// The place it has for as long as this is held; none where none is needed.
    pub(crate) seat: Option<Seat>,
    /// It keeps a processor busy.
    pub(crate) is_heavy: bool,
}

/// Waits for a place among the requests in flight.
/// Watches last and are not counted. `system:masters` must be able to mend what is overloaded, and
/// documents cost nothing.
///
/// # Errors
/// 429 when the user has too much waiting, or has waited too long.
pub(crate) async fn admit(
    server: &ApiServer,
    info: &RequestInfo,
    query: &Query,
    user: &User,
    series: &RequestSeries,
) -> Result<Turn, Box<Answer>> {
    let is_document = info.subject == Subject::Path && info.path != "/metrics";
    if is_document || info.is_long_running() || user.is_in("system:masters") {
        return Ok(Turn { seat: None, is_heavy: read_by(server, info, query) > MANY });
    }
    let objects = read_by(server, info, query);
    let (level, queue, seats) = place(server, info, objects);
    let asked = tokio::time::Instant::now();
    match queue.enter(&user.name, seats).await {
        Ok(seat) => {
            server.telemetry.metrics.waited(level, asked.elapsed());
            Ok(Turn { seat: Some(seat), is_heavy: objects > MANY })
        }
        Err(refusal) => {
            tracing::debug!(user = user.name, level, reason = refusal.word(), "too many requests");
            server.telemetry.metrics.refused(level, refusal);
            series.dropped(429);
            Err(Box::new(response::overloaded()))
        }
    }
}

/// The queue of a request that reads so many objects, and how many seats it takes there.
fn place<'a>(
    server: &'a ApiServer,
    info: &RequestInfo,
    objects: usize,
) -> (&'static str, &'a Arc<FairQueue>, usize) {
    let flow_control = &server.flow_control;
    if !info.is_read_only() {
        return ("writes", &flow_control.writes, 1);
    }
    if objects > LARGE {
        return ("large-lists", &flow_control.large_lists, 1);
    }
    ("reads", &flow_control.reads, (1 + objects / OBJECTS_PER_SEAT).min(MOST_SEATS))
}

/// How many objects a list reads at most; none for anything else.
fn read_by(server: &ApiServer, info: &RequestInfo, query: &Query) -> usize {
    let Some(path) = info.resource().filter(|_| info.verb == "list") else { return 0 };
    let Some(kind) = server.parts.objects.kind_of(&path.group, &path.resource) else { return 0 };
    let stored = server.parts.objects.count(kind);
    let limit = query.number("limit").ok().flatten().and_then(|limit| usize::try_from(limit).ok());
    match limit {
        // With a selector a page is filled from as many as it takes.
        Some(limit) if limit > 0 && !query.has("labelSelector") && !query.has("fieldSelector") => {
            limit.min(stored)
        }
        _ => stored,
    }
}
