//! Handler of watch: a stream of events.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver_executor::spawn_joined;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{Kind, ObjectEvent, ObjectWatch, WatchRequest};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use tokio::time::{Instant, Sleep};
use tokio_util::task::AbortOnDropHandle;

use super::idle_release::{IdleRelease, LONGEST_IDLE};
use super::list_options::ListOptions;
use super::watch_encoder::WatchEncoder;
use super::{view, web_socket};
use crate::filters::{authentication, authorization, availability};
use crate::known_host;
use crate::request::Call;
use crate::request::connection::lapse;
use crate::request::request_info::ResourcePath;
use crate::response::HttpResponse;
use crate::response::body::{Events, ResponseBody};
use crate::response::negotiation;
use crate::state::ApiServer;

/// Duration of a watch without a timeout: between this and twice this, with jitter, so that watches that were opened
/// together do not end together.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Interval of bookmarks, which tell a client up to which revision it is current.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Time before the end at which the last bookmark is sent, for the next watch to start from.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

pub(super) async fn serve(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let is_asked_for = call.query.flag("watch");
    let read = if is_asked_for { ListOptions::of_watch } else { ListOptions::of_watching_path };
    let mut options = read(&call.query, kind, path)?;
    if let Some(name) = call.info.watched_name() {
        options = options.of_one(&name)?;
    }
    let lifetime = match options.seconds {
        Some(seconds) => Duration::from_secs(seconds),
        None => LIFETIME + LIFETIME.mul_f64(spread()),
    };
    let request = server.parts.objects.with_fixed_start(options.watch()?);
    let form = negotiation::stream(form)?;
    let include = view::include(form, &call.query)?;
    let socket = web_socket::key(&call.headers).zip(call.upgrade.clone());
    let protocol = if socket.is_some() { web_socket::protocol(&call.headers)? } else { None };
    // Once the parameters are valid, errors are sent in the stream: the head is sent before the first objects are at
    // hand.
    let needs_storage = availability::needs_storage(&call.info, &call.query);
    let opening = spawn_joined(open(Arc::clone(server), path.clone(), request, needs_storage));
    let until = Instant::now().checked_add(lifetime).unwrap_or_else(|| Instant::now() + LIFETIME);
    let watched = Watched {
        encoder: WatchEncoder::new(Arc::clone(kind.resource), form, include),
        state: State::Opening(AbortOnDropHandle::new(opening)),
        marks_initial_end: is_asked_for,
        bookmarks: call.query.flag("allowWatchBookmarks").then(|| Bookmarks::until(until)),
        last_event: Instant::now(),
        until: Box::pin(tokio::time::sleep_until(until)),
        over: Box::pin(over(server, call)),
    };
    let events = Events::new(stream::unfold(
        IdleRelease::new(watched, Watched::is_idle, LONGEST_IDLE),
        |held| async move {
            let mut watched = held.take()?;
            let frame = watched.next().await?;
            held.put(watched);
            Some((frame, held))
        },
    ));
    if let Some((key, upgrade)) = socket {
        return Ok(web_socket::answer(key, protocol, upgrade, events, form.encoding));
    }
    let mut answer = Response::new(ResponseBody::Events(events));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.encoding.stream_type()));
    Ok(answer)
}

/// Completes when the server shuts down, the client certificate of the connection or the token of the request has lapsed, the
/// permission has ended, or another cluster answers in place of the host that named the user.
fn over(server: &ApiServer, call: &Call) -> impl Future<Output = ()> + Send + 'static {
    let (shutdown, lapse) = (server.lifecycle.watch_over(), lapse(call.certificate.clone()));
    let token_ends = authentication::token_ends(server, call.token.as_ref());
    let permission_ends = authorization::permission_ends(server, call);
    let host_is_replaced = known_host::is_replaced(server.settings.host.as_ref(), call);
    async move {
        tokio::select! {
            () = shutdown => {}
            () = lapse => {}
            () = token_ends => {}
            () = permission_ends => {}
            () = host_is_replaced => {}
        }
    }
}

/// Opens the watch. That may take as long as a list of all objects, so it is a task of its own. `None` if the kind
/// does not exist any more.
async fn open(
    server: Arc<ApiServer>,
    path: ResourcePath,
    request: WatchRequest,
    needs_storage: bool,
) -> ApiResult<Option<ObjectWatch>> {
    let objects = &server.parts.objects;
    let Some(kind) = objects.kind(&path.group, &path.version, &path.resource) else { return Ok(None) };
    availability::while_storage_answers(&server, needs_storage, objects.watch(kind, request)).await.map(Some)
}

