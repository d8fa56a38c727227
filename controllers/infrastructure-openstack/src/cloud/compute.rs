//! Calls of the compute service.

use std::collections::BTreeMap;

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::OpenStackCloud;
use crate::compute;

#[async_trait]
impl ComputeService for OpenStackCloud {
    async fn flavors(&self) -> CloudResult<Vec<Flavor>> {
        Box::pin(self.1.flavors(compute::flavors(&self.0))).await
    }

    async fn flavor_extra_specs(&self, flavor: &str) -> CloudResult<BTreeMap<String, String>> {
        compute::flavor_extra_specs(&self.0, flavor).await
    }

    async fn compute_zones(&self) -> CloudResult<Vec<String>> {
        compute::compute_zones(&self.0).await
    }

    async fn has_key_pair(&self, name: &str) -> CloudResult<bool> {
        compute::has_key_pair(&self.0, name).await
    }

    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>> {
        compute::server_groups(&self.0).await
    }

    async fn create_server_group(&self, name: &str, policy: &str) -> CloudResult<ServerGroup> {
        compute::create_server_group(&self.0, name, policy).await
    }

    async fn delete_server_group(&self, id: &str) -> CloudResult<()> {
        compute::delete_server_group(&self.0, id).await
    }

    async fn servers(&self) -> CloudResult<Vec<Server>> {
        compute::servers(&self.0).await
    }

    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>> {
        compute::servers_named(&self.0, name).await
    }

    async fn server(&self, id: &str) -> CloudResult<Server> {
        compute::server(&self.0, id).await
    }

    async fn create_server(&self, new: &NewServer) -> CloudResult<String> {
        compute::create_server(&self.0, new).await
    }

    async fn delete_server(&self, id: &str) -> CloudResult<()> {
        compute::delete_server(&self.0, id).await
    }

    async fn purge_server(&self, id: &str) -> CloudResult<()> {
        compute::purge_server(&self.0, id).await
    }

    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>> {
        compute::reboot_server(&self.0, id, kind).await
    }

    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>> {
        compute::set_power_state(&self.0, id, state).await
    }

    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>> {
        compute::rebuild_server(&self.0, id, rebuild).await
    }

    async fn console_log(&self, server: &str, lines: u32) -> CloudResult<String> {
        compute::console_log(&self.0, server, lines).await
    }

    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>> {
        compute::actions(&self.0, server).await
    }

    async fn action(&self, server: &str, request_id: &str) -> CloudResult<ActionRecord> {
        compute::action(&self.0, server, request_id).await
    }

    async fn detach_volume(&self, server: &str, volume: &str) -> CloudResult<()> {
        compute::detach_volume(&self.0, server, volume).await
    }
}
