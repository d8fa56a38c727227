//! API server that forwards ports of Pods, as a kubelet answers over WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

/// Fake server. It ends with this value.
pub(crate) struct Forwarder {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl Forwarder {
    /// Forwards port 2379 of `etcd-<name>` to a port of this host.
    pub(crate) async fn start(ports: Vec<(String, u16)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ports = Arc::new(ports);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&ports)));
            }
        });
        Self { address, _task: task }
    }

    pub(crate) fn kubeconfig(&self) -> Vec<u8> {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: b, user: c}}}}]\n\
             clusters: [{{name: b, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: c, user: {{}}}}]\n",
            self.address
        )
        .into_bytes()
    }
}

async fn serve(stream: TcpStream, ports: Arc<Vec<(String, u16)>>) {
    let mut target = None;
    #[allow(clippy::result_large_err, reason = "the callback's type is that of the library")]
    let accepted = accept_hdr_async(stream, |request: &Request, mut response: Response| {
        let uri = request.uri().to_string();
        let wanted = |name: &str| format!("/api/v1/namespaces/kube-system/pods/etcd-{name}/portforward?");
        target = ports.iter().find(|(name, _)| uri.starts_with(&wanted(name))).map(|(_, port)| *port);
        if target.is_none() {
            let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods not found",
                             "reason":"NotFound","code":404}"#;
            let mut refused = ErrorResponse::new(Some(status.to_owned()));
            *refused.status_mut() = 404.try_into().unwrap();
            refused.headers_mut().insert("content-length", status.len().into());
            return Err(refused);
        }
        assert!(uri.ends_with("ports=2379"), "{uri}");
        response.headers_mut().insert("sec-websocket-protocol", "v4.channel.k8s.io".parse().unwrap());
        Ok(response)
    });
    if let (Ok(socket), Some(port)) = (accepted.await, target) {
        forward(socket, port).await;
    }
}

/// Channel 0 carries data, channel 1 errors. The first frame of each is the port, low byte first.
async fn forward(mut socket: WebSocketStream<TcpStream>, port: u16) {
    for channel in [0, 1] {
        let [low, high] = 2379_u16.to_le_bytes();
        socket.send(Message::binary(vec![channel, low, high])).await.unwrap();
    }
    let Ok(mut etcd) = TcpStream::connect(("127.0.0.1", port)).await else {
        let _ = socket.send(Message::binary(b"\x01connection refused".to_vec())).await;
        return;
    };
    let mut buffer = vec![0_u8; 4096];
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Binary(bytes))) if bytes.first() == Some(&0) => {
                    if etcd.write_all(&bytes[1..]).await.is_err() { return }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            read = etcd.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let mut frame = vec![0];
                    frame.extend_from_slice(&buffer[..count]);
                    if socket.send(Message::binary(frame)).await.is_err() { return }
                }
            },
        }
    }
}
