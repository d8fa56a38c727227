//! Watch: one event after the other, for as long as asked.

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Kind, ObjectEvent, ObjectWatch};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::frames::Frames;
use super::list_options::ListOptions;
use super::{view, web_socket};
use crate::body::ResponseBody;
use crate::filters::availability;
use crate::negotiation;
use crate::request::Call;
use crate::request_info::ResourcePath;
use crate::response::Answer;
use crate::server::ApiServer;

/// How long a watch lasts when the client does not say: between this and twice this, spread so
/// that watches opened together do not end together.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// How often a watcher is told how far it has seen.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A last bookmark so long before the end, for the next watch to start from.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// Events on their way to one client. A client that takes none of them holds up nobody: its watch
/// reads the shared history at its own pace.
const IN_FLIGHT: usize = 64;

/// How long a client may leave its events untaken before its watch is closed. It then comes back
/// with the last revision it saw, and misses nothing.
const SLOWEST: Duration = Duration::from_secs(60);

pub(super) async fn serve(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
    let form = call.form()?;
    let mut options = ListOptions::of_watch(&call.query, kind, path)?;
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
    let (sender, receiver) = mpsc::channel(IN_FLIGHT);
    let mut stream = Stream {
        server: Arc::clone(server),
        frames: Frames::new(Arc::clone(kind.resource), form, include),
        sender,
        bookmarks: call.query.flag("allowWatchBookmarks"),
        until: Instant::now().checked_add(lifetime).unwrap_or_else(|| Instant::now() + LIFETIME),
    };
    // After the parameters are good, failures are told inside the stream; the headers are out before
    // what the watch begins with is at hand.
    let objects = Arc::clone(&server.parts.objects);
    let (group, version, plural) = (path.group.clone(), path.version.clone(), path.resource.clone());
    let needs_storage = availability::needs_storage(&call.info, &call.query);
    tokio::spawn(async move {
        if let Some(kind) = objects.kind(&group, &version, &plural) {
            let opening = objects.watch(kind, request);
            match availability::while_storage_answers(&stream.server, needs_storage, opening).await {
                Ok(watch) => stream.run(watch).await,
                Err(error) => {
                    let frame = stream.frames.error(&error);
                    stream.send(frame).await;
                }
            }
        }
    });
    if let Some((key, upgrade)) = socket {
        return Ok(web_socket::answer(key, protocol, upgrade, receiver, form.encoding));
    }
    let mut answer = Response::new(ResponseBody::Stream(receiver));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.encoding.stream_type()));
    Ok(answer)
}

/// A number in `[0, 1)`.
fn spread() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 256.0
}

/// One client's stream.
struct Stream {
    server: Arc<ApiServer>,
    frames: Frames,
    sender: mpsc::Sender<Bytes>,
    bookmarks: bool,
    until: Instant,
}

impl Stream {
    async fn run(&mut self, mut watch: ObjectWatch) {
        let begun = Instant::now();
        let last = self.until.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > begun);
        let mut bookmark_at = next_bookmark(begun, last);
        let over = self.server.lifecycle.watch_over();
        tokio::pin!(over);
        loop {
            let due = async {
                match bookmark_at.filter(|_| self.bookmarks) {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let frame = tokio::select! {
                biased;
                () = self.sender.closed() => return,
                () = &mut over => return,
                () = tokio::time::sleep_until(self.until) => return,
                () = due => {
                    bookmark_at = next_bookmark(Instant::now(), last);
                    // Nothing to say yet: it will be said when there is.
                    let Some(told) = watch.told() else { continue };
                    self.frames.bookmark(told, false)
                }
                next = watch.next() => match next {
                    Ok(Some(event)) => match self.event(event) {
                        Some(frame) => frame,
                        None => continue,
                    },
                    // The client resumes from what it saw last.
                    Ok(None) => return,
                    Err(error) => Err(error),
                },
            };
            let over = frame.is_err();
            let bytes = frame.unwrap_or_else(|error| self.frames.error(&error));
            if !self.send(bytes).await || over {
                return;
            }
        }
    }

    /// The event as it goes out; `None` when this client is not told.
    fn event(&mut self, event: ObjectEvent) -> Option<ApiResult<Bytes>> {
        match event {
            ObjectEvent::Object(kind, item) => Some(self.frames.event(kind, &item)),
            ObjectEvent::InitialEnd(revision) => self.bookmarks.then(|| self.frames.bookmark(revision, true)),
            ObjectEvent::Progress(_) => None,
        }
    }

    /// Whether the client took it, or the connection for it, in time.
    async fn send(&self, bytes: Bytes) -> bool {
        let latest = self.until.min(Instant::now() + SLOWEST);
        tokio::select! {
            biased;
            sent = tokio::time::timeout_at(latest, self.sender.send(bytes)) => matches!(sent, Ok(Ok(()))),
            () = self.server.lifecycle.refused() => false,
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
