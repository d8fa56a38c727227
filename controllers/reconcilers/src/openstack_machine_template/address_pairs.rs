//! Allowed address pairs of the ports of a template, which its machines follow. Any other edit needs new machines.

use apiserver_types::{
    CLONED_FROM_REVISION, OpenStackMachine, OpenStackMachineTemplate, PortOpts, TEMPLATE_REVISION,
    template_revision,
};
use controllers_runtime::ReconcileError;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::templates::CLONED_FROM_NAME;

/// Writes the address pairs of the template into the machines that were made from its present revision.
pub(super) async fn pass_on(
    client: &Client,
    template: &OpenStackMachineTemplate,
) -> Result<(), ReconcileError> {
    let name = template.name_any();
    let revision = template_revision(template.annotations(), TEMPLATE_REVISION);
    let machines: Api<OpenStackMachine> =
        Api::namespaced(client.clone(), &template.namespace().unwrap_or_default());
    for machine in machines.list(&ListParams::default()).await? {
        if machine.annotations().get(CLONED_FROM_NAME) != Some(&name)
            || template_revision(machine.annotations(), CLONED_FROM_REVISION) != revision
            || machine.metadata.deletion_timestamp.is_some()
        {
            continue;
        }
        if let Some(ports) = changed(&machine, template) {
            let change = json!({
                "metadata": {"resourceVersion": machine.resource_version(), "uid": machine.uid()},
                "spec": {"ports": ports},
            });
            machines.patch(&machine.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        }
    }
    Ok(())
}

/// Returns the ports of a machine with the address pairs of the template, if they differ. A machine with other ports was
/// changed by hand.
fn changed(machine: &OpenStackMachine, template: &OpenStackMachineTemplate) -> Option<Vec<PortOpts>> {
    let (held, wanted) = (machine.spec.ports.as_ref()?, template.spec.template.spec.ports.as_ref()?);
    if held.len() != wanted.len() || held == wanted {
        return None;
    }
    let mut ports = held.clone();
    for (port, wanted) in ports.iter_mut().zip(wanted) {
        port.allowed_address_pairs.clone_from(&wanted.allowed_address_pairs);
    }
    (ports != *held).then_some(ports)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{AddressPair, OpenStackMachineSpec, OpenStackMachineTemplateSpec};

    use super::*;

    #[test]
    fn machines_follow_the_address_pairs_of_their_template_and_nothing_else() {
        let port = |suffix: &str, address: &str| PortOpts {
            name_suffix: Some(suffix.to_owned()),
            allowed_address_pairs: Some(vec![AddressPair {
                ip_address: address.to_owned(),
                mac_address: None,
            }]),
            ..PortOpts::default()
        };
        let mut template = OpenStackMachineTemplate::new("t", OpenStackMachineTemplateSpec::default());
        let mut machine = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        template.spec.template.spec.ports = Some(vec![port("a", "10.0.0.2")]);
        machine.spec.ports = Some(vec![port("b", "10.0.0.1")]);
        assert_eq!(changed(&machine, &template), Some(vec![port("b", "10.0.0.2")]));
        machine.spec.ports = Some(vec![port("b", "10.0.0.2")]);
        assert_eq!(changed(&machine, &template), None);
        machine.spec.ports = Some(Vec::new());
        assert_eq!(changed(&machine, &template), None);
    }
}
