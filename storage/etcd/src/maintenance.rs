//! Maintenance of an etcd cluster: space, limits, defragmentation and the alarm about a full database.

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions, Compare, CompareOp, Txn, TxnOp,
};
use storage_contract::{StoreError, StoreResult};

use crate::members::within;
use crate::{EtcdConfiguration, Member, Members, version};

/// Longest defragmentation of one member. etcd rewrites the database, at some hundred MB per second on a slow disk.
const DEFRAGMENTATION: Duration = Duration::from_mins(10);

/// Revision that no key has and etcd never reaches, so that a transaction never writes and a compaction removes nothing.
const NEVER: i64 = i64::MAX;

/// State of one member that matters for its space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSpace {
    /// The member.
    pub member: Member,
    /// Version of its program.
    pub version: String,
    /// True if watches on it report their progress soundly.
    pub has_sound_progress: bool,
    /// Id of its cluster.
    pub cluster: u64,
    /// True if it leads the cluster.
    pub is_leader: bool,
    /// Size of its database, in bytes.
    pub size: u64,
    /// Bytes of the database that are in use.
    pub in_use: u64,
    /// Size above which it refuses writes, in bytes. 0: it does not say, which is so before etcd 3.6.
    pub quota: u64,
    /// Entry of the log that it has applied.
    pub applied: u64,
    /// True if the alarm about a full database is set.
    pub is_full: bool,
}

impl MemberSpace {
    /// Returns the bytes that a defragmentation frees.
    pub const fn free(&self) -> u64 {
        self.size.saturating_sub(self.in_use)
    }
}

/// Limits of etcd that only an attempt shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// True if a transaction may have 128 operations, which is the default.
    pub takes_transactions: bool,
    /// True if a request may have the largest value of the configuration.
    pub takes_values: bool,
}

/// Maintenance of a cluster.
#[derive(Debug, Clone)]
pub struct Maintenance {
    configuration: EtcdConfiguration,
}

impl Maintenance {
    /// Operations that one transaction must take: the server writes batches of them.
    pub const OPERATIONS: usize = 128;

    /// Creates it. It connects with each call.
    pub const fn new(configuration: EtcdConfiguration) -> Self {
        Self { configuration }
    }

    /// Returns the state of each member of the list, or the error of one that does not answer.
    ///
    /// # Errors
    /// That of the list of members.
    pub async fn members(&self) -> StoreResult<Vec<(Member, StoreResult<MemberSpace>)>> {
        let members = Members::connect(self.configuration.clone()).await?.list().await?;
        let states = members.into_iter().map(|member| async {
            let state = self.state(&member).await;
            (member, state)
        });
        Ok(futures::future::join_all(states).await)
    }

