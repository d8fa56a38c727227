//! Byte streams to a static Pod of a Node.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use k8s_openapi::api::core::v1::Pod;
use kube::api::Portforwarder;
use kube::{Api, Client};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::describe;

/// Namespace of the static Pods that kubeadm creates.
const NAMESPACE: &str = "kube-system";

/// Stream to a static Pod. The forwarding ends with it.
pub(crate) struct Forwarded {
    stream: DuplexStream,
    forwarder: Portforwarder,
}

impl Forwarded {
    /// Forwards a port from a static Pod that kubeadm makes, through the API server.
    pub(crate) async fn open(client: &Client, pod: &str, port: u16) -> Result<Self, String> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let forwarder = pods.portforward(pod, &[port]).await;
        let mut forwarder = forwarder.map_err(|error| {
            format!("cannot forward port {port} of Pod {NAMESPACE}/{pod}: {}", describe(&error))
        })?;
        match forwarder.take_stream(port) {
            Some(stream) => Ok(Self { stream, forwarder }),
            None => Err(format!("Pod {NAMESPACE}/{pod}: port {port} is not forwarded")),
        }
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        self.forwarder.abort();
    }
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forwarded")
    }
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
