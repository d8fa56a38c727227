//! gRPC channel to etcd's members.

use std::collections::HashMap;

use apiserver_executor::{InlineExecutor, Spawner, spawn_detached};
use etcd_client::{BalancedChannelBuilder, Channel, TlsOptions};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch as signal;
use tonic::body::Body;
use tonic::codegen::http::{Request, Uri};
use tonic::transport::Endpoint;
use tonic::transport::channel::Change;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use crate::eager_end_stream::EagerEndStream;

/// Channel of which all parts run in one task: the balancer over the members, and every connection with its requests.
/// By default they are five tasks that wake each other for each request.
#[derive(Debug)]
pub(crate) struct InlineChannel {
    /// TLS of new connections, if they have any. After each change, every member gets a new connection.
    pub(crate) tls: signal::Receiver<Option<TlsOptions>>,
}

impl BalancedChannelBuilder for InlineChannel {
    type Error = tonic::transport::Error;

    fn balanced_channel(
        self,
        capacity: usize,
    ) -> Result<(Channel, Sender<Change<Uri, Endpoint>>), Self::Error> {
        let parts = InlineExecutor::default();
        let spawner = parts.spawner();
        let (channel, members) =
            tonic::transport::Channel::balance_channel_with_executor(capacity, spawner.clone());
        spawn_detached("etcd channel", parts);
        let (sender, changes) = mpsc::channel(capacity);
        spawn_detached("etcd members", forward_members(changes, members, spawner, self.tls));
        let channel = channel
            .map_request(|request: Request<Body>| request.map(|body| Body::new(EagerEndStream::new(body))));
        Ok((Channel::Custom(BoxCloneSyncService::new(channel.map_err(Into::into))), sender))
    }
}

/// Forwards changes of the members, and makes their connections part of the task.
async fn forward_members(
    mut changes: Receiver<Change<Uri, Endpoint>>,
    members: Sender<Change<Uri, Endpoint>>,
    spawner: Spawner,
    mut tls: signal::Receiver<Option<TlsOptions>>,
) {
    let mut known: HashMap<Uri, Endpoint> = HashMap::new();
    loop {
        let forwarded = tokio::select! {
            change = changes.recv() => match change {
                None => return,
                Some(Change::Insert(uri, endpoint)) => {
                    let endpoint = endpoint.executor(spawner.clone());
                    known.insert(uri.clone(), endpoint.clone());
                    vec![Change::Insert(uri, endpoint)]
                }
                Some(Change::Remove(uri)) => {
                    known.remove(&uri);
                    vec![Change::Remove(uri)]
                }
            },
            Ok(()) = tls.changed() => {
                let tls = tls.borrow_and_update().clone();
                with_tls(&mut known, tls.as_ref());
                // The balancer replaces a member that it knows. The old connection ends with its calls.
                known.iter().map(|(uri, endpoint)| Change::Insert(uri.clone(), endpoint.clone())).collect()
            }
        };
        for change in forwarded {
            if members.send(change).await.is_err() {
                return;
            }
        }
    }
}

/// Gives new TLS to all members. The options have been checked before.
fn with_tls(members: &mut HashMap<Uri, Endpoint>, tls: Option<&TlsOptions>) {
    for endpoint in members.values_mut() {
        if let Some(Ok(renewed)) = tls.map(|tls| endpoint.clone().tls_config(tls.clone())) {
            *endpoint = renewed;
        }
    }
}