    /// Returns the state of a member.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn state(&self, member: &Member) -> StoreResult<MemberSpace> {
        let mut client = self.client_of(member).await?;
        let found = within(&self.configuration, "status", client.status()).await?;
        let bytes = |size: i64| u64::try_from(size).unwrap_or_default();
        Ok(MemberSpace {
            member: member.clone(),
            version: found.version().to_owned(),
            has_sound_progress: version::has_sound_progress(found.version()),
            cluster: found.header().map(etcd_client::ResponseHeader::cluster_id).unwrap_or_default(),
            is_leader: found.leader() == member.id,
            size: bytes(found.db_size()),
            in_use: bytes(found.raft_used_db_size()),
            quota: bytes(found.db_size_quota()),
            applied: found.raft_applied_index(),
            is_full: found.errors().iter().any(|text| text.contains("NOSPACE")),
        })
    }

    /// Defragments one member. It answers nothing until then.
    ///
    /// # Errors
    /// `Refused`, without the role `root`; `Unavailable`.
    pub async fn defragment(&self, member: &Member) -> StoreResult<()> {
        let mut client = self.client_of(member).await?;
        let patient = EtcdConfiguration { deadline: DEFRAGMENTATION, ..self.configuration.clone() };
        within(&patient, "defragment", client.defragment()).await.map(drop)
    }

    /// Makes another member the leader.
    ///
    /// # Errors
    /// `Refused`, without the role `root`, or if the member is no leader; `Unavailable`.
    pub async fn move_leader(&self, leader: &Member, target: &Member) -> StoreResult<()> {
        let mut client = self.client_of(leader).await?;
        within(&self.configuration, "move leader", client.move_leader(target.id)).await.map(drop)
    }

    /// Removes the history before the newest revision, and waits until its space can be used again.
    ///
    /// # Errors
    /// `Refused`, without the permission; `Unavailable`.
    pub async fn compact(&self) -> StoreResult<()> {
        let mut client = self.client().await?;
        let key = format!("{}meta/store", self.configuration.prefix);
        let found = within(&self.configuration, "read the revision", client.get(key, None)).await?;
        let revision = found.header().map(etcd_client::ResponseHeader::revision).unwrap_or_default();
        let options = CompactionOptions::new().with_physical();
        let patient = EtcdConfiguration { deadline: DEFRAGMENTATION, ..self.configuration.clone() };
        match within(&patient, "compact", client.compact(revision, Some(options))).await {
            Err(error) if error.to_string().contains("has been compacted") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Clears the alarm about a full database at all members.
    ///
    /// # Errors
    /// `Refused`, without the role `root`; `Unavailable`.
    pub async fn disarm(&self) -> StoreResult<()> {
        let mut client = self.client().await?;
        let list = client.alarm(AlarmAction::Get, AlarmType::Nospace, None);
        let found = within(&self.configuration, "list the alarms", list).await?;
        for alarm in found.alarms() {
            // etcd clears an alarm only of the member that is named.
            let mut options = AlarmOptions::new();
            options.with_member(alarm.member_id());
            let clear = client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options));
            within(&self.configuration, "clear the alarm", clear).await?;
        }
        Ok(())
    }

    /// Tries the limits of etcd with transactions whose condition is never true: nothing is written.
    ///
    /// # Errors
    /// `Unavailable`; `Refused`, if the role may not write below the prefix.
    pub async fn limits(&self) -> StoreResult<Limits> {
        let (small, value) = (vec![0_u8; 1], vec![0_u8; self.configuration.largest_value]);
        let takes_transactions = self.attempt(Self::OPERATIONS, &small, "too many operations").await?;
        let takes_values = self.attempt(1, &value, "too large").await?;
        Ok(Limits { takes_transactions, takes_values })
    }

    /// Reports whether the user may remove the history of old revisions. It tries that with a revision that etcd has not
    /// reached, so that nothing is removed. etcd checks the permission first.
    ///
    /// # Errors
    /// `Unavailable`; `Refused` for another reason than the permission.
    pub async fn may_compact(&self) -> StoreResult<bool> {
        let mut client = self.client().await?;
        match within(&self.configuration, "try a compaction", client.compact(NEVER, None)).await {
            Ok(_) => Ok(true),
            Err(error) if is_about(&error, "future revision") => Ok(true),
            Err(error) if is_about(&error, "permission denied") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns false if etcd refuses the transaction with this reason.
    async fn attempt(&self, operations: usize, value: &[u8], reason: &str) -> StoreResult<bool> {
        let mut client = self.client().await?;
        let key = |number: usize| format!("{}storage-check/{number}", self.configuration.prefix);
        let puts = (0..operations).map(|number| TxnOp::put(key(number), value, None));
        let never = Compare::mod_revision(key(0), CompareOp::Equal, NEVER);
        let transaction = Txn::new().when([never]).and_then(puts.collect::<Vec<_>>());
        match within(&self.configuration, "try a transaction", client.txn(transaction)).await {
            Ok(_) => Ok(true),
            Err(error) if is_about(&error, reason) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn client(&self) -> StoreResult<Client> {
        let connecting = Client::connect(&self.configuration.endpoints, Some(self.configuration.options()));
        within(&self.configuration, "connect", connecting).await
    }

    async fn client_of(&self, member: &Member) -> StoreResult<Client> {
        // Without a leader a member would refuse the query.
        let options = self.configuration.options().with_require_leader(false);
        let connecting = Client::connect(&member.client_urls, Some(options));
        within(&self.configuration, "connect", connecting).await
    }
}

/// Returns true if an error or its cause has this text. gRPC has words of its own for a message above its limit.
fn is_about(error: &StoreError, reason: &str) -> bool {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let text = format!("{error} {cause}");
    text.contains(reason) || text.contains("larger than max")
}
