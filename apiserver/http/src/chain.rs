//! Filter chain: the filters that every request passes, in execution order.
//!
//! ```text
//! audit id → request info → refuse at shutdown → check the origin → authenticate → check access rules → impersonate
//!   → authorize → queue → refuse without storage → refuse in a provisional namespace → read body → deadline → handler → compress
//!   → metrics, audit log
//! ```
//!
//! A request to the token endpoint proves its right by a token in its body, and leaves the chain before authentication.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use apiserver_access::{Authenticated, IDENTITY_STALE, User};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Version};
use http_body::Body;

use crate::filters::authorization::{Decided, UserPermissions};
use crate::filters::impersonation::Acting;
use crate::filters::limits::Admission;
use crate::filters::{
    admission as admission_filter, audit_id, authentication, authorization, availability, cross_origin,
    impersonation, limits, provisional, token_limits,
};
use crate::handlers::execution::{self, AuditAnnotations, Served};
use crate::lifecycle::random_fraction;
use crate::observe::audit;
use crate::observe::metrics::SeriesKey;
use crate::observe::request_scope::RequestScope;
use crate::observe::request_trace::{Caller, RequestTrace};
use crate::request::connection::Connection;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, ResourcePath};
use crate::request::{Call, body};
use crate::response::compression;
use crate::response::negotiation::{self, OfErrors};
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;
use crate::token_endpoint;

/// Serves one request: passes it through all filters to its handler.
pub async fn handle<B>(server: &Arc<ApiServer>, request: Request<B>, connection: &Connection) -> HttpResponse
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let started = Instant::now();
    let audit_id = audit_id::of(request.headers());
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let name = query.selected_name();
    let info =
        RequestInfo::resolve(request.method(), request.uri().path(), query.flag("watch"), name.as_deref());
    let (version, head_only) = (request.version(), request.method() == http::Method::HEAD);
    let compressed = !info.is_long_running() && compression::is_wanted(request.headers());
    let trace = RequestTrace::begin(&audit_id);
    let mut scope = open(server, &request, connection, &query, &info, audit_id).traced(trace);
    let is_unclear = info.is_unclear();
    let refused = is_unclear.then(|| response::unclear(request.uri()));
    let refused = refused.or_else(|| availability::refusal_at_the_end(server, &info, connection, version));
    let refused = refused.or_else(|| refuse_foreign(&request, connection, &query, &mut scope));
    let mut answer = match refused {
        Some(answer) => answer,
        None => pass(server, request, connection, query, info, &mut scope).await,
    };
    scope.record_response(&mut answer);
    if compressed {
        answer = compression::compress(answer);
    }
    if head_only {
        response::head_only(&mut answer);
    }
    let is_draining = server.lifecycle.is_draining() && connection.internal.is_none();
    if is_draining || connection.peer.is_lapsed() {
        response::close_connection(&mut answer, version);
    }
    // That response is the same for every client, at any time.
    if !is_unclear {
        response::do_not_cache(&mut answer);
    }
    audit_id::set(&mut answer, scope.audit_id());
    // A path that names no resource is refused before authentication.
    close_connection_if_due(server, connection, version, is_unclear || scope.is_known());
    scope.finish(answer, started.elapsed())
}

fn open<B>(
    server: &Arc<ApiServer>,
    request: &Request<B>,
    connection: &Connection,
    query: &Query,
    info: &RequestInfo,
    audit_id: String,
) -> RequestScope {
    let key = SeriesKey::new(&server.parts.objects, (request.method(), request.headers()), info, query);
    let is_frequent = audit::is_frequent(info, connection.internal.is_some());
    let record = server.telemetry.audit.as_ref().map(|log| {
        let (head, policy) = ((request.uri(), request.headers()), log.policy());
        audit::Record::new(&audit_id, head, connection.address, info, (&policy, is_frequent))
    });
    RequestScope::open(&server.telemetry, audit_id, &key, record)
}

/// Returns the kind of a path, unless the path is one of its actions, whose bodies are of other kinds.
fn find(server: &ApiServer, path: &ResourcePath) -> Option<Arc<Resource>> {
    let resource = server.registry().find(&path.group, &path.version, &path.resource)?;
    resource.verb(&path.subresource).is_none().then(|| Arc::clone(resource))
}

