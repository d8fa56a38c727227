//! Calls of extension servers for the hooks in the life of a Cluster with a topology.
//!
//! A call can come again: after a crash, and if a later part of the pass fails. So servers must allow that, as upstream demands
//! it of them.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver_types::Cluster;
use controllers_extensions::{
    AfterClusterUpgradeRequest, AfterControlPlaneInitializedRequest, AfterControlPlaneUpgradeRequest,
    AfterWorkersUpgradeRequest, AnswerCache, BeforeClusterCreateRequest, BeforeClusterDeleteRequest,
    BeforeClusterUpgradeRequest, BeforeControlPlaneUpgradeRequest, BeforeWorkersUpgradeRequest,
    ExtensionError, Extensions, HookRequest, RetryResponse, UpgradeStep, wait_key, without_state,
};
use kube::ResourceExt;

use super::upgrade::Upgrade;
use super::upgrade::hooks::{Answer, Hook, Hooks, Servers};

/// Longest time for which a server that holds a Cluster up is not called. Upstream's.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// Longest message of the servers of a hook in the condition. Unit: characters.
const LONGEST_MESSAGE: usize = 1000;

/// Hooks in the life of a Cluster.
const HOOKS: [Hook; 9] = [
    Hook::BeforeClusterCreate,
    Hook::AfterControlPlaneInitialized,
    Hook::BeforeClusterUpgrade,
    Hook::BeforeControlPlaneUpgrade,
    Hook::AfterControlPlaneUpgrade,
    Hook::BeforeWorkersUpgrade,
    Hook::AfterWorkersUpgrade,
    Hook::AfterClusterUpgrade,
    Hook::BeforeClusterDelete,
];

/// Decision of a pass.
#[derive(Debug)]
pub(super) struct Decided {
    pub upgrade: Upgrade,
    /// Servers have answered, or failed.
    pub has_called: bool,
    /// Failure of the call for the hook that is due. The decision goes up to that hook.
    pub failure: Option<ExtensionError>,
}

/// Calls of a process.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// Messages of servers that hold a Cluster up, until the time of the next call.
    waits: AnswerCache<String>,
}

impl Lifecycle {
    /// Decides on a pass. Between two decisions, it calls the servers of the hook that is due.
    ///
    /// # Errors
    /// Those of the decision. For people.
    pub(super) async fn decide(
        &self,
        extensions: &Extensions,
        cluster: &Cluster,
        decision: impl Fn(Hooks) -> Result<Upgrade, String>,
    ) -> Result<Decided, String> {
        let hooks = HOOKS.into_iter().filter(|hook| extensions.has(*hook)).collect();
        let mut servers = Servers { hooks, answers: BTreeMap::new() };
        // It ends, because each turn answers another hook, or removes one.
        loop {
            let upgrade = decision(Hooks::with(cluster, servers.clone()))?;
            let Some(hook) = upgrade.hooks.due() else {
                let has_called = !servers.answers.is_empty();
                return Ok(Decided { upgrade, has_called, failure: None });
            };
            let call = Call { extensions, cluster, upgrade: &upgrade };
            match Box::pin(self.answer(&call, hook)).await {
                Ok(Some(answer)) => drop(servers.answers.insert(hook, answer)),
                Ok(None) => {
                    servers.hooks.remove(&hook);
                }
                Err(error) => return Ok(Decided { upgrade, has_called: true, failure: Some(error) }),
            }
        }
    }

    /// Returns the answer of the servers of a hook; `None` if none of them is for the namespace of the Cluster. Before the time
    /// that they have set, they are not called, unless their ExtensionConfigs change.
    async fn answer(&self, call: &Call<'_>, hook: Hook) -> Result<Option<Answer>, ExtensionError> {
        let (cluster, namespace) = (call.cluster, call.namespace());
        let handlers = call.extensions.handlers(hook, &namespace).await?;
        if handlers.is_empty() {
            return Ok(None);
        }
        let versions: Vec<String> = handlers.iter().map(|handler| handler.version()).collect();
        let key = format!("{}/{}", wait_key(cluster, hook), versions.join(","));
        if let Some((message, rest)) = self.waits.get(&key) {
            return Ok(Some(Answer::Waits(message, rest)));
        }
        let response = call.send(hook).await?;
        let Some(interval) = response.retry_after() else { return Ok(Some(Answer::Agreed)) };
        let interval = interval.min(LONGEST_WAIT);
        let message: String = response.message.trim().chars().take(LONGEST_MESSAGE).collect();
        let name = cluster.name_any();
        tracing::info!(cluster = name, namespace, %hook, ?interval, "an extension holds a cluster up");
        self.waits.keep(key, message.clone(), interval);
        Ok(Some(Answer::Waits(message, interval)))
    }
}

