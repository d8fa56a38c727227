//! Compute service of a cloud.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{
    ActionRecord, CloudResult, Flavor, NewServer, PowerState, RebootKind, Rebuild, Server, ServerGroup,
};

/// Compute service (Nova): flavors, zones, key pairs, server groups and servers.
#[async_trait]
pub trait ComputeService: Send + Sync + std::fmt::Debug + 'static {
    /// Lists every flavor that the project sees.
    async fn flavors(&self) -> CloudResult<Vec<Flavor>>;
    /// Reads the extra specs of a flavor in a Nova whose list of flavors does not have them; else none.
    async fn flavor_extra_specs(&self, flavor: &str) -> CloudResult<BTreeMap<String, String>>;

    /// Lists the names of Nova's available availability zones.
    async fn compute_zones(&self) -> CloudResult<Vec<String>>;
    /// Returns true if the user has a key pair of this name.
    async fn has_key_pair(&self, name: &str) -> CloudResult<bool>;
    /// Lists the server groups of the project.
    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>>;
    /// Creates a server group with this policy.
    async fn create_server_group(&self, name: &str, policy: &str) -> CloudResult<ServerGroup>;
    /// Deletes a server group. Its servers stay.
    async fn delete_server_group(&self, id: &str) -> CloudResult<()>;

    /// Lists every server of the project, with details. All reconcilers share this list.
    async fn servers(&self) -> CloudResult<Vec<Server>>;
    /// Lists the servers of the project with exactly this name, for the check before a create.
    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>>;
    /// Reads one server.
    async fn server(&self, id: &str) -> CloudResult<Server>;
    /// Creates a server. Nova responds before it is built.
    async fn create_server(&self, new: &NewServer) -> CloudResult<String>;
    /// Deletes a server. Nova responds before it is deleted.
    async fn delete_server(&self, id: &str) -> CloudResult<()>;
    /// Deletes a server that Nova has deleted and still keeps, with all that it uses.
    async fn purge_server(&self, id: &str) -> CloudResult<()>;
    /// Requests a reboot. Returns Nova's request id of the call, by which [`ComputeService::actions`] names it.
    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>>;
    /// Requests another power state. A server that has it already is an error of class `Conflict`.
    /// Returns Nova's request id of the call.
    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>>;
    /// Requests a rebuild. Returns Nova's request id of the call.
    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>>;
    /// Reads the last lines of a server's console. Nova does not have them before the server is built.
    async fn console_log(&self, server: &str, lines: u32) -> CloudResult<String>;
    /// Reads the instance-action log, newest entry first. Only the newest entries have their events.
    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>>;
    /// Reads one entry of the instance-action log, with its events.
    async fn action(&self, server: &str, request_id: &str) -> CloudResult<ActionRecord>;
    /// Requests that a volume is detached from a server. Nova responds before it is detached. A locked server, a server in
    /// another state and a volume that is being detached are errors of class `Conflict`. The volume from which the server
    /// boots is one of class `Invalid`, or `Forbidden` with an old Nova.
    async fn detach_volume(&self, server: &str, volume: &str) -> CloudResult<()>;
}