/// Refuses a request of a web page of another origin.
fn refuse_foreign<B>(
    request: &Request<B>,
    connection: &Connection,
    query: &Query,
    scope: &mut RequestScope,
) -> Option<HttpResponse> {
    let error = cross_origin::check(request, connection).err()?;
    scope.rejected_early();
    Some(response::error(&error, negotiation::of_errors(request.headers(), query)))
}

async fn pass<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    connection: &Connection,
    query: Query,
    info: RequestInfo,
    scope: &mut RequestScope,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let of_errors = OfErrors::new(request.headers(), &query);
    // A long-running request has no deadline.
    let timeout = if info.is_long_running() { Ok(None) } else { query.timeout() };
    let longest = match timeout {
        Ok(timeout) => timeout.map_or(execution::LONGEST, |timeout| timeout.min(execution::LONGEST)),
        Err(error) => {
            scope.rejected_early();
            return response::error(&error, of_errors.encoding());
        }
    };
    let served = {
        // Pinned here: the future is large, and would be copied into the timeout.
        let serving = pin!(serve(server, request, connection, query, info, scope));
        tokio::time::timeout(longest, serving).await
    };
    match served.unwrap_or_else(|_| Served::Answered(Err(ApiError::timeout()))) {
        Served::Answered(Ok(answer)) => answer,
        Served::Answered(Err(error)) => response::error(&error, of_errors.encoding()),
        Served::Panicked(answer) => {
            scope.panicked();
            answer
        }
    }
}

async fn serve<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    connection: &Connection,
    query: Query,
    info: RequestInfo,
    scope: &mut RequestScope,
) -> Served
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Some(endpoint) = token_endpoint::find(server.settings.token_endpoint.as_ref(), &info, connection) {
        scope.rejected_early();
        return Served::Answered(token_endpoint::serve(endpoint, request, connection).await);
    }
    match admit(server, request, connection, query, info, scope).await {
        Ok(Admitted::Refused(answer)) => Served::Answered(Ok(*answer)),
        Ok(Admitted::Call(call, admission)) => {
            scope.admitted();
            let of_configurations = call.admission.clone();
            let serving = execution::serve(server, *call, admission, &connection.flush);
            let (mut served, seat) = scope.span().around(serving).await;
            scope.keep(seat);
            if let Served::Answered(Ok(answer)) = &mut served
                && let Some(AuditAnnotations(annotations)) = answer.extensions_mut().remove()
            {
                scope.annotate(annotations);
            }
            let served = with_warnings(served, scope.take_warnings());
            match of_configurations.map(|admission| admission.notes()) {
                Some(notes) => {
                    scope.annotate(notes.annotations);
                    with_warnings(served, notes.warnings)
                }
                None => served,
            }
        }
        Err(error) => Served::Answered(Err(error)),
    }
}

/// Adds warnings to a response.
fn with_warnings(served: Served, warnings: Vec<String>) -> Served {
    if warnings.is_empty() {
        return served;
    }
    match served {
        Served::Answered(Ok(mut answer)) => {
            response::warn(&mut answer, &warnings);
            Served::Answered(Ok(answer))
        }
        Served::Answered(Err(error)) => Served::Answered(Err(error.after(warnings))),
        panicked @ Served::Panicked(_) => panicked,
    }
}

/// Result of the filters: a call for a handler, or a refusal in plain text.
enum Admitted {
    Call(Box<Call>, Admission),
    Refused(Box<HttpResponse>),
}

