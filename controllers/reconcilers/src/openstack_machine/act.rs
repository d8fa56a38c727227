//! Effects of the steps of an OpenStackMachine, each recorded in the observed state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver_types::{
    Machine, OpenStackCluster, OpenStackMachine, ResolvedMachineSpec, ResolvedPortSpec, SchedulerHintType,
};
use controllers_infrastructure::{
    Cloud, CloudError, ErrorClass, FloatingIp, NewServer, NewTrunk, NewVolume, PortUpdate, Server, TaggedKind,
};
use controllers_runtime::{ControllerSettings, JOURNAL_ANNOTATION, OwnershipTag, ReconcileError};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::anti_affinity;
use super::decide::{Desired, Holder, Observed, Step};
use super::desired::{self, VolumeWish};
use super::failed_builds::{self, is_without_host};
use super::new_port::new_port;
use super::objects::ServerObjects;
use super::observe::is_written;
use super::remedies;
use crate::{applied_tags, duplicates, lost_calls, names, project};

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub objects: &'a ServerObjects,
    pub cloud: &'a Arc<dyn Cloud>,
    /// Cloud that has the floating IP of the API: the cluster's.
    pub endpoint_cloud: &'a Arc<dyn Cloud>,
    pub machine: &'a Machine,
    pub cluster: &'a OpenStackCluster,
    pub desired: &'a Desired,
    pub resolved: &'a ResolvedMachineSpec,
    pub tag: &'a OwnershipTag,
    pub user_data: Option<&'a [u8]>,
    pub settings: &'a ControllerSettings,
}

