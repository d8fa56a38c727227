//! Resource of a kind: descriptor, conversion, schema and strategy in the machinery's form.

use std::sync::Arc;

use apiserver_machinery::action::ActionHandler;
use apiserver_machinery::resource::{Column, Resource, Scale};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::KindSchema;
use apiserver_types::{Described, Descriptor};

use crate::{conversion, schemas};

/// Returns the resource of a Capstan kind. Both the direct endpoint and the host cluster serve it.
pub(crate) fn hosted<K: Described>(strategy: impl Strategy) -> Resource {
    let mut resource = resource(&K::DESCRIPTOR, Arc::new(strategy));
    resource.hosted = true;
    resource.generation = true;
    resource
}

/// Returns the resource of a Capstan kind that has actions.
pub(crate) fn with_actions<K: Described>(
    strategy: impl Strategy,
    actions: Vec<Arc<dyn ActionHandler>>,
) -> Resource {
    Resource { verbs: actions, ..hosted::<K>(strategy) }
}

/// Returns the resource of a kind of Kubernetes itself. The host cluster has its own, so only the direct endpoint
/// serves it.
pub(crate) fn core<K: Described>(strategy: impl Strategy, selectable: &[&'static str]) -> Resource {
    let mut resource = resource(&K::DESCRIPTOR, Arc::new(strategy));
    resource.selectable = selectable.to_vec();
    resource
}

/// Returns the resource of a kind of Kubernetes itself whose generation counts its changes.
pub(crate) fn counted<K: Described>(strategy: impl Strategy) -> Resource {
    Resource { generation: true, ..core::<K>(strategy, &[]) }
}

fn resource(descriptor: &Descriptor, strategy: Arc<dyn Strategy>) -> Resource {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let columns = descriptor.columns.iter().map(|column| Column {
        name: column.name.to_owned(),
        kind: column.kind.to_owned(),
        json_path: column.json_path.to_owned(),
        priority: column.priority,
        description: column.description.to_owned(),
    });
    Resource {
        group: descriptor.group.to_owned(),
        version: descriptor.version.to_owned(),
        kind: descriptor.kind.to_owned(),
        plural: descriptor.plural.to_owned(),
        singular: descriptor.singular.to_owned(),
        short_names: names(descriptor.short_names),
        categories: names(descriptor.categories),
        namespaced: descriptor.namespaced,
        status_subresource: descriptor.status_subresource,
        scale: descriptor.scale.map(|scale| Scale {
            spec_replicas: scale.spec_replicas.to_owned(),
            status_replicas: scale.status_replicas.to_owned(),
            selector: scale.selector.map(str::to_owned),
        }),
        deprecation: descriptor.deprecation.map(str::to_owned),
        conversion: conversion::of(descriptor),
        generation: false,
        hosted: false,
        columns: columns.collect(),
        selectable: Vec::new(),
        schema: schema(*descriptor),
        strategy,
        verbs: Vec::new(),
        preview: None,
    }
}

fn schema(descriptor: Descriptor) -> KindSchema {
    KindSchema::of_typed(apiserver_machinery::metadata::RULES, move || schemas::of(&descriptor))
}
