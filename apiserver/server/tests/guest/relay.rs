//! Network between a server and its etcd, which a test can cut.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to a port. While it is cut, connections stay open and nothing passes, as behind a broken switch.
pub(crate) struct Relay {
    pub(crate) port: u16,
    cut: watch::Sender<bool>,
}

impl Relay {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, cut) = (listener.local_addr().unwrap().port(), watch::Sender::new(false));
        let seen = cut.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(forward(from_client, to_server, seen.clone()));
                tokio::spawn(forward(from_server, to_client, seen.clone()));
            }
        });
        Self { port, cut }
    }

    pub(crate) fn set_cut(&self, is_cut: bool) {
        self.cut.send_replace(is_cut);
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut cut: watch::Receiver<bool>) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if cut.wait_for(|is_cut| !is_cut).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