/// Event of an effect: reason and message.
type EventText = Option<(&'static str, String)>;

impl Actor<'_> {
    /// Makes one effect.
    pub(super) async fn act(
        &self,
        step: Step,
        object: &mut OpenStackMachine,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let Some(attempt) = step.attempt(&self.desired.name) else {
            return self.make(step, object, observed).await;
        };
        let (failure, creates) = (step.failure(), step.creates());
        if creates {
            observed.lost_calls.check(&attempt, observed.now)?;
        }
        let mut made = self.make(step, object, observed).await;
        if creates {
            made = observed.lost_calls.note(&attempt, made, Timestamp::now());
        }
        made.map_err(|error| remedies::with_remedy(error.during(|| attempt).of_step(failure)))
    }

    async fn make(
        &self,
        step: Step,
        object: &mut OpenStackMachine,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        match step {
            Step::Journal(entries) => {
                for (kind, name) in entries {
                    observed.journal.intend(kind, &name);
                }
                self.write_journal(object, observed, false).await?;
                Ok(None)
            }
            Step::CreateVolume(wish) => self.create_volume(object, observed, wish).await,
            Step::CreatePort(spec) => self.create_port(observed, spec).await,
            Step::TagPort { name, id, change } => {
                self.write_journal(object, observed, false).await?;
                self.cloud.change_tags(TaggedKind::Port, &id, &change.added, &change.removed).await?;
                observed.ports.entry(name).and_modify(|port| change.apply(&mut port.tags));
                Ok(None)
            }
            Step::CreateTrunk { name, port } => self.create_trunk(observed, name, port).await,
            Step::TagTrunk { name, id, change } => {
                self.write_journal(object, observed, false).await?;
                self.cloud.change_tags(TaggedKind::Trunk, &id, &change.added, &change.removed).await?;
                observed.trunks.entry(name).and_modify(|trunk| change.apply(&mut trunk.tags));
                Ok(None)
            }
            Step::TagVolume { name, id, metadata } => {
                self.cloud.set_volume_metadata(&id, &metadata).await?;
                observed.volumes.entry(name).and_modify(|volume| volume.metadata = metadata);
                Ok(None)
            }
            Step::SetAddressPairs { name, id, pairs } => {
                let change = PortUpdate { allowed_address_pairs: Some(pairs), security_groups: None };
                let port = self.cloud.update_port(&id, &change).await?;
                observed.ports.insert(name.clone(), port);
                Ok(Some(("UpdatedPort", format!("set the allowed address pairs of port {name} ({id})"))))
            }
            Step::TagServer { id, change } => {
                self.write_journal(object, observed, false).await?;
                self.cloud.change_tags(TaggedKind::Server, &id, &change.added, &change.removed).await?;
                observed.server.iter_mut().for_each(|server| change.apply(&mut server.tags));
                Ok(Some(("UpdatedServer", format!("changed the tags of server {id}"))))
            }
            Step::CreateServer => self.create_server(object, observed).await,
            Step::DeleteBrokenVolume { name, id, status } => {
                self.delete_broken_volume(observed, &name, &id, &status).await
            }
            Step::DeleteDuplicate(duplicate) => {
                self.settings.removes_unknown(&duplicate.title()).await?;
                let event = duplicates::delete(self.cloud, &duplicate).await?;
                observed.duplicates.retain(|it| *it != duplicate);
                Ok(Some(event))
            }
            Step::RefuseDuplicates(message) => Err(duplicates::refusal(message)),
            Step::DeleteBroken { id, fault } => self.delete_broken(object, observed, &id, fault).await,
            Step::SetProviderId(provider_id) => self.set_provider_id(object, observed, provider_id).await,
            Step::TakeEndpoint { floating_ip, port, address, from } => {
                self.take_endpoint(observed, &floating_ip, port, address.as_deref(), from).await
            }
            Step::Wait(_) | Step::Nothing => Ok(None),
        }
    }

    /// Writes the journal and the tags that passes have applied. If everything is tagged, those of earlier specs are
    /// forgotten.
    pub(super) async fn write_journal(
        &self,
        object: &mut OpenStackMachine,
        observed: &Observed,
        is_tagged: bool,
    ) -> Result<(), ReconcileError> {
        let wanted = self.desired.own_tags();
        let earlier = if is_tagged { BTreeSet::new() } else { applied_tags::of(object) };
        let tags = applied_tags::text(&earlier, &wanted);
        let lost = observed.lost_calls.text();
        if is_written(object, &observed.journal)
            && object.annotations().get(applied_tags::ANNOTATION) == tags.as_ref()
            && object.annotations().get(lost_calls::ANNOTATION) == lost.as_ref()
        {
            return Ok(());
        }
        let change = json!({applied_tags::ANNOTATION: tags, lost_calls::ANNOTATION: lost});
        patch_journal(self.objects, object, observed, change).await
    }

    /// Associates the floating IP of the API, unless another machine has taken it since the observation. Neutron would
    /// move it without an error, away from a machine that clients already use.
    async fn take_endpoint(
        &self,
        observed: &mut Observed,
        floating_ip: &FloatingIp,
        port: String,
        address: Option<&str>,
        from: Option<String>,
    ) -> Result<EventText, ReconcileError> {
        match self.endpoint_cloud.take_floating_ip(floating_ip, &port, address).await {
            // Another heir was faster. The next pass looks again.
            Err(error) if error.status == Some(412) => {
                observed.endpoint_ip = None;
                return Ok(None);
            }
            result => result?,
        }
        let text = format!("associated floating IP {} with port {port}", floating_ip.address);
        observed.endpoint_ip = Some(FloatingIp { port_id: Some(port), ..floating_ip.clone() });
        observed.endpoint_holder = Holder::Settled;
        Ok(Some(match from {
            Some(why) => ("APIEndpointMoved", format!("{text}, because {why}")),
            None => ("AssociatedFloatingIP", text),
        }))
    }

    async fn create_volume(
        &self,
        object: &OpenStackMachine,
        observed: &mut Observed,
        wish: VolumeWish,
    ) -> Result<EventText, ReconcileError> {
        let new = NewVolume {
            name: wish.name.clone(),
            description: self.tag.description(),
            size_gib: wish.size_gib,
            volume_type: wish.kind,
            availability_zone: wish.zone,
            image_id: self.resolved.image_id.clone().filter(|_| wish.root),
            metadata: self.volume_metadata(),
        };
        let volume = self.cloud.create_volume(&new).await?;
        observed.journal.learn(names::VOLUME, &wish.name, &volume.id);
        let message = format!("created volume {} ({}) for {}", wish.name, volume.id, object.name_any());
        observed.volumes.insert(wish.name, volume);
        Ok(Some(("CreatedVolume", message)))
    }

    async fn create_port(
        &self,
        observed: &mut Observed,
        spec: ResolvedPortSpec,
    ) -> Result<EventText, ReconcileError> {
        let port = self.cloud.create_port(&new_port(&spec, self.tag)).await?;
        observed.journal.learn(names::PORT, &spec.name, &port.id);
        let message = format!("created port {} ({})", spec.name, port.id);
        observed.ports.insert(spec.name, port);
        Ok(Some(("CreatedPort", message)))
    }

    async fn create_trunk(
        &self,
        observed: &mut Observed,
        name: String,
        port_id: String,
    ) -> Result<EventText, ReconcileError> {
        let new = NewTrunk { name: name.clone(), description: self.tag.description(), port_id };
        let trunk = self.cloud.create_trunk(&new).await?;
        observed.journal.learn(names::TRUNK, &name, &trunk.id);
        let message = format!("created trunk {name} ({})", trunk.id);
        observed.trunks.insert(name, trunk);
        Ok(Some(("CreatedTrunk", message)))
    }

    /// Returns the metadata of a volume: the ownership tag, and the tags, which Cinder does not have.
    fn volume_metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = BTreeMap::from([(OwnershipTag::METADATA_KEY.to_owned(), self.tag.text())]);
        if let Some(tag) = &self.desired.cluster_tag {
            metadata.insert(names::CLUSTER_METADATA.to_owned(), tag.clone());
        }
        metadata.extend(self.desired.volume_tags.clone().map(|tags| (names::VOLUME_TAGS.to_owned(), tags)));
        metadata
    }

    /// Returns the tags of the server, and those that Nova does not accept.
    pub(super) fn server_tags(&self, object: &OpenStackMachine) -> (Vec<String>, Vec<String>) {
        desired::server_tags(self.tag, object, self.cluster)
    }

    async fn create_server(
        &self,
        object: &OpenStackMachine,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        let new = self.new_server(object, observed);
        let id = self.cloud.create_server(&new).await?;
        observed.journal.learn(names::SERVER, &new.name, &id);
        observed.known_server = Some(id.clone());
        let message = format!("created server {} ({id})", new.name);
        // Nova responds before it builds; an accepted server is being built.
        observed.server = Some(Server {
            id,
            name: new.name,
            status: "BUILD".to_owned(),
            tags: new.tags,
            ..Server::default()
        });
        Ok(Some(("CreatedServer", message)))
    }

    fn new_server(&self, object: &OpenStackMachine, observed: &Observed) -> NewServer {
        let spec = &object.spec;
        let volumes = &self.desired.volumes;
        let id_of = |name: &str| observed.volumes.get(name).map(|volume| volume.id.clone());
        let boots_from_volume = volumes.iter().any(|volume| volume.root);
        let ports = self.desired.ports.iter().filter_map(|port| observed.ports.get(&port.name));
        let metadata = spec.server_metadata.iter().flatten();
        NewServer {
            name: object.name_any(),
            image_id: self.resolved.image_id.clone().filter(|_| !boots_from_volume),
            flavor_id: self.resolved.flavor_id.clone().unwrap_or_default(),
            ports: ports.map(|port| port.id.clone()).collect(),
            key_name: spec.ssh_key_name.clone().filter(|name| !name.is_empty()),
            metadata: metadata.map(|pair| (pair.key.clone(), names::shortened(pair.value.clone()))).collect(),
            tags: self.server_tags(object).0,
            config_drive: spec.config_drive,
            user_data: self.user_data.map(<[u8]>::to_vec),
            availability_zone: desired::availability_zone(self.machine, self.cluster),
            server_group_id: self.resolved.server_group_id.clone(),
            scheduler_hints: hints(object),
            block_devices: desired::block_devices(object, volumes, id_of),
        }
    }

    /// Deletes a server that Nova could not build, so that the next pass creates another one.
    async fn delete_broken(
        &self,
        object: &mut OpenStackMachine,
        observed: &mut Observed,
        id: &str,
        fault: String,
    ) -> Result<EventText, ReconcileError> {
        let class = if is_without_host(&fault) { ErrorClass::NoValidHost } else { ErrorClass::Broken };
        let message = format!("server {id} went into ERROR and was deleted to try again: {fault}");
        let attempt = format!("build server {}", self.desired.name);
        let group = match &self.resolved.server_group_id {
            Some(group) if class == ErrorClass::NoValidHost => {
                anti_affinity::strict_group(self.cloud, group, id).await
            }
            _ => None,
        };
        let error = match group {
            Some(group) => anti_affinity::unsatisfiable(attempt, &message, &group),
            None => CloudError::new(class, attempt, message),
        };
        let error = CloudError { step: Step::CreateServer.failure().map(Box::new), ..error };
        // Counted first, so that no attempt is forgotten.
        observed.failed_builds.note(&fault, error.reason(), observed.now);
        self.note_failed_build(object, observed).await?;
        match self.cloud.delete_server(id).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        observed.server = None;
        observed.known_server = None;
        Err(error.into())
    }

    /// Writes the failed builds into the annotation.
    async fn note_failed_build(
        &self,
        object: &mut OpenStackMachine,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let change = json!({"metadata": {
            "resourceVersion": object.resource_version(),
            "annotations": {failed_builds::ANNOTATION: observed.failed_builds.text()},
        }});
        *object = self.objects.patch(&object.name_any(), &change).await?;
        Ok(())
    }

    /// Deletes a volume that Cinder could not create, so that the next pass creates another one.
    async fn delete_broken_volume(
        &self,
        observed: &mut Observed,
        name: &str,
        id: &str,
        status: &str,
    ) -> Result<EventText, ReconcileError> {
        match self.cloud.delete_volume(id).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        observed.volumes.remove(name);
        let message = format!("volume {id} went into {status:?} and was deleted to try again");
        Err(CloudError::new(ErrorClass::Broken, format!("create volume {name}"), message).into())
    }

    async fn set_provider_id(
        &self,
        object: &mut OpenStackMachine,
        observed: &mut Observed,
        provider_id: String,
    ) -> Result<EventText, ReconcileError> {
        *object = self.objects.set_provider_id(object, &provider_id).await?;
        let message = format!("server {} is up", observed.known_server.as_deref().unwrap_or_default());
        observed.provider_id = Some(provider_id);
        Ok(Some(("ServerActive", message)))
    }
}

