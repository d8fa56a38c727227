//! gRPC channel to etcd's members.

use apiserver_executor::{InlineExecutor, Spawner, spawn_detached};
use etcd_client::{BalancedChannelBuilder, Channel};
use tokio::sync::mpsc::{self, Receiver, Sender};
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
pub(crate) struct InlineChannel;

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
        spawn_detached("etcd members", forward_members(changes, members, spawner));
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
) {
    while let Some(change) = changes.recv().await {
        let change = match change {
            Change::Insert(uri, endpoint) => Change::Insert(uri, endpoint.executor(spawner.clone())),
            Change::Remove(uri) => Change::Remove(uri),
        };
        if members.send(change).await.is_err() {
            return;
        }
    }
}