/// Returns a random number in `[0, 1)`.
fn spread() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 256.0
}

/// Watch of one client. The connection polls it for the next event as fast as the client reads: a client that reads
/// nothing delays no other, because all read the shared history at their own speed.
struct Watched {
    encoder: WatchEncoder,
    state: State,
    /// Set if the end of the existing objects is marked, provided that there are bookmarks.
    marks_initial_end: bool,
    /// Bookmarks, if the client requested them.
    bookmarks: Option<Bookmarks>,
    /// Time of the last event.
    last_event: Instant,
    until: Pin<Box<Sleep>>,
    /// Completes when the watch must end before its time.
    over: BoxFuture<'static, ()>,
}

enum State {
    Opening(AbortOnDropHandle<ApiResult<Option<ObjectWatch>>>),
    Open(Box<ObjectWatch>),
    /// The last event was sent.
    Over,
}

impl Watched {
    /// Returns true if the client has not read for too long.
    fn is_idle(&self) -> bool {
        self.last_event.elapsed() > LONGEST_IDLE || self.until.is_elapsed()
    }

    /// Returns the next event; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let frame = self.frame().await;
        if !self.encoder.are_shared() {
            // An event that is encoded for this watch alone takes long enough to yield to other tasks.
            tokio::task::yield_now().await;
        }
        self.last_event = Instant::now();
        frame
    }

    async fn frame(&mut self) -> Option<Bytes> {
        if let State::Opening(opening) = &mut self.state {
            let opened =
                opening.await.unwrap_or_else(|_| Err(ApiError::internal("the watch was not opened")));
            self.state = match opened {
                Ok(Some(watch)) => State::Open(Box::new(watch)),
                Ok(None) => State::Over,
                Err(error) => return Some(self.last(&error)),
            };
        }
        loop {
            let State::Open(watch) = &mut self.state else { return None };
            let due = async {
                match &mut self.bookmarks {
                    Some(bookmarks) => bookmarks.due().await,
                    None => std::future::pending().await,
                }
            };
            let frame = tokio::select! {
                biased;
                () = &mut self.over => return None,
                () = &mut self.until => return None,
                () = due => match watch.reported() {
                    Some(revision) => self.encoder.bookmark(revision, false),
                    // Nothing to send yet.
                    None => continue,
                },
                next = watch.next() => match next {
                    Ok(Some(ObjectEvent::Object(kind, item))) => self.encoder.event(kind, &item),
                    Ok(Some(ObjectEvent::InitialEnd(revision)))
                        if self.marks_initial_end && self.bookmarks.is_some() =>
                    {
                        self.encoder.bookmark(revision, true)
                    }
                    Ok(Some(ObjectEvent::InitialEnd(_))) => continue,
                    // The client resumes from the last revision that it received.
                    Ok(None) => return None,
                    Err(error) => Err(error),
                },
            };
            return Some(frame.unwrap_or_else(|error| self.last(&error)));
        }
    }

    /// Returns the last event: an error.
    fn last(&mut self, error: &ApiError) -> Bytes {
        self.state = State::Over;
        self.encoder.error(error)
    }
}

/// Times of the bookmarks.
struct Bookmarks {
    next: Option<Pin<Box<Sleep>>>,
    /// Time of the last one.
    last: Option<Instant>,
}

impl Bookmarks {
    /// Creates the bookmarks of a watch with this end.
    fn until(end: Instant) -> Self {
        let begun = Instant::now();
        let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > begun);
        let next = next_bookmark(begun, last).map(|at| Box::pin(tokio::time::sleep_until(at)));
        Self { next, last }
    }

    /// Waits until a bookmark is due. Cancel safe.
    async fn due(&mut self) {
        let Some(next) = &mut self.next else { return std::future::pending().await };
        next.as_mut().await;
        match next_bookmark(Instant::now(), self.last) {
            Some(at) => next.as_mut().reset(at),
            None => self.next = None,
        }
    }
}

/// Returns the time of the bookmark after one at `now`; none after the last.
fn next_bookmark(now: Instant, last: Option<Instant>) -> Option<Instant> {
    let regular = now + BOOKMARK_EVERY;
    match last {
        Some(last) if now >= last => None,
        Some(last) => Some(regular.min(last)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_are_due_every_minute_and_before_the_end() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(next_bookmark(begun, Some(after(298))), Some(after(60)));
        assert_eq!(next_bookmark(after(240), Some(after(298))), Some(after(298)));
        assert_eq!(next_bookmark(after(298), Some(after(298))), None);
        assert_eq!(next_bookmark(begun, None), None);
    }
}