/// Writes the journal if it differs from the stored one.
pub(super) async fn write_journal(
    objects: &ServerObjects,
    object: &mut OpenStackMachine,
    observed: &Observed,
) -> Result<(), ReconcileError> {
    if is_written(object, &observed.journal) {
        return Ok(());
    }
    patch_journal(objects, object, observed, json!({})).await
}

async fn patch_journal(
    objects: &ServerObjects,
    object: &mut OpenStackMachine,
    observed: &Observed,
    further: Value,
) -> Result<(), ReconcileError> {
    let mut annotations = further;
    annotations[JOURNAL_ANNOTATION] = json!(observed.journal.text());
    annotations[project::ANNOTATION] = json!(observed.project);
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "annotations": annotations,
    }});
    *object = objects.patch(&object.name_any(), &change).await?;
    Ok(())
}

fn hints(object: &OpenStackMachine) -> BTreeMap<String, String> {
    let hints = object.spec.scheduler_hint_additional_properties.iter().flatten();
    hints
        .map(|hint| {
            let value = match hint.value.kind {
                SchedulerHintType::Bool => json!(hint.value.bool.unwrap_or_default()),
                SchedulerHintType::Number => json!(hint.value.number.unwrap_or_default()),
                SchedulerHintType::String => json!(hint.value.string.clone().unwrap_or_default()),
            };
            (hint.name.clone(), value.to_string())
        })
        .collect()
}