async fn admit<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    connection: &Connection,
    query: Query,
    info: RequestInfo,
    scope: &mut RequestScope,
) -> ApiResult<Admitted>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut head, incoming) = request.into_parts();
    let token = authentication::token_of_watch(server, connection, &info, &head.headers);
    let found = authentication::authenticate(server, connection, head.uri.path(), &mut head.headers).await;
    scope.open_span(&head.headers, caller(connection, &found));
    let Authenticated { user, is_proxied: proxied } = found.inspect_err(|_| scope.rejected_early())?;
    scope.set_user(&user, &info);
    note_stale_identity(scope, &user);
    if scope.records_bodies() {
        scope.set_resource(info.resource().and_then(|path| find(server, path)));
    }
    check_limits(scope, (&info, &query), &user)?;
    let of_errors = OfErrors::new(&head.headers, &query);
    let acting = impersonation::act_as(server, &mut head.headers, (&info, &query), user, proxied).await;
    let Acting { user, constraint } = match acting {
        Ok(acting) => acting,
        // The message repeats input of the client.
        Err(error) => {
            let mut answer = response::error(&error, of_errors.encoding());
            response::no_sniffing(&mut answer);
            return Ok(Admitted::Refused(Box::new(answer)));
        }
    };
    scope.set_impersonated(&user, constraint);
    let decided =
        traced_decision(scope, authorization::authorize(server, &info, &query, &user, proxied)).await;
    scope.decided(decided.word, &decided.reason);
    if scope.is_recorded() {
        scope.annotate(decided.annotations());
    }
    if let Some(warning) = decided.warning() {
        scope.warn(warning);
    }
    decided.result?;
    // After authorization: a slow host would otherwise hold the seats that the direct endpoint needs.
    let started = Instant::now();
    let admission = match limits::admit(server, &info, &query, &user, proxied, scope.series()).await {
        Ok(admission) => admission,
        Err(answer) => return Ok(Admitted::Refused(answer)),
    };
    scope.waited(started.elapsed());
    availability::check(server, &info, &query, proxied)?;
    availability::check_certificate(connection, &info)?;
    provisional::check(server, &info, proxied)?;
    let body = body::read(incoming).await?;
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    scope.record_body(&info, content_type.unwrap_or_default(), &body);
    let upgrade = head.extensions.remove();
    let permissions = UserPermissions::of_write(server, &info, &user, proxied);
    let of_configurations = admission_filter::open(server, &info, &query, &body, &user, permissions.as_ref());
    let (certificate, address) = (connection.certificate.clone(), connection.address);
    let headers = head.headers;
    // Only writes record it.
    let audit_id = if info.is_read_only() { String::new() } else { scope.audit_id().to_owned() };
    let call = Call {
        headers,
        query,
        info,
        audit_id,
        user,
        proxied,
        permissions,
        admission: of_configurations,
        body,
        certificate,
        token,
        address,
        upgrade,
    };
    Ok(Admitted::Call(Box::new(call), admission))
}

/// Returns the caller of a request, as far as its trace context is concerned.
fn caller(connection: &Connection, found: &ApiResult<Authenticated>) -> Caller {
    match found {
        Ok(_) if connection.internal.is_some() => Caller::Internal,
        Ok(found) if !found.user.is_anonymous() => Caller::Known,
        _ => Caller::Unknown,
    }
}

/// Notes for the response and for the audit log that the user is known from an earlier answer of Keystone.
fn note_stale_identity(scope: &mut RequestScope, user: &User) {
    let Some(age) = authentication::stale_identity(user) else { return };
    if scope.is_recorded() {
        scope.annotate(BTreeMap::from([(IDENTITY_STALE.to_owned(), age.to_owned())]));
    }
    scope.warn(format!("Keystone does not answer; the user is known by its answer of {age} s ago"));
}

/// Checks that the user's token is for this request, and notes a refusal for the audit log.
fn check_limits(
    scope: &mut RequestScope,
    (info, query): (&RequestInfo, &Query),
    user: &Arc<User>,
) -> ApiResult<()> {
    let checked = token_limits::check(info, query, user);
    checked.inspect_err(|_| scope.decided(Some("forbid"), token_limits::NO_RULE))
}

/// Runs authorization as a step of the request's span.
async fn traced_decision(scope: &RequestScope, deciding: impl Future<Output = Decided>) -> Decided {
    let span = scope.span();
    let begun = span.is_recorded().then(SystemTime::now);
    let decided = span.around(deciding).await;
    if let Some(begun) = begun {
        span.step_with("authorization", begun, ("capstan.authorizer", decided.authorizer().to_owned()));
    }
    decided
}

/// Closes an HTTP/2 connection after this response, in three cases: for a fraction of the requests, if the settings
/// spread clients over servers; for unauthenticated clients, which might open streams without end; and after the
/// client certificate has lapsed, so that the client opens a connection with a new one. In the last two cases the
/// connection takes no more requests, whether the client heeds `GOAWAY` or not. A front proxy is authenticated,
/// whichever user it names.
fn close_connection_if_due(server: &ApiServer, connection: &Connection, version: Version, is_known: bool) {
    let chance = server.settings.goaway_chance;
    let drawn = chance > 0.0 && random_fraction() < chance;
    let is_over = connection.peer.is_lapsed() || (!is_known && connection.peer.identity().is_none());
    if version == Version::HTTP_2 && (drawn || is_over) {
        if is_over {
            connection.in_flight.close();
        }
        connection.close.cancel();
    }
}
