//! Members of an etcd cluster: their list, and its changes.

use std::future::Future;

use etcd_client::{Client, ClusterClient, Error, MemberAddOptions};
use storage_contract::{StoreError, StoreResult};

use crate::{EtcdConfiguration, error, version};

/// Member of an etcd cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Number that the cluster gave it.
    pub id: u64,
    /// Its name. Empty until it has started for the first time.
    pub name: String,
    /// URLs at which the other members reach it.
    pub peer_urls: Vec<String>,
    /// URLs at which clients reach it. Empty until it has started for the first time.
    pub client_urls: Vec<String>,
    /// True if it receives the data and has no vote.
    pub is_learner: bool,
}

/// Health of a member, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Version of its program.
    pub version: String,
    /// True if it knows a leader.
    pub has_leader: bool,
    /// Size of its database, in bytes.
    pub size: u64,
    /// Alarms and other errors.
    pub errors: Vec<String>,
    /// True if watches on it report their progress soundly.
    pub has_sound_progress: bool,
}

/// Queries one member.
///
/// # Errors
/// `Unavailable`, if it does not answer within the deadline.
pub async fn member_status(configuration: &EtcdConfiguration, endpoint: &str) -> StoreResult<MemberStatus> {
    let querying = async {
        // Without a leader a member would refuse the query.
        let options = configuration.options().with_require_leader(false);
        let mut client = Client::connect([endpoint], Some(options)).await?;
        client.status().await
    };
    let found = within(configuration, "status", querying).await?;
    Ok(MemberStatus {
        version: found.version().to_owned(),
        has_leader: found.leader() != 0,
        size: u64::try_from(found.db_size()).unwrap_or_default(),
        errors: found.errors().to_vec(),
        has_sound_progress: version::has_sound_progress(found.version()),
    })
}

/// Connection through which the list of members is read and changed. The user of the connection needs etcd's role
/// `root`, if etcd authenticates.
pub struct Members {
    client: ClusterClient,
    configuration: EtcdConfiguration,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("configuration", &self.configuration).finish_non_exhaustive()
    }
}

impl Members {
    /// Connects to one of the endpoints.
    ///
    /// # Errors
    /// `Unavailable`, if none answers within the deadline.
    pub async fn connect(configuration: EtcdConfiguration) -> StoreResult<Self> {
        let connecting = Client::connect(&configuration.endpoints, Some(configuration.options()));
        let client = within(&configuration, "connect", connecting).await?;
        Ok(Self { client: client.cluster_client(), configuration })
    }

    /// Returns all members.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn list(&self) -> StoreResult<Vec<Member>> {
        let mut client = self.client.clone();
        let answer = within(&self.configuration, "list members", client.member_list()).await?;
        Ok(answer.members().iter().map(member).collect())
    }

    /// Adds a learner. etcd admits one learner at a time.
    ///
    /// # Errors
    /// `Refused` with etcd's reason; `Unavailable`, also while a member has just started.
    pub async fn add_learner(&self, peer_url: &str) -> StoreResult<()> {
        let mut client = self.client.clone();
        let adding =
            client.member_add([peer_url.to_owned()], Some(MemberAddOptions::new().with_is_learner()));
        within(&self.configuration, "add member", adding).await.map(drop)
    }

    /// Gives a learner a vote.
    ///
    /// # Errors
    /// `Refused`, if the learner has not received all data yet; `Unavailable`.
    pub async fn promote(&self, id: u64) -> StoreResult<()> {
        let mut client = self.client.clone();
        within(&self.configuration, "promote member", client.member_promote(id)).await.map(drop)
    }

    /// Makes another voter the leader, if the leader is this member. Returns true if it was.
    ///
    /// A leader that is removed leaves the writes of that moment without a known outcome, until the others have elected one.
    ///
    /// # Errors
    /// `Refused` with etcd's reason; `Unavailable`.
    pub async fn hand_over_leadership(&self, from: &Member, to: u64) -> StoreResult<bool> {
        let handing_over = Box::pin(async {
            // Only the leader hands over.
            let client = Client::connect(&from.client_urls, Some(self.configuration.options())).await?;
            let mut maintenance = client.maintenance_client();
            if maintenance.status().await?.leader() != from.id {
                return Ok(false);
            }
            maintenance.move_leader(to).await?;
            Ok(true)
        });
        within(&self.configuration, "move leader", handing_over).await
    }

    /// Removes a member. Its process ends.
    ///
    /// # Errors
    /// `Refused`, if too few of the other members are healthy; `Unavailable`.
    pub async fn remove(&self, id: u64) -> StoreResult<()> {
        let mut client = self.client.clone();
        within(&self.configuration, "remove member", client.member_remove(id)).await.map(drop)
    }
}

pub(crate) async fn within<T>(
    configuration: &EtcdConfiguration,
    operation: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> StoreResult<T> {
    match tokio::time::timeout(configuration.deadline, call).await {
        Ok(result) => result.map_err(|error| error::change(operation, error)),
        Err(elapsed) => Err(StoreError::Unavailable { operation, source: Box::new(elapsed) }),
    }
}

fn member(found: &etcd_client::Member) -> Member {
    Member {
        id: found.id(),
        name: found.name().to_owned(),
        peer_urls: found.peer_urls().to_vec(),
        client_urls: found.client_urls().to_vec(),
        is_learner: found.is_learner(),
    }
}
