//! Resolution of names of cloud resources to ids. Nothing is created before everything is resolved.

mod image;
mod ports;

pub(crate) use image::{image, image_of_cloud};

use std::sync::Arc;
use std::time::Instant;

use apiserver_types::{FlavorParam, Machine, OpenStackCluster, OpenStackMachine, ResolvedMachineSpec};
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, Flavor, ServerGroup};
use controllers_runtime::{ControllerContext, ReconcileError};

use super::quota_needs::{self, GroupUse, Sizes};
use super::{anti_affinity, desired};

/// Number of ids that an error lists.
const LISTED: usize = 5;

/// Resolver of all names of a machine.
pub(super) struct Resolver<'a> {
    pub context: &'a ControllerContext,
    pub cloud: &'a Arc<dyn Cloud>,
    pub object: &'a OpenStackMachine,
    pub machine: &'a Machine,
    pub cluster: &'a OpenStackCluster,
    /// The machine is in another project than its cluster.
    pub is_elsewhere: bool,
    /// The server was complete once, and is never created again.
    pub is_kept: bool,
}

impl Resolver<'_> {
    /// Resolves all names, or returns an error for the field that matches nothing or too much.
    pub(super) async fn resolve(&self) -> Result<(ResolvedMachineSpec, Sizes), ReconcileError> {
        if !self.is_kept {
            self.check_extensions().await?;
            self.check_key_pair().await?;
        }
        let mut ports = Vec::new();
        for (index, opts) in desired::ports(self.object).iter().enumerate() {
            ports.push(self.port(index, opts).await?);
        }
        let image_id = self.unless_kept(self.image().await)?;
        let flavor = self.unless_kept(flavor(self.cloud, &self.object.spec.flavor).await)?;
        let read = Instant::now();
        let group = self.unless_kept(self.server_group().await)?.flatten();
        let wish = anti_affinity::wish(self.object, self.machine, self.cluster);
        let own = match &wish {
            Some(wish) => anti_affinity::group_of_name(self.cloud.server_groups().await?, &wish.name),
            None => None,
        };
        let new_group = wish.is_some() && own.is_none();
        let resolved = ResolvedMachineSpec {
            image_id,
            flavor_id: flavor.as_ref().map(|flavor| flavor.id.clone()),
            server_group_id: group.as_ref().map(|group| group.id.clone()),
            ports: Some(ports),
        };
        let known = group.or(own).map(|group| (group.name, group.members.len()));
        // The servers of an owner that are created at the same moment share a group that is still to be created.
        let known = known.or_else(|| Some((wish.as_ref()?.name.clone(), 0)));
        let field = if wish.is_some() { quota_needs::ANTI_AFFINITY } else { "spec.serverGroup" };
        let group = known.map(|(name, members)| GroupUse { name, members, read, field });
        let flavor = flavor.unwrap_or_default();
        Ok((resolved, Sizes { flavor, group, new_group, floating_ip: false }))
    }

    /// Returns nothing for a name that matches nothing or too much, if the server is kept. A moved or restored machine has
    /// lost its status, and the image that it was made from may be gone. The server works without.
    fn unless_kept<T>(&self, found: Result<T, ReconcileError>) -> Result<Option<T>, ReconcileError> {
        match found {
            Err(error) if self.is_kept && is_unmatched(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn server_group(&self) -> Result<Option<ServerGroup>, ReconcileError> {
        let Some(param) = &self.object.spec.server_group else { return Ok(None) };
        let name = param.filter.as_ref().and_then(|filter| filter.name.as_deref());
        let groups = self.cloud.server_groups().await?;
        let matching = |group: &ServerGroup| match (&param.id, name) {
            (Some(id), _) => group.id == *id,
            (None, Some(name)) => group.name == name,
            (None, None) => false,
        };
        let mut groups: Vec<ServerGroup> = groups.into_iter().filter(matching).collect();
        let words = format!("server group {:?}", param.id.as_deref().or(name).unwrap_or_default());
        only(groups.iter().map(|group| group.id.clone()).collect(), "spec.serverGroup", &words)?;
        Ok(groups.pop())
    }

    /// Refuses a key pair that Nova would refuse after the ports and volumes exist.
    async fn check_key_pair(&self) -> Result<(), ReconcileError> {
        let Some(name) = self.object.spec.ssh_key_name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        match self.cloud.has_key_pair(name).await {
            Ok(false) => {
                let message = format!(
                    "Nova has no key pair {name:?} of the user of the credentials. Key pairs belong to a user and not to a \
                     project: create it as this user"
                );
                Err(CloudError::new(ErrorClass::NotFound, "resolve spec.sshKeyName", message).into())
            }
            // A policy may hide key pairs from the user, and Nova knows them anyway.
            Ok(true) => Ok(()),
            Err(error) if error.class == ErrorClass::Forbidden => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses what needs an extension that the cloud does not have, before anything is created.
    async fn check_extensions(&self) -> Result<(), ReconcileError> {
        let needed = extensions(self.object);
        if needed.is_empty() {
            return Ok(());
        }
        let known = self.cloud.network_extensions().await?;
        match needed.into_iter().find(|(alias, _)| !known.iter().any(|it| it == alias)) {
            Some((alias, field)) => {
                let message = format!("Neutron of this cloud has no extension {alias:?}. Remove the field");
                Err(CloudError::new(ErrorClass::InvalidSpec, format!("resolve {field}"), message).into())
            }
            None => Ok(()),
        }
    }
}

/// Returns true if a name matches nothing or too much, or if its Image object is missing or not ready.
fn is_unmatched(error: &ReconcileError) -> bool {
    let is_missing = |error: &CloudError| matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous);
    matches!(error, ReconcileError::Waiting { .. })
        || matches!(error, ReconcileError::Cloud(error) if is_missing(error))
}

/// Returns the extensions of Neutron that a machine needs, each with the field. Pure.
fn extensions(object: &OpenStackMachine) -> Vec<(&'static str, String)> {
    let mut needed = Vec::new();
    for (index, opts) in desired::ports(object).iter().enumerate() {
        if desired::is_trunk(object, opts) {
            let is_all = object.spec.trunk == Some(true) && opts.trunk.is_none();
            let field = if is_all { "spec.trunk".to_owned() } else { format!("spec.ports[{index}].trunk") };
            needed.push(("trunk", field));
        }
        if opts.propagate_uplink_status.is_some() {
            needed.push(("uplink-status-propagation", format!("spec.ports[{index}].propagateUplinkStatus")));
        }
    }
    needed
}

/// Returns the flavor of a spec.
pub(crate) async fn flavor(cloud: &Arc<dyn Cloud>, param: &FlavorParam) -> Result<Flavor, ReconcileError> {
    let name = param.filter.as_ref().and_then(|filter| filter.name.as_deref());
    let mut flavors = cloud.flavors().await?;
    flavors.retain(|flavor| match (&param.id, name) {
        (Some(id), _) => flavor.id == *id,
        (None, Some(name)) => flavor.name == name,
        (None, None) => false,
    });
    let words = format!("flavor {:?}", param.id.as_deref().or(name).unwrap_or_default());
    let id = only(flavors.iter().map(|flavor| flavor.id.clone()).collect(), "spec.flavor", &words)?;
    flavors.retain(|flavor| flavor.id == id);
    Ok(flavors.pop().unwrap_or_default())
}

/// Returns the only id, or the error for none or several.
fn only(found: Vec<String>, field: &str, query: &str) -> Result<String, ReconcileError> {
    let (class, message) = match <[String; 1]>::try_from(found) {
        Ok([id]) => return Ok(id),
        Err(none) if none.is_empty() => {
            let message = format!(
                "nothing in the cloud matches {query}. Create it in this project, or use a template with another one"
            );
            (ErrorClass::NotFound, message)
        }
        Err(several) => {
            let ids: Vec<&str> = several.iter().take(LISTED).map(String::as_str).collect();
            let count = several.len();
            let message =
                format!("{count} in the cloud match {query}: {}. Name one by its id", ids.join(", "));
            (ErrorClass::Ambiguous, message)
        }
    };
    Err(CloudError::new(class, format!("resolve {field}"), message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r12_1_an_ambiguous_name_is_refused_with_the_ids_and_never_guessed() {
        let error =
            only(vec!["1".to_owned(), "2".to_owned()], "spec.image", "Image name: \"a\"").unwrap_err();
        assert_eq!(error.reason(), "Ambiguous");
        let expected = "resolve spec.image: 2 in the cloud match Image name: \"a\": 1, 2. Name one by its id";
        assert_eq!(error.to_string(), expected);
        let error = only(Vec::new(), "spec.flavor", "flavor \"x\"").unwrap_err();
        assert_eq!(error.reason(), "NotFound");
        assert!(
            error.to_string().starts_with("resolve spec.flavor: nothing in the cloud matches flavor \"x\". ")
        );
        assert_eq!(only(vec!["1".to_owned()], "spec.flavor", "").unwrap(), "1");
    }

    #[test]
    fn an_outage_or_a_refusal_is_no_name_without_a_match() {
        let table = [
            (ErrorClass::NotFound, true),
            (ErrorClass::Ambiguous, true),
            (ErrorClass::Unreachable, false),
            (ErrorClass::Forbidden, false),
        ];
        for (class, expected) in table {
            let error = ReconcileError::Cloud(CloudError::new(class, "resolve spec.image", "no"));
            assert_eq!(is_unmatched(&error), expected, "{class:?}");
        }
        let waits = ReconcileError::waiting("InstanceNotReady", "Image n/i does not exist");
        assert!(is_unmatched(&waits));
    }

    #[test]
    fn each_field_that_needs_an_extension_of_neutron_is_known_with_its_field() {
        let of = |spec: serde_json::Value| {
            let spec: apiserver_types::OpenStackMachineSpec = serde_json::from_value(spec).unwrap();
            extensions(&OpenStackMachine::new("m", spec))
        };
        let base = |more: serde_json::Value| {
            let mut spec = serde_json::json!({"flavor": {"id": "f"}, "image": {"id": "i"}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of(spec)
        };
        assert_eq!(base(serde_json::json!({})), []);
        assert_eq!(base(serde_json::json!({"trunk": true})), [("trunk", "spec.trunk".to_owned())]);
        let ports = serde_json::json!({"ports": [{}, {"trunk": true, "propagateUplinkStatus": false}]});
        let expected = [
            ("trunk", "spec.ports[1].trunk".to_owned()),
            ("uplink-status-propagation", "spec.ports[1].propagateUplinkStatus".to_owned()),
        ];
        assert_eq!(base(ports), expected);
    }
}
