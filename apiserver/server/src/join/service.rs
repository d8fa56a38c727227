//! Endpoint of joins.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_http::TokenEndpoint;
use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;
use serde_json::Value;
use storage_contract::StoreError;
use storage_etcd::{Member, Members};
use tokio::sync::Semaphore;

use super::throttle::Throttle;
use super::{Bundle, JoinRequest, JoinTokens, MemberOfEtcd, PATH, Secret, proof};
use crate::etcd_files::EtcdFiles;
use crate::install::{self, Installation, Layout, StoreKind};
use crate::pki;
use crate::recorded_time::judged_now;

/// Requests at the same time. Each may wait for etcd.
const AT_ONCE: usize = 4;

/// Longest wait until etcd accepts another member. It refuses one until all others are connected for five seconds.
const PATIENCE: Duration = Duration::from_secs(40);

/// Pause between two attempts to add a member.
const PAUSE: Duration = Duration::from_secs(1);

/// Endpoint of joins.
#[derive(Debug)]
pub(crate) struct JoinService {
    /// The data directory.
    data: PathBuf,
    tokens: JoinTokens,
    etcd: Option<EtcdFiles>,
    throttle: Throttle,
    seats: Semaphore,
}

impl JoinService {
    /// Creates the endpoint. Its tokens are those of the store of the server; `etcd` is the connection to that store.
    pub(crate) fn new(data: PathBuf, tokens: JoinTokens, etcd: Option<EtcdFiles>) -> Self {
        Self { data, tokens, etcd, throttle: Throttle::default(), seats: Semaphore::new(AT_ONCE) }
    }

    /// Checks the proof and the token of a request.
    async fn admit(&self, from: IpAddr, body: &[u8]) -> ApiResult<JoinRequest> {
        let refused = |why: &str| {
            self.throttle.failed(from, Instant::now());
            tracing::warn!(%from, why, "a join was refused");
            let message = "the join token is not valid: it is unknown, expired, for another node, or used by another one. \
                           Create one with `capstan join-token create`";
            ApiError::untyped(403, message)
        };
        let request: JoinRequest =
            serde_json::from_slice(body).map_err(|_| refused("the request is no join request"))?;
        if !install::is_node_name(&request.node) {
            return Err(refused("the name of the node is invalid"));
        }
        if !proof::is_proved(&request) {
            return Err(refused("the node does not prove that it holds its key"));
        }
        match self.tokens.redeem(&request, judged_now()).await {
            Ok(Ok(())) => Ok(request),
            Ok(Err(rejected)) => Err(refused(&format!("{rejected:?}"))),
            Err(error) => {
                tracing::warn!(%from, error = format!("{error:#}"), "a join token cannot be checked");
                Err(ApiError::unavailable("storage does not answer; nothing was changed"))
            }
        }
    }

    /// Adds the node to etcd, and collects the files.
    async fn bundle(&self, request: &JoinRequest) -> ApiResult<Bundle> {
        let installation = Installation::read_file(&self.data.join(Layout::RECORD))
            .map_err(|error| ApiError::internal(format!("{error:#}")))?;
        let members = match installation.store {
            StoreKind::Embedded => {
                let message = "the store of this installation is a file of its node, so it has one node. Move it to an \
                               etcd first: `capstan storage migrate`";
                return Err(ApiError::untyped(409, message));
            }
            StoreKind::Etcd => self.add(request).await?,
            StoreKind::ExternalEtcd => Vec::new(),
        };
        let mut files = BTreeMap::new();
        for name in installation.shared_files() {
            let text = pki::read(&self.data.join(name));
            let text = text.map_err(|error| ApiError::internal(format!("{error:#}")))?;
            files.insert(name.to_owned(), Secret(text));
        }
        Ok(Bundle { installation, files, members })
    }

    /// Adds the node as a learner of etcd, unless it is a member already. Returns all members.
    async fn add(&self, request: &JoinRequest) -> ApiResult<Vec<MemberOfEtcd>> {
        let peer_url = install::peer_url(request.address);
        let files = self.etcd.as_ref().ok_or_else(|| ApiError::internal("the server has no etcd"))?;
        let configuration = files.read().map_err(|error| ApiError::internal(format!("{error:#}")))?;
        let members = Members::connect(configuration).await.map_err(|error| failed(&error))?;
        let end = Instant::now() + PATIENCE;
        loop {
            let list = members.list().await.map_err(|error| failed(&error))?;
            check_name(&list, &request.node, &peer_url)?;
            if list.iter().any(|member| member.peer_urls.contains(&peer_url)) {
                return Ok(list.into_iter().map(described).collect());
            }
            match members.add_learner(&peer_url).await {
                Ok(()) => tracing::info!(node = request.node, peer_url, "a node joins etcd as a learner"),
                Err(StoreError::Unavailable { .. }) if Instant::now() < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}

/// Refuses a node with the name of another one.
fn check_name(list: &[Member], node: &str, peer_url: &str) -> ApiResult<()> {
    let is_other = |it: &&Member| it.name == node && !it.peer_urls.iter().any(|url| url == peer_url);
    match list.iter().find(is_other) {
        Some(other) => Err(ApiError::untyped(
            409,
            format!(
                "etcd has a member {node:?} at {}. Give this node another --node-name, or run `capstan leave` on the old one",
                other.peer_urls.join(", ")
            ),
        )),
        None => Ok(()),
    }
}

fn failed(error: &StoreError) -> ApiError {
    tracing::warn!(%error, "etcd accepts no member");
    match error {
        StoreError::Refused { reason, .. } if reason.contains("too many learner") => ApiError::untyped(
            409,
            format!(
                "another node is joining: etcd says {reason:?}. Try again when its `capstan join` has ended"
            ),
        ),
        error => ApiError::unavailable(format!("etcd accepts no member now: {error}")),
    }
}

fn described(member: Member) -> MemberOfEtcd {
    let first = |urls: Vec<String>| urls.into_iter().next().unwrap_or_default();
    MemberOfEtcd {
        name: member.name,
        peer_url: first(member.peer_urls),
        client_url: first(member.client_urls),
    }
}

#[async_trait]
impl TokenEndpoint for JoinService {
    fn path(&self) -> &str {
        PATH
    }

    async fn post(&self, from: Option<IpAddr>, body: &[u8]) -> ApiResult<Value> {
        let from = from.unwrap_or_else(|| Ipv4Addr::UNSPECIFIED.into());
        let is_admitted = self.throttle.admits(from, Instant::now());
        let Some(_seat) = self.seats.try_acquire().ok().filter(|_| is_admitted) else {
            return Err(ApiError::untyped(429, "too many joins; try again in a minute"));
        };
        let request = self.admit(from, body).await?;
        let bundle = self.bundle(&request).await?;
        tracing::info!(node = request.node, %from, "a node has received the keys of the installation");
        serde_json::to_value(bundle).map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// Returns the endpoint of a server whose data directory was made by `capstan init` or `capstan join`.
pub(crate) fn open(
    data: &std::path::Path,
    tokens: JoinTokens,
    etcd: Option<EtcdFiles>,
) -> Option<Arc<dyn TokenEndpoint>> {
    if !data.join(Layout::RECORD).exists() {
        return None;
    }
    Some(Arc::new(JoinService::new(data.to_owned(), tokens, etcd)))
}
