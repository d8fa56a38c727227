//! Watch: one event after the other, for as long as asked.

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

use super::idle_release::{Parked, SLOWEST};
use super::list_options::ListOptions;
use super::watch_encoder::Frames;
use super::{view, web_socket};
use crate::filters::availability;
use crate::request::Call;
use crate::request::request_info::ResourcePath;
use crate::response::Answer;
use crate::response::body::{Events, ResponseBody};
use crate::response::negotiation;
use crate::state::ApiServer;

/// How long a watch lasts when the client does not say: between this and twice this, spread so
/// that watches opened together do not end together.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// How often a watcher is told how far it has seen.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A last bookmark so long before the end, for the next watch to start from.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

pub(super) async fn serve(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
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
    // After the parameters are good, failures are told inside the stream; the headers are out before
    // what the watch begins with is at hand.
    let needs_storage = availability::needs_storage(&call.info, &call.query);
    let opening = spawn_joined(open(Arc::clone(server), path.clone(), request, needs_storage));
    let until = Instant::now().checked_add(lifetime).unwrap_or_else(|| Instant::now() + LIFETIME);
    let watched = Watched {
        frames: Frames::new(Arc::clone(kind.resource), form, include),
        state: State::Opening(AbortOnDropHandle::new(opening)),
        marks_initial_end: is_asked_for,
        bookmarks: call.query.flag("allowWatchBookmarks").then(|| Bookmarks::until(until)),
        told: Instant::now(),
        until: Box::pin(tokio::time::sleep_until(until)),
        over: Box::pin(server.lifecycle.watch_over()),
    };
    let events =
        Events::new(stream::unfold(Parked::new(watched, Watched::is_left, SLOWEST), |parked| async move {
            let mut watched = parked.take()?;
            let frame = watched.next().await?;
            parked.put(watched);
            Some((frame, parked))
        }));
    if let Some((key, upgrade)) = socket {
        return Ok(web_socket::answer(key, protocol, upgrade, events, form.encoding));
    }
    let mut answer = Response::new(ResponseBody::Events(events));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.encoding.stream_type()));
    Ok(answer)
}

/// Opens the watch, which may take as long as a list of everything: so it is a task of its own. `None` when there is no
/// such kind any more.
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

/// A number in `[0, 1)`.
fn spread() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 256.0
}

/// One client's watch. It is asked for the next event by what writes to the client, and only as fast as the client takes
/// them: a client that takes none holds up nobody, since all read the shared history, each at its own pace.
struct Watched {
    frames: Frames,
    state: State,
    /// Whether it is told where what was there already ends, if it has bookmarks.
    marks_initial_end: bool,
    /// If they were asked for.
    bookmarks: Option<Bookmarks>,
    /// When it was told the last event.
    told: Instant,
    until: Pin<Box<Sleep>>,
    /// When the server ends.
    over: BoxFuture<'static, ()>,
}

enum State {
    Opening(AbortOnDropHandle<ApiResult<Option<ObjectWatch>>>),
    Open(Box<ObjectWatch>),
    /// The last word was said.
    Over,
}

impl Watched {
    /// Whether the client has not asked for more for too long.
    fn is_left(&self) -> bool {
        self.told.elapsed() > SLOWEST || self.until.is_elapsed()
    }

    /// What the client is told next; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let frame = self.frame().await;
        if !self.frames.are_shared() {
            // What is written for this watch alone takes long enough for others to have their turn.
            tokio::task::yield_now().await;
        }
        self.told = Instant::now();
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
                    Some(told) => self.frames.bookmark(told, false),
                    // Nothing to say yet: it will be said when there is.
                    None => continue,
                },
                next = watch.next() => match next {
                    Ok(Some(ObjectEvent::Object(kind, item))) => self.frames.event(kind, &item),
                    Ok(Some(ObjectEvent::InitialEnd(revision)))
                        if self.marks_initial_end && self.bookmarks.is_some() =>
                    {
                        self.frames.bookmark(revision, true)
                    }
                    Ok(Some(ObjectEvent::InitialEnd(_))) => continue,
                    // The client resumes from what it saw last.
                    Ok(None) => return None,
                    Err(error) => Err(error),
                },
            };
            return Some(frame.unwrap_or_else(|error| self.last(&error)));
        }
    }

    /// The last word: what failed.
    fn last(&mut self, error: &ApiError) -> Bytes {
        self.state = State::Over;
        self.frames.error(error)
    }
}

/// When the client is told how far it has seen.
struct Bookmarks {
    next: Option<Pin<Box<Sleep>>>,
    /// The last one.
    last: Option<Instant>,
}

impl Bookmarks {
    /// Those of a watch that ends then.
    fn until(end: Instant) -> Self {
        let begun = Instant::now();
        let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > begun);
        let next = next_bookmark(begun, last).map(|at| Box::pin(tokio::time::sleep_until(at)));
        Self { next, last }
    }

    /// Waits until one is due. Cancel safe.
    async fn due(&mut self) {
        let Some(next) = &mut self.next else { return std::future::pending().await };
        next.as_mut().await;
        match next_bookmark(Instant::now(), self.last) {
            Some(at) => next.as_mut().reset(at),
            None => self.next = None,
        }
    }
}

/// When the next bookmark is due after one at `now`; none after the last.
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
    fn bookmarks_come_every_minute_and_once_more_before_the_end() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(next_bookmark(begun, Some(after(298))), Some(after(60)));
        assert_eq!(next_bookmark(after(240), Some(after(298))), Some(after(298)));
        assert_eq!(next_bookmark(after(298), Some(after(298))), None);
        assert_eq!(next_bookmark(begun, None), None);
    }
}
