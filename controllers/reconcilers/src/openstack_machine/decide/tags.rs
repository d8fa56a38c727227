//! Decision on the tags of a machine's resources.

use apiserver_types::ResolvedPortSpec;
use controllers_infrastructure::{Port, Server, Trunk, Volume};
use controllers_runtime::OwnershipTag;

use super::{Desired, Step};
use crate::applied_tags::{self, TagChange};
use crate::names;

/// Returns the step that tags a port, if its tags are others.
pub(super) fn port(
    desired: &Desired,
    spec: &ResolvedPortSpec,
    tag: &OwnershipTag,
    port: &Port,
) -> Option<Step> {
    let change = changed(desired, spec, tag, &port.tags)?;
    Some(Step::TagPort { name: spec.name.clone(), id: port.id.clone(), change })
}

/// Returns the step that tags a trunk, if its tags are others.
pub(super) fn trunk(
    desired: &Desired,
    spec: &ResolvedPortSpec,
    tag: &OwnershipTag,
    trunk: &Trunk,
) -> Option<Step> {
    let change = changed(desired, spec, tag, &trunk.tags)?;
    Some(Step::TagTrunk { name: spec.name.clone(), id: trunk.id.clone(), change })
}

fn changed(
    desired: &Desired,
    spec: &ResolvedPortSpec,
    tag: &OwnershipTag,
    held: &[String],
) -> Option<TagChange> {
    let own = spec.tags.iter().flatten().chain(&desired.cluster_tag).cloned();
    let required = tag.tags(Some(&own.collect::<Vec<_>>()));
    applied_tags::changed(&required, &desired.applied_tags, held)
}

/// Returns the step that tags a volume, if its tags are others. Other keys of its metadata stay.
pub(super) fn volume(desired: &Desired, volume: &Volume) -> Option<Step> {
    if volume.metadata.get(names::VOLUME_TAGS) == desired.volume_tags.as_ref() {
        return None;
    }
    let mut metadata = volume.metadata.clone();
    match &desired.volume_tags {
        Some(tags) => metadata.insert(names::VOLUME_TAGS.to_owned(), tags.clone()),
        None => metadata.remove(names::VOLUME_TAGS),
    };
    Some(Step::TagVolume { name: volume.name.clone(), id: volume.id.clone(), metadata })
}

/// Returns the step that tags our server, if its tags are others.
pub(super) fn server(desired: &Desired, tag: &OwnershipTag, server: &Server) -> Option<Step> {
    if !server.tags.contains(&tag.text()) {
        return None;
    }
    let change = applied_tags::changed(&desired.server_tags, &desired.applied_tags, &server.tags)?;
    Some(Step::TagServer { id: server.id.clone(), change })
}
