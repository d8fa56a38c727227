//! Access to etcd through the API server of its own cluster.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use prost::Message;
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::call::{call, connect};
use super::messages as wire;
use super::{Alarm, AlarmKind, Etcd, EtcdCredentials, Member};
use crate::WorkloadError;

const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
const MEMBER_ADD: &str = "/etcdserverpb.Cluster/MemberAdd";
const MEMBER_REMOVE: &str = "/etcdserverpb.Cluster/MemberRemove";
const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const MOVE_LEADER: &str = "/etcdserverpb.Maintenance/MoveLeader";

/// Etcd members as Pods of a workload cluster. Each call tries the Nodes in order until one answers.
pub struct EtcdAccess {
    client: Client,
    nodes: Vec<String>,
    tls: Arc<ClientConfig>,
    /// The connection that worked last, with its Node.
    last: Mutex<Option<(String, Channel)>>,
}

impl fmt::Debug for EtcdAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdAccess").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl EtcdAccess {
    /// Prepares the access through a client of the workload cluster. `nodes` are the names of control plane Nodes in
    /// the order of the attempts. No call is made yet.
    ///
    /// # Errors
    /// A part of the credentials is not the PEM that it should be.
    pub fn new(
        client: Client,
        nodes: Vec<String>,
        credentials: &EtcdCredentials,
    ) -> Result<Self, WorkloadError> {
        let tls = super::tls::client_config(credentials).map_err(WorkloadError::Etcd)?;
        Ok(Self { client, nodes, tls: Arc::new(tls), last: Mutex::new(None) })
    }

    /// Calls the first Node that answers. An answer that refuses is an answer.
    async fn call<Q, A>(&self, path: &'static str, request: Q, nodes: &[&str]) -> Result<A, Refused>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut failures = Vec::new();
        for node in nodes {
            match self.call_node(node, path, request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(Refused { code: Some(code), text }) if !may_differ_elsewhere(code) => {
                    return Err(Refused { code: Some(code), text });
                }
                Err(refused) => failures.push(format!("{node}: {}", refused.text)),
            }
        }
        let text = if failures.is_empty() {
            "there is no Node to ask".to_owned()
        } else {
            format!("no member answered ({})", failures.join("; "))
        };
        Err(Refused { code: None, text })
    }

    /// Calls one Node, over the last connection if it is to the same Node.
    async fn call_node<Q, A>(&self, node: &str, path: &'static str, request: Q) -> Result<A, Refused>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let known = self.last.lock().await.take().filter(|(name, _)| name == node);
        let channel = match known {
            Some((_, channel)) => channel,
            None => connect(&self.client, node, &self.tls).await.map_err(Refused::unreachable)?,
        };
        let answer = call(channel.clone(), path, request).await;
        if answer.as_ref().err().is_none_or(|status| !may_differ_elsewhere(status.code())) {
            *self.last.lock().await = Some((node.to_owned(), channel));
        }
        answer.map_err(|status| Refused::from(&status))
    }

    /// The Nodes in order, that of the last connection first.
    async fn in_order(&self) -> Vec<&str> {
        let last = self.last.lock().await.as_ref().map(|(node, _)| node.clone());
        let mut nodes: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
        nodes.sort_by_key(|node| last.as_deref() != Some(*node));
        nodes
    }
}

/// Error of a call.
struct Refused {
    /// The answer's code, if there was an answer.
    code: Option<Code>,
    text: String,
}

impl Refused {
    fn unreachable(text: String) -> Self {
        Self { code: None, text }
    }
}

impl From<&Status> for Refused {
    fn from(status: &Status) -> Self {
        Self { code: Some(status.code()), text: status.message().to_owned() }
    }
}

impl From<Refused> for WorkloadError {
    fn from(refused: Refused) -> Self {
        Self::Etcd(refused.text)
    }
}

/// Says whether another member may answer in another way.
fn may_differ_elsewhere(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Internal | Code::Cancelled
    )
}

#[async_trait]
impl Etcd for EtcdAccess {
    async fn members(&self) -> Result<Vec<Member>, WorkloadError> {
        let request = wire::MemberListRequest { linearizable: true };
        let answer: wire::MemberListResponse =
            self.call(MEMBER_LIST, request, &self.in_order().await).await?;
        Ok(answer.members.into_iter().map(Member::from).collect())
    }

    async fn alarms(&self) -> Result<Vec<Alarm>, WorkloadError> {
        let request = wire::AlarmRequest { action: 0 };
        let answer: wire::AlarmResponse = self.call(ALARM, request, &self.in_order().await).await?;
        let alarms = answer.alarms.into_iter();
        Ok(alarms.map(|alarm| Alarm { member_id: alarm.member_id, kind: kind(alarm.alarm) }).collect())
    }

    async fn leader(&self) -> Result<u64, WorkloadError> {
        let answer: wire::StatusResponse = self.call(STATUS, wire::Empty {}, &self.in_order().await).await?;
        match answer.leader {
            0 => Err(WorkloadError::Etcd("it has no leader".to_owned())),
            leader => Ok(leader),
        }
    }

    async fn move_leader(&self, to: u64) -> Result<(), WorkloadError> {
        let (members, leader) = (self.members().await?, self.leader().await?);
        if leader == to {
            return Ok(());
        }
        let found = members.iter().find(|member| member.id == leader && !member.name.is_empty());
        let Some(found) = found else {
            return Err(WorkloadError::Etcd(format!("the leader {leader:x} is no member with a name")));
        };
        let request = wire::MoveLeaderRequest { target_id: to };
        let moved: Result<wire::Empty, Refused> =
            self.call(MOVE_LEADER, request, &[found.name.as_str()]).await;
        moved.map(|_| ()).map_err(WorkloadError::from)
    }

    async fn add_learner(&self, peer_url: &str) -> Result<(), WorkloadError> {
        let request = wire::MemberAddRequest { peer_urls: vec![peer_url.to_owned()], is_learner: true };
        let added: Result<wire::Empty, Refused> =
            self.call(MEMBER_ADD, request, &self.in_order().await).await;
        added.map(|_| ()).map_err(WorkloadError::from)
    }

    async fn remove_member(&self, id: u64) -> Result<(), WorkloadError> {
        let members = self.members().await?;
        let Some(leaving) = members.iter().find(|member| member.id == id) else {
            return Ok(());
        };
        if !members.iter().any(|member| member.id != id && !member.is_learner) {
            let text = format!("member {:?} is the last one with a vote and cannot be removed", leaving.name);
            return Err(WorkloadError::Etcd(text));
        }
        // The member that leaves ends its connections.
        let mut nodes = self.in_order().await;
        nodes.sort_by_key(|node| *node == leaving.name);
        let removed: Result<wire::Empty, Refused> =
            self.call(MEMBER_REMOVE, wire::MemberRemoveRequest { id }, &nodes).await;
        match removed {
            Err(Refused { code: Some(Code::NotFound), .. }) | Ok(_) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }
}

impl From<wire::Member> for Member {
    fn from(member: wire::Member) -> Self {
        let wire::Member { id, name, peer_urls, client_urls, is_learner } = member;
        Self { id, name, peer_urls, client_urls, is_learner }
    }
}

fn kind(number: i32) -> AlarmKind {
    match number {
        1 => AlarmKind::NoSpace,
        2 => AlarmKind::Corrupt,
        other => AlarmKind::Other(other),
    }
}
