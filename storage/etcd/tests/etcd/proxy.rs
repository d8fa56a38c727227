//! Proxy between the store and its etcd that can be cut, or swallow one direction.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// State of the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Weather {
    /// Connections made before the last cut are dead.
    cuts: u64,
    swallow_requests: bool,
    swallow_answers: bool,
}

/// Forwards connections to a server.
pub(crate) struct Proxy {
    port: u16,
    weather: Arc<watch::Sender<Weather>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let kept = Arc::clone(&weather);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await {
                    tokio::spawn(forward(client, server, kept.subscribe()));
                }
            }
        });
        Self { port, weather, accepting }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends every connection, and accepts new ones.
    pub(crate) fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Drops all responses from now on; requests still arrive.
    pub(crate) fn swallow_answers(&self) {
        self.weather.send_modify(|weather| weather.swallow_answers = true);
    }

    /// Drops all requests and responses from now on.
    pub(crate) fn swallow_all(&self) {
        self.weather.send_modify(|weather| {
            weather.swallow_requests = true;
            weather.swallow_answers = true;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn forward(client: TcpStream, server: TcpStream, mut weather: watch::Receiver<Weather>) {
    let born = weather.borrow_and_update().cuts;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = copy(from_client, to_server, weather.clone(), |weather| weather.swallow_requests);
    let answers = copy(from_server, to_client, weather.clone(), |weather| weather.swallow_answers);
    tokio::select! {
        () = requests => {}
        () = answers => {}
        _ = weather.wait_for(|weather| weather.cuts != born) => {}
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    weather: watch::Receiver<Weather>,
    swallowed: fn(&Weather) -> bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let lost = swallowed(&weather.borrow());
        if !lost && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
