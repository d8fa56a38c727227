//! Access to the etcd members of a stacked control plane.

mod access;
mod call;
mod messages;
mod tls;

use std::fmt::{self, Debug};

use async_trait::async_trait;

use crate::WorkloadError;

pub use access::EtcdAccess;

/// Member of an etcd cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Id, unique in the etcd cluster.
    pub id: u64,
    /// Name, which kubeadm takes from the Node. Empty until the member has started once.
    pub name: String,
    /// URLs for other members.
    pub peer_urls: Vec<String>,
    /// URLs for clients.
    pub client_urls: Vec<String>,
    /// True until the member is promoted; it has no vote before that.
    pub is_learner: bool,
}

/// Alarm of an etcd member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmKind {
    /// The quota of the database is exhausted.
    NoSpace,
    /// The data of the member differs from that of the others.
    Corrupt,
    /// An alarm that this version does not know, by its number.
    Other(i32),
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace => f.write_str("NOSPACE"),
            Self::Corrupt => f.write_str("CORRUPT"),
            Self::Other(number) => write!(f, "alarm {number}"),
        }
    }
}

/// Alarm with its member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Id of the member.
    pub member_id: u64,
    /// The alarm.
    pub kind: AlarmKind,
}

/// Client certificate for etcd, and the authority that signed the certificates of the members. All in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdCredentials {
    /// Certificates of the authority.
    pub ca: Vec<u8>,
    /// Client certificate, with intermediates if there are any.
    pub certificate: Vec<u8>,
    /// Private key of the client certificate.
    pub key: Vec<u8>,
}

/// Not derived: the key is secret.
impl Debug for EtcdCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EtcdCredentials")
    }
}

/// Calls of an etcd cluster that controllers make.
#[async_trait]
pub trait Etcd: Send + Sync + Debug {
    /// Returns the members, as a quorum knows them.
    ///
    /// # Errors
    /// No member answered.
    async fn members(&self) -> Result<Vec<Member>, WorkloadError>;

    /// Returns the alarms of all members.
    ///
    /// # Errors
    /// No member answered.
    async fn alarms(&self) -> Result<Vec<Alarm>, WorkloadError>;

    /// Returns the id of the leader.
    ///
    /// # Errors
    /// No member answered, or there is no leader.
    async fn leader(&self) -> Result<u64, WorkloadError>;

    /// Makes another member the leader. Succeeds if it is the leader already.
    ///
    /// # Errors
    /// The leader cannot be reached, or refuses.
    async fn move_leader(&self, to: u64) -> Result<(), WorkloadError>;

    /// Adds a member without a vote, which other members reach at this URL. It has no name until it starts. By default, etcd has
    /// one such member at most.
    ///
    /// # Errors
    /// No member answered, or etcd refuses: there is such a member already, or one with this URL.
    async fn add_learner(&self, peer_url: &str) -> Result<(), WorkloadError>;

    /// Removes a member. Succeeds if it does not exist.
    ///
    /// # Errors
    /// No member answered, etcd refuses, or it is the last member.
    async fn remove_member(&self, id: u64) -> Result<(), WorkloadError>;
}
