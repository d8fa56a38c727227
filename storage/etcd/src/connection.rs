//! Connection to the members of an etcd.

use std::sync::Arc;

use etcd_client::{Client, TlsOptions};
use storage_contract::{StoreError, StoreResult};
use tokio::sync::watch as signal;

use crate::calls::Calls;
use crate::channel::InlineChannel;
use crate::{EtcdConfiguration, error, version};

/// Connection to an etcd.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// TLS of new connections. A new value makes new connections.
    pub(crate) tls: Arc<signal::Sender<Option<TlsOptions>>>,
    pub(crate) calls: Calls,
    /// True if all members report the progress of watches soundly.
    pub(crate) sound_progress: bool,
}

impl Connection {
    pub(crate) async fn open(configuration: &EtcdConfiguration) -> StoreResult<Self> {
        let tls = Arc::new(signal::Sender::new(None));
        let opening = async {
            let versions = version::of_members(configuration).await?;
            let (members, options) = (&configuration.endpoints, configuration.options());
            let channel = InlineChannel { tls: tls.subscribe() };
            let client = Client::connect_with_balanced_channel(members, Some(options), channel).await?;
            Ok::<_, etcd_client::Error>((client, versions))
        };
        let (client, versions) = match tokio::time::timeout(configuration.deadline, opening).await {
            Ok(result) => result.map_err(|error| error::read("connect", error))?,
            Err(elapsed) => {
                return Err(StoreError::Unavailable { operation: "connect", source: Box::new(elapsed) });
            }
        };
        let sound_progress = versions.iter().all(|version| version::has_sound_progress(version));
        // A server that lacks a key connects each second. It reports the connection that it uses.
        tracing::debug!(?versions, sound_progress, "connected to etcd");
        let members = configuration.endpoints.len();
        let calls = Calls::new(client.kv_client(), members, configuration.deadline);
        Ok(Self { client, tls, calls, sound_progress })
    }
}
