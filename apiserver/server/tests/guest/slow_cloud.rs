//! HTTPS in front of the simulated cloud. Its handshakes can be slow: then a client that has begun a call has sent nothing
//! of it yet.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Header with the id of a call that changes the cloud.
const CALL_ID: &str = "x-openstack-request-id";

/// Duration of a slow handshake: a busy machine reads a log and stops a process in that time.
const SLOW: Duration = Duration::from_secs(1);

/// Time at which the handshakes of new connections take place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshakes {
    /// At once.
    Prompt,
    /// After a second.
    Slow,
    /// At once, but those that are slow already wait for another state.
    Held,
}

/// Cloud behind TLS. Each call has a connection of its own.
pub(crate) struct SlowCloud {
    port: u16,
    handshakes: watch::Sender<Handshakes>,
    received: Arc<Mutex<Vec<String>>>,
}

impl SlowCloud {
    /// Starts it in front of a simulator.
    pub(crate) async fn start(simulator: SocketAddr) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, acceptor) = (listener.local_addr().unwrap().port(), tls());
        let (handshakes, received) =
            (watch::Sender::new(Handshakes::Prompt), Arc::<Mutex<Vec<String>>>::default());
        let cloud = Self { port, handshakes, received: Arc::clone(&received) };
        let (seen, forwarding) = (cloud.handshakes.subscribe(), Forwarding { simulator, port, received });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let begun = *seen.borrow();
                tokio::spawn(serve(stream, acceptor.clone(), (begun, seen.clone()), forwarding.clone()));
            }
        });
        cloud
    }

    /// Returns the address, as the simulator has it in its `clouds.yaml`.
    pub(crate) fn auth_url(&self) -> String {
        format!("https://127.0.0.1:{}/v3", self.port)
    }

    pub(crate) fn set(&self, handshakes: Handshakes) {
        self.handshakes.send_replace(handshakes);
    }

    /// Returns true if the call with this id has reached the cloud.
    pub(crate) fn has_received(&self, id: &str) -> bool {
        self.received.lock().unwrap().iter().any(|received| received == id)
    }
}

/// Serves a connection that began in one state of the handshakes.
async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    (begun, mut handshakes): (Handshakes, watch::Receiver<Handshakes>),
    forwarding: Forwarding,
) {
    if begun == Handshakes::Slow {
        tokio::time::sleep(SLOW).await;
        let is_over = handshakes.wait_for(|now| *now != Handshakes::Held).await.is_err();
        if is_over {
            return;
        }
    }
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| forwarding.clone().answer(request));
    let mut builder = hyper::server::conn::http1::Builder::new();
    let _ = builder.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

/// Way to the simulator.
#[derive(Clone)]
struct Forwarding {
    simulator: SocketAddr,
    port: u16,
    received: Arc<Mutex<Vec<String>>>,
}

impl Forwarding {
    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Box<dyn Error + Send + Sync>> {
        if let Some(id) = request.headers().get(CALL_ID) {
            self.received.lock().unwrap().push(id.to_str()?.to_owned());
        }
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, Full::new(body.collect().await?.to_bytes()));
        let stream = TcpStream::connect(self.simulator).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let (mut head, body) = sender.send_request(request).await?.into_parts();
        let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
        // The simulator gives its address as the client has named it, and does not know of TLS.
        let address = format!("127.0.0.1:{}", self.port);
        let body = body.replace(&format!("http://{address}"), &format!("https://{address}"));
        head.headers.remove(CONTENT_LENGTH);
        Ok(Response::from_parts(head, Full::new(Bytes::from(body))))
    }
}

fn tls() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}
