//! Watch: one line of JSON per event, for as long as asked.

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{
    CachedObject, EventKind, Freshness, Kind, ObjectEvent, ObjectWatch, WatchRequest,
};
use apiserver_machinery::table::{self, IncludeObject};
use apiserver_machinery::{Revision, object};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{list, view};
use crate::body::ResponseBody;
use crate::negotiation::{self, Form};
use crate::query::Query;
use crate::request::Call;
use crate::request_info::ResourcePath;
use crate::response::Answer;
use crate::server::ApiServer;

/// How long a watch lasts when the client does not say: between this and twice this, spread so
/// that watches opened together do not end together.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// How often an idle watcher is told how far it has seen.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A last bookmark so long before the end, for the next watch to start from.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// Events on their way to one client. A client that takes none of them holds up nobody: its watch
/// reads the shared history at its own pace.
const IN_FLIGHT: usize = 64;

pub(super) async fn serve(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
    let form = negotiation::watch_form(&call.headers)?;
    let request = request(&call.query, kind, path)?;
    let options = Options::new(call, kind, form)?;
    let (sender, receiver) = mpsc::channel(IN_FLIGHT);
    let started = server.parts.objects.watch(kind, request).await;
    let server = Arc::clone(server);
    tokio::spawn(async move {
        match started {
            Ok(watch) => stream(&server, watch, &sender, options).await,
            // After the parameters are good, failures are told inside the stream.
            Err(error) => {
                let _ = sender.send(error_frame(&error)).await;
            }
        }
    });
    let mut answer = Response::new(ResponseBody::Stream(receiver));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}

fn request(query: &Query, kind: Kind<'_>, path: &ResourcePath) -> ApiResult<WatchRequest> {
    let given = list::revision(query.text("resourceVersion"))?;
    let matching = query.text("resourceVersionMatch");
    let initial_events = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
    match (initial_events, matching) {
        (None, "") | (Some(_), "NotOlderThan") => {}
        (None, _) => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return Err(list::forbidden("resourceVersionMatch", detail));
        }
        (Some(_), "") => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(list::forbidden("resourceVersionMatch", detail));
        }
        (Some(_), other) => {
            let field = FieldPath::new("resourceVersionMatch");
            return Err(list::options_error(FieldError::not_supported(
                field,
                &json!(other),
                &["NotOlderThan"],
            )));
        }
    }
    if query.has("continue") {
        return Err(list::forbidden("continue", "continue is forbidden for watch"));
    }
    let (after, initial) = match (initial_events, given) {
        (Some(true), None) => (None, Freshness::Consistent),
        (Some(true), Some(revision)) if revision.number() > 0 => (None, Freshness::AtLeast(revision)),
        (Some(false), None) => (Some(Revision::NONE), Freshness::Any),
        (None, None) => (None, Freshness::Consistent),
        (_, Some(revision)) if revision.number() > 0 => (Some(revision), Freshness::Any),
        _ => (None, Freshness::Any),
    };
    Ok(WatchRequest {
        namespace: path.namespace.clone(),
        labels: query.labels()?,
        fields: query.fields(kind.resource)?,
        after,
        initial,
    })
}

/// How events are to be shown, and for how long.
struct Options {
    resource: Resource,
    form: Form,
    include: IncludeObject,
    bookmarks: bool,
    mark_initial_end: bool,
    until: Instant,
}

impl Options {
    fn new(call: &Call, kind: Kind<'_>, form: Form) -> ApiResult<Self> {
        let seconds = call.query.number("timeoutSeconds")?.unwrap_or_default();
        let lifetime = match u64::try_from(seconds) {
            Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => LIFETIME + LIFETIME.mul_f64(spread()),
        };
        Ok(Self {
            resource: kind.resource.clone(),
            form,
            include: view::include(&call.query)?,
            bookmarks: call.query.flag("allowWatchBookmarks"),
            mark_initial_end: call.query.flag("sendInitialEvents"),
            until: Instant::now() + lifetime,
        })
    }
}

/// A number in `[0, 1)`.
fn spread() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 256.0
}

async fn stream(server: &ApiServer, mut watch: ObjectWatch, sender: &mpsc::Sender<Bytes>, options: Options) {
    let mut frames = Frames { options, first: true };
    let over = server.lifecycle.watch_over();
    tokio::pin!(over);
    let mut seen = Revision::NONE;
    let final_bookmark = frames.options.until.checked_sub(BOOKMARK_BEFORE_END).unwrap_or_else(Instant::now);
    let mut bookmark_at = final_bookmark.min(Instant::now() + BOOKMARK_EVERY);
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return,
            () = &mut over => return,
            () = tokio::time::sleep_until(frames.options.until) => return,
            next = watch.next() => next,
            () = tokio::time::sleep_until(bookmark_at) => {
                if frames.options.bookmarks && seen > Revision::NONE
                    && sender.send(frames.bookmark(seen, false)).await.is_err() {
                    return;
                }
                let every = Instant::now() + BOOKMARK_EVERY;
                bookmark_at = if Instant::now() < final_bookmark { every.min(final_bookmark) } else { every };
                continue;
            }
        };
        let frame = match next {
            Ok(ObjectEvent::Progress(revision)) => {
                seen = seen.max(revision);
                continue;
            }
            Ok(ObjectEvent::InitialEnd(revision)) => {
                seen = seen.max(revision);
                if !(frames.options.bookmarks && frames.options.mark_initial_end) {
                    continue;
                }
                Ok(frames.bookmark(revision, true))
            }
            Ok(ObjectEvent::Object(kind, item)) => {
                // Initial objects come in key order; only the end of them says how far they reach.
                frames.event(kind, &item)
            }
            Err(error) => Err(error),
        };
        let over = frame.is_err();
        let bytes = frame.unwrap_or_else(|error| error_frame(&error));
        let sent = tokio::time::timeout_at(frames.options.until, sender.send(bytes)).await;
        if over || !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Writes events in the form asked for.
struct Frames {
    options: Options,
    first: bool,
}

impl Frames {
    fn event(&mut self, kind: EventKind, item: &Arc<CachedObject>) -> ApiResult<Bytes> {
        if self.options.form == Form::Json {
            item.json.as_ref().map_err(|damage| ApiError::internal(damage.clone()))?;
            return Ok(item.frame(kind));
        }
        let value = item.to_value().map_err(ApiError::internal)?;
        Ok(line(kind.word(), &self.view(&value)))
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Bytes {
        let resource = &self.options.resource;
        let mut bookmark = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"resourceVersion": revision.to_string()}});
        if initial_end {
            object::set_meta(&mut bookmark, "annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        let shown = if self.options.form == Form::Json { bookmark } else { self.view(&bookmark) };
        line("BOOKMARK", &shown)
    }

    fn view(&mut self, value: &Value) -> Value {
        match self.options.form {
            Form::Table(version) => {
                let mut table = view::one_row(&self.options.resource, value, version, self.options.include);
                if !std::mem::take(&mut self.first) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            Form::Metadata => table::partial(value),
            Form::Json | Form::Yaml => value.clone(),
        }
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut bytes = serde_json::to_vec(&json!({"type": kind, "object": object})).unwrap_or_default();
    bytes.push(b'\n');
    Bytes::from(bytes)
}

fn error_frame(error: &ApiError) -> Bytes {
    line("ERROR", &error.to_value())
}
