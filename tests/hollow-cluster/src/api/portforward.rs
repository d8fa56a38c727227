//! Port-forwards to etcd and to the API server, over a WebSocket with the protocol `v4.channel.k8s.io`.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsAcceptor;

use super::failure::Failure;
use super::kinds::named;
use super::request::Request;
use super::serve::{ApiServer, Body};
use super::websocket::{self, Received};
use crate::cluster::Cluster;
use crate::etcd::grpc;
use crate::json::text;
use crate::lock;

/// Protocol of the WebSocket.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// Port of etcd for clients.
const ETCD: u16 = 2379;

/// Port of the API server on its node. A forward serves only the TLS handshake.
const API_SERVER: u16 = 6443;

/// Bytes in flight in each direction.
const BUFFER: usize = 1 << 20;

/// Returns true if a client wants to change the protocol.
pub(crate) fn is_upgrade(request: &http::Request<Incoming>) -> bool {
    let upgrade = request.headers().get(http::header::UPGRADE);
    upgrade.and_then(|value| value.to_str().ok()).is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
}

/// Starts a port-forward to a pod.
pub(crate) fn handle(
    server: &ApiServer,
    request: &Request,
    upgrade: OnUpgrade,
) -> Result<Response<Body>, Failure> {
    let target = request.target()?;
    let (Some(namespace), Some(name)) = (&target.namespace, &target.name) else {
        return Err(Failure::no_such_path());
    };
    if target.kind.plural != "pods" || target.subresource.as_deref() != Some("portforward") {
        return Err(Failure::no_such_path());
    }
    let cluster = &server.cluster;
    let pod = cluster.store.get("pods", namespace, name);
    let pod = pod.ok_or_else(|| Failure::not_found(named("pods"), name))?;
    let port = [ETCD, API_SERVER].into_iter().find(|port| request.parameter("ports") == port.to_string());
    let port = port.ok_or_else(|| {
        Failure::bad_request(format!("a hollow cluster forwards only the ports {ETCD} and {API_SERVER}"))
    })?;
    let offered = request.header("sec-websocket-protocol");
    if !offered.split(',').any(|protocol| protocol.trim() == PROTOCOL) {
        return Err(Failure::bad_request(format!("the client does not offer the protocol {PROTOCOL}")));
    }
    let node = text(&pod, "/spec/nodeName").to_owned();
    let destination = destination(cluster, &node, text(&pod, "/metadata/labels/component"), port)?;
    let tls = TlsAcceptor::from(Arc::clone(&server.acceptor_config));
    let accepted = websocket::accept(request.header("sec-websocket-key"));
    let (stop, cluster) = (server.stop.clone(), Arc::clone(cluster));
    server.tasks.spawn(async move {
        let run = async {
            let upgraded = upgrade.await.map_err(|error| error.to_string())?;
            forward(cluster, node, (destination, port), tls, upgraded)
                .await
                .map_err(|error| error.to_string())
        };
        tokio::select! {
            ended = run => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a port-forward ended early");
                }
            }
            () = stop.cancelled() => {}
        }
    });
    switching(&accepted)
}

fn switching(accepted: &str) -> Result<Response<Body>, Failure> {
    let mut response = Response::new(Empty::<Bytes>::new().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(http::header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
    let accepted =
        HeaderValue::from_str(accepted).map_err(|error| Failure::bad_request(error.to_string()))?;
    headers.insert("sec-websocket-accept", accepted);
    Ok(response)
}

/// Destination of a forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Member,
    ApiServer,
    /// Nothing listens on the port.
    Refused,
}

fn destination(cluster: &Cluster, node: &str, component: &str, port: u16) -> Result<Destination, Failure> {
    let kubelet = lock(&cluster.nodes).values().any(|held| held.name == node && held.running);
    if !kubelet {
        let message = format!("error dialing backend: dial tcp {node}:10250: i/o timeout");
        return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message));
    }
    let alive = lock(&cluster.etcd).named(node).is_some_and(|member| member.alive);
    Ok(match (component, port) {
        ("etcd", ETCD) if alive => Destination::Member,
        ("kube-apiserver", API_SERVER) => Destination::ApiServer,
        _ => Destination::Refused,
    })
}

async fn forward(
    cluster: Arc<Cluster>,
    node: String,
    (destination, port): (Destination, u16),
    tls: TlsAcceptor,
    upgraded: Upgraded,
) -> std::io::Result<()> {
    let (reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
    // The first message of each channel names its port.
    for channel in [0, 1] {
        websocket::send(&mut writer, channel, &port.to_le_bytes()).await?;
    }
    if destination == Destination::Refused {
        let message =
            format!("error forwarding port {port}: dial tcp 127.0.0.1:{port}: connect: connection refused");
        websocket::send(&mut writer, 1, message.as_bytes()).await?;
        return websocket::close(&mut writer).await;
    }
    let (near, far) = tokio::io::duplex(BUFFER);
    let member = async {
        if destination == Destination::ApiServer {
            return tls.accept(far).await.map(drop);
        }
        if let Err(error) = grpc::serve(cluster, node, far).await {
            tracing::debug!(error, "a connection to etcd ended early");
        }
        Ok(())
    };
    let copy = copy(reader, writer, near);
    tokio::try_join!(member, copy).map(|_| ())
}

/// Carries bytes between the client and the member, until either side ends.
async fn copy(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    near: DuplexStream,
) -> std::io::Result<()> {
    let (mut from_member, mut to_member) = tokio::io::split(near);
    let (pings, mut answers) = tokio::sync::mpsc::channel::<Bytes>(4);
    let incoming = async {
        loop {
            match websocket::read(&mut reader).await? {
                Received::Binary(message) if message.first() == Some(&0) => {
                    to_member.write_all(message.get(1..).unwrap_or_default()).await?;
                }
                Received::Ping(payload) => {
                    let _ = pings.send(payload).await;
                }
                Received::Close => break,
                Received::Binary(_) | Received::Other => {}
            }
        }
        to_member.shutdown().await
    };
    let outgoing = async {
        let mut buffer = vec![0; 32 << 10];
        loop {
            tokio::select! {
                read = from_member.read(&mut buffer) => {
                    let count = read?;
                    if count == 0 {
                        return websocket::close(&mut writer).await;
                    }
                    websocket::send(&mut writer, 0, buffer.get(..count).unwrap_or_default()).await?;
                }
                Some(payload) = answers.recv() => websocket::pong(&mut writer, &payload).await?,
            }
        }
    };
    tokio::select! {
        ended = incoming => ended,
        ended = outgoing => ended,
    }
}
