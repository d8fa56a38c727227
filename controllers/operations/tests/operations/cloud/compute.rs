//! Calls of the compute service.

use std::collections::BTreeMap;

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::{FakeCloud, unused};

#[async_trait]
impl ComputeService for FakeCloud {
    async fn flavors(&self) -> CloudResult<Vec<Flavor>> {
        Ok(Vec::new())
    }

    async fn flavor_extra_specs(&self, _: &str) -> CloudResult<BTreeMap<String, String>> {
        unused("flavor_extra_specs")
    }

    async fn compute_zones(&self) -> CloudResult<Vec<String>> {
        unused("compute_zones")
    }

    async fn create_server_group(&self, _: &str, _: &str) -> CloudResult<ServerGroup> {
        unused("create_server_group")
    }

    async fn delete_server_group(&self, _: &str) -> CloudResult<()> {
        unused("delete_server_group")
    }

    async fn has_key_pair(&self, _: &str) -> CloudResult<bool> {
        unused("has_key_pair")
    }

    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>> {
        Ok(Vec::new())
    }

    async fn servers(&self) -> CloudResult<Vec<Server>> {
        unused("servers")
    }

    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>> {
        self.look(|nova| {
            let all = nova.instances.values().map(|instance| instance.server.clone());
            Ok(all.filter(|server| server.name == name).collect())
        })
    }

    async fn server(&self, id: &str) -> CloudResult<Server> {
        self.look(|nova| nova.instance(id).map(|instance| instance.server.clone()))
    }

    async fn create_server(&self, new: &NewServer) -> CloudResult<String> {
        let new = new.clone();
        self.effect(move |nova| nova.create(&new))
    }

    async fn delete_server(&self, id: &str) -> CloudResult<()> {
        let id = id.to_owned();
        self.effect(move |nova| nova.delete(&id))
    }

    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>> {
        let id = id.to_owned();
        self.effect(move |nova| nova.reboot(&id, kind))
    }

    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>> {
        let id = id.to_owned();
        self.effect(move |nova| nova.set_power_state(&id, state))
    }

    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>> {
        let (id, rebuild) = (id.to_owned(), rebuild.clone());
        self.effect(move |nova| nova.rebuild(&id, &rebuild))
    }

    async fn console_log(&self, server: &str, _lines: u32) -> CloudResult<String> {
        self.look(|nova| nova.instance(server).map(|_| String::new()))
    }

    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>> {
        self.look(|nova| {
            let instance = nova.instance(server)?;
            Ok(instance.log.iter().map(|(record, _)| record.clone()).collect())
        })
    }

    async fn action(&self, _: &str, _: &str) -> CloudResult<ActionRecord> {
        unused("action")
    }

    async fn detach_volume(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("detach_volume")
    }

    async fn purge_server(&self, _: &str) -> CloudResult<()> {
        unused("purge_server")
    }
}
