//! gRPC API of one etcd member, over a stream that a port-forward carries.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::server::WebPkiClientVerifier;
use tokio::io::DuplexStream;
use tokio_rustls::TlsAcceptor;

use super::messages::{
    AlarmMember, AlarmRequest, AlarmResponse, Member, MemberAddRequest, MemberAddResponse,
    MemberRemoveRequest, MembersResponse, MoveLeaderRequest, MoveLeaderResponse, ResponseHeader,
    StatusResponse,
};
use super::{EtcdCluster, EtcdMember};
use crate::api::serve::Body;
use crate::cluster::Cluster;
use crate::{lock, pki};

/// Version that members report.
const VERSION: &str = "3.6.6";

/// Largest request, as etcd has it.
const REQUEST_LIMIT: usize = 1536 << 10;

/// Status codes of gRPC.
const FAILED_PRECONDITION: u8 = 9;
const NOT_FOUND: u8 = 5;
const UNAVAILABLE: u8 = 14;
const UNIMPLEMENTED: u8 = 12;
const INVALID_ARGUMENT: u8 = 3;

/// Error of a call: status code and message.
type CallError = (u8, String);

/// Serves one connection of a client to the member of a node, until the client closes it.
pub(crate) async fn serve(cluster: Arc<Cluster>, node: String, stream: DuplexStream) -> Result<(), String> {
    let authority = cluster.pki.etcd.as_ref().ok_or("etcd is external")?;
    let roots = Arc::new(authority.roots());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, pki::provider()).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let names = vec![node.clone(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let config = pki::server_config(verifier, authority.serving(&node, names)?, &["h2"])?;
    let stream = TlsAcceptor::from(config).accept(stream).await.map_err(|error| error.to_string())?;
    let service = hyper::service::service_fn(move |request| {
        let (cluster, node) = (Arc::clone(&cluster), node.clone());
        async move { Ok::<_, std::convert::Infallible>(respond(&cluster, &node, request).await) }
    });
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(|error| error.to_string())
}

async fn respond(cluster: &Cluster, node: &str, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let body = Limited::new(request.into_body(), REQUEST_LIMIT).collect().await;
    let result = match body {
        // The message follows one byte for the compression and four for the length.
        Ok(body) => call(cluster, node, &path, body.to_bytes().get(5..).unwrap_or_default()).await,
        Err(error) => Err((INVALID_ARGUMENT, error.to_string())),
    };
    let (message, code, text) = match result {
        Ok(message) => (Some(frame(&message)), 0, String::new()),
        Err((code, text)) => (None, code, text),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(u16::from(code)));
    if let Ok(text) = HeaderValue::from_str(&text) {
        trailers.insert("grpc-message", text);
    }
    let frames = message.map(Frame::data).into_iter().chain([Frame::trailers(trailers)]);
    let frames = stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, CallError> {
    T::decode(bytes).map_err(|error| (INVALID_ARGUMENT, error.to_string()))
}

/// Executes a call. A member that is dead does not answer.
async fn call(cluster: &Cluster, node: &str, path: &str, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
    let own = lock(&cluster.etcd).named(node).cloned();
    let Some(own) = own.filter(|member| member.alive) else { return std::future::pending().await };
    let mut etcd = lock(&cluster.etcd);
    let header = |etcd: &EtcdCluster| {
        Some(ResponseHeader { cluster_id: etcd.id, member_id: own.id, revision: 1, raft_term: etcd.term })
    };
    let quorum = |etcd: &EtcdCluster| {
        let lost = || (UNAVAILABLE, "etcdserver: request timed out".to_owned());
        if etcd.has_quorum() { Ok(()) } else { Err(lost()) }
    };
    match path {
        "/etcdserverpb.Cluster/MemberList" => {
            quorum(&etcd)?;
            Ok(MembersResponse { header: header(&etcd), members: members(&etcd) }.encode_to_vec())
        }
        "/etcdserverpb.Cluster/MemberAdd" => add(&mut etcd, &decode(bytes)?, header),
        "/etcdserverpb.Cluster/MemberRemove" => {
            let request: MemberRemoveRequest = decode(bytes)?;
            etcd.remove(request.id).map_err(|text| {
                let code = if text.ends_with("member not found") { NOT_FOUND } else { FAILED_PRECONDITION };
                (code, text.to_owned())
            })?;
            Ok(MembersResponse { header: header(&etcd), members: members(&etcd) }.encode_to_vec())
        }
        "/etcdserverpb.Maintenance/Status" => Ok(status(&etcd, &own, header(&etcd)).encode_to_vec()),
        "/etcdserverpb.Maintenance/Alarm" => {
            quorum(&etcd)?;
            let request: AlarmRequest = decode(bytes)?;
            if request.action == 2 {
                clear(&mut etcd, &request);
            }
            Ok(AlarmResponse { header: header(&etcd), alarms: alarms(&etcd) }.encode_to_vec())
        }
        "/etcdserverpb.Maintenance/MoveLeader" => {
            let request: MoveLeaderRequest = decode(bytes)?;
            if etcd.leader != own.id {
                return Err((FAILED_PRECONDITION, "etcdserver: not leader".to_owned()));
            }
            etcd.move_leader(request.target_id).map_err(|text| (FAILED_PRECONDITION, text.to_owned()))?;
            Ok(MoveLeaderResponse { header: header(&etcd) }.encode_to_vec())
        }
        other => Err((UNIMPLEMENTED, format!("unknown method {other}"))),
    }
}

/// Adds a learner. No client of a hollow cluster adds other members.
fn add(
    etcd: &mut EtcdCluster,
    request: &MemberAddRequest,
    header: impl Fn(&EtcdCluster) -> Option<ResponseHeader>,
) -> Result<Vec<u8>, CallError> {
    let [peer_url] = request.peer_urls.as_slice() else {
        return Err((INVALID_ARGUMENT, "a hollow member has one URL".to_owned()));
    };
    if !request.is_learner {
        return Err((UNIMPLEMENTED, "a hollow etcd adds learners only".to_owned()));
    }
    let id = etcd.add_learner(peer_url).map_err(|text| (FAILED_PRECONDITION, text.to_owned()))?;
    let etcd = &*etcd;
    let members = members(etcd);
    let member = members.iter().find(|member| member.id == id).cloned();
    Ok(MemberAddResponse { header: header(etcd), member, members }.encode_to_vec())
}

fn members(etcd: &EtcdCluster) -> Vec<Member> {
    let member = |member: &EtcdMember| Member {
        id: member.id,
        name: member.name.clone(),
        peer_urls: vec![member.peer_url.clone()],
        client_urls: vec![member.client_url.clone()],
        is_learner: member.learner,
    };
    etcd.members.iter().map(member).collect()
}

fn status(etcd: &EtcdCluster, own: &EtcdMember, header: Option<ResponseHeader>) -> StatusResponse {
    let errors = if etcd.leader == 0 { vec!["etcdserver: no leader".to_owned()] } else { Vec::new() };
    StatusResponse {
        header,
        version: VERSION.to_owned(),
        db_size: 1 << 20,
        leader: etcd.leader,
        raft_index: 1,
        raft_term: etcd.term,
        raft_applied_index: 1,
        errors,
        db_size_in_use: 1 << 19,
        is_learner: own.learner,
    }
}

/// Returns the number of an alarm.
fn number(alarm: &str) -> i32 {
    match alarm {
        "NOSPACE" => 1,
        "CORRUPT" => 2,
        _ => 0,
    }
}

fn alarms(etcd: &EtcdCluster) -> Vec<AlarmMember> {
    let of = |member: &EtcdMember| {
        let id = member.id;
        member
            .alarms
            .clone()
            .into_iter()
            .map(move |alarm| AlarmMember { member_id: id, alarm: number(&alarm) })
    };
    etcd.members.iter().flat_map(of).collect()
}

/// Clears alarms. Member 0 stands for all members, and alarm 0 for all alarms.
fn clear(etcd: &mut EtcdCluster, request: &AlarmRequest) {
    let chosen = |member: &&mut EtcdMember| request.member_id == 0 || member.id == request.member_id;
    for member in etcd.members.iter_mut().filter(chosen) {
        member.alarms.retain(|alarm| request.alarm != 0 && number(alarm) != request.alarm);
    }
}