/// Call of the servers of a hook.
struct Call<'a> {
    extensions: &'a Extensions,
    cluster: &'a Cluster,
    /// Decision up to the hook.
    upgrade: &'a Upgrade,
}

impl Call<'_> {
    fn namespace(&self) -> String {
        self.cluster.namespace().unwrap_or_default()
    }

    /// Sends the request of a hook to all its servers.
    async fn send(&self, hook: Hook) -> Result<RetryResponse, ExtensionError> {
        let cluster = without_state(self.cluster);
        match hook {
            Hook::BeforeClusterCreate => self.all(&BeforeClusterCreateRequest { cluster }).await,
            Hook::BeforeClusterDelete => self.all(&BeforeClusterDeleteRequest { cluster }).await,
            Hook::AfterControlPlaneInitialized => {
                let request = AfterControlPlaneInitializedRequest { cluster };
                self.extensions.call_all(&self.namespace(), &request).await?;
                // It holds nothing up.
                Ok(RetryResponse::default())
            }
            Hook::AfterClusterUpgrade => {
                let request = AfterClusterUpgradeRequest { cluster, kubernetes_version: self.target() };
                self.all(&request).await
            }
            of_step => self.send_of_step(of_step, cluster).await,
        }
    }

    /// Sends the request of a hook that has the versions of an upgrade.
    async fn send_of_step(&self, hook: Hook, cluster: Cluster) -> Result<RetryResponse, ExtensionError> {
        let plan = &self.upgrade.plan;
        let (control_plane_upgrades, workers_upgrades) = (steps(&plan.control_plane), steps(&plan.workers));
        let kubernetes_version = self.upgrade.control_plane.version.clone();
        match hook {
            Hook::BeforeClusterUpgrade => {
                let request = BeforeClusterUpgradeRequest {
                    cluster,
                    from_kubernetes_version: kubernetes_version,
                    to_kubernetes_version: self.target(),
                    control_plane_upgrades,
                    workers_upgrades,
                };
                self.all(&request).await
            }
            Hook::BeforeControlPlaneUpgrade => {
                let request = BeforeControlPlaneUpgradeRequest {
                    cluster,
                    from_kubernetes_version: kubernetes_version,
                    to_kubernetes_version: first(&plan.control_plane),
                    control_plane_upgrades,
                    workers_upgrades,
                };
                self.all(&request).await
            }
            Hook::AfterControlPlaneUpgrade => {
                let request = AfterControlPlaneUpgradeRequest {
                    cluster,
                    kubernetes_version,
                    control_plane_upgrades,
                    workers_upgrades,
                };
                self.all(&request).await
            }
            Hook::BeforeWorkersUpgrade => {
                let request = BeforeWorkersUpgradeRequest {
                    cluster,
                    from_kubernetes_version: self.upgrade.lowest_workers().unwrap_or_default().to_owned(),
                    to_kubernetes_version: first(&plan.workers),
                    control_plane_upgrades,
                    workers_upgrades,
                };
                self.all(&request).await
            }
            Hook::AfterWorkersUpgrade => {
                let request = AfterWorkersUpgradeRequest {
                    cluster,
                    kubernetes_version,
                    control_plane_upgrades,
                    workers_upgrades,
                };
                self.all(&request).await
            }
            // No other hook is in the life of a Cluster.
            _ => Ok(RetryResponse::default()),
        }
    }

    async fn all<R>(&self, request: &R) -> Result<RetryResponse, ExtensionError>
    where
        R: HookRequest<Response = RetryResponse>,
    {
        self.extensions.call_all(&self.namespace(), request).await
    }

    /// Returns the version that the topology demands.
    fn target(&self) -> String {
        self.cluster.spec.topology.as_ref().map(|it| it.version.clone()).unwrap_or_default()
    }
}

fn first(versions: &[String]) -> String {
    versions.first().cloned().unwrap_or_default()
}

fn steps(versions: &[String]) -> Vec<UpgradeStep> {
    versions.iter().map(|version| UpgradeStep { version: version.clone() }).collect()
}
