//! The filters every request passes, in execution order.
//!
//! ```text
//! audit id → request info → measure → authenticate → impersonate → in-flight limit
//!   → authorize → deadline → read body → verb → compress
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_machinery::status::{ApiError, ApiResult};
use bytes::Bytes;
use http::Request;
use http_body::Body;

use crate::connection::Connection;
use crate::filters::{audit_id, authentication, authorization, impersonation, limits};
use crate::query::Query;
use crate::request::Call;
use crate::request_info::RequestInfo;
use crate::response::{self, Answer};
use crate::server::ApiServer;
use crate::{body, compression, negotiation, verbs};

/// Longest any request but a watch may take: upstream's limit, which clients count on.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) async fn run<B>(server: &Arc<ApiServer>, request: Request<B>, connection: &Connection) -> Answer
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let started = Instant::now();
    let audit_id = audit_id::of(request.headers());
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let named = named(&query);
    let info =
        RequestInfo::resolve(request.method(), request.uri().path(), query.flag("watch"), named.as_deref());
    let compressed =
        info.is_read_only() && !info.is_long_running() && compression::is_wanted(request.headers());
    let head_only = request.method() == http::Method::HEAD;
    let encoding = negotiation::of_errors(request.headers(), &query);
    let mut answer = match pass(server, request, connection, query, info.clone()).await {
        Ok(answer) => answer,
        Err(error) => response::error(&error, encoding),
    };
    if head_only {
        response::head_only(&mut answer);
    }
    if compressed {
        answer = compression::compress(answer).await;
    }
    response::do_not_cache(&mut answer);
    audit_id::set(&mut answer, &audit_id);
    server.metrics.observe(&info, answer.status().as_u16(), started.elapsed());
    tracing::debug!(verb = info.verb, path = %info.path, status = answer.status().as_u16(), audit_id, "request");
    answer
}

async fn pass<B>(
    server: &Arc<ApiServer>,
    request: Request<B>,
    connection: &Connection,
    query: Query,
    info: RequestInfo,
) -> ApiResult<Answer>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let deadline =
        query.timeout()?.filter(|_| !info.is_long_running()).map_or(DEADLINE, |asked| asked.min(DEADLINE));
    let (mut head, incoming) = request.into_parts();
    let user = authentication::authenticate(server, connection, &mut head.headers).await?;
    let proxied = connection.peer.as_ref().is_some_and(|peer| peer.is_front_proxy);
    let user = impersonation::act_as(server, &mut head.headers, user, proxied).await?;
    let _permit = limits::admit(server, &info, &user)?;
    authorization::authorize(server, &info, &user, proxied).await?;
    let serve = async {
        let body = body::read(incoming).await?;
        let upgrade = head.extensions.remove();
        let call = Call { headers: head.headers, query, info, user, proxied, body, upgrade };
        verbs::serve(server, call).await
    };
    match tokio::time::timeout(deadline, serve).await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError::timeout()),
    }
}

/// The one name that a field selector asks for, so that permission can be asked for it alone.
fn named(query: &Query) -> Option<String> {
    let mut terms = query.text("fieldSelector").split(',');
    terms.find_map(|term| {
        let (path, value) = term.split_once("==").or_else(|| term.split_once('='))?;
        (path == "metadata.name").then(|| value.to_owned())
    })
}
