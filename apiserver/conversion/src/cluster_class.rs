//! Conversion of ClusterClass.

use serde_json::Value;

use crate::core_status::CONDITIONS;
use crate::empty::drop_each;
use crate::fields::{drop_empty, each, get, namespace, put, rename, take, with};
use crate::references::{default_namespace, template_from_stored, template_to_stored};
use crate::replicas::Strategy;
use crate::{Rules, health_check, timeouts};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "ClusterClass",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

const STRATEGY: Strategy = Strategy { max_in_flight: "healthCheck.remediation.maxInFlight" };

/// Templates outside of worker classes: older path and stored path.
const TEMPLATES: [(&str, &str); 3] = [
    ("spec.infrastructure.ref", "spec.infrastructure.templateRef"),
    ("spec.controlPlane.ref", "spec.controlPlane.templateRef"),
    ("spec.controlPlane.machineInfrastructure.ref", "spec.controlPlane.machineInfrastructure.templateRef"),
];

/// Templates of a worker class: older path and stored path.
const WORKER_TEMPLATES: [(&str, &str); 2] = [
    ("template.bootstrap.ref", "bootstrap.templateRef"),
    ("template.infrastructure.ref", "infrastructure.templateRef"),
];

/// Extensions of an external patch: older name and stored name.
const EXTENSIONS: [(&str, &str); 2] = [
    ("external.generateExtension", "external.generatePatchesExtension"),
    ("external.validateExtension", "external.validateTopologyExtension"),
];

const DEPLOYMENTS: &str = "spec.workers.machineDeployments";
const POOLS: &str = "spec.workers.machinePools";

fn default(class: &mut Value) {
    let own = namespace(class);
    for (old, _) in TEMPLATES {
        default_namespace(class, old);
    }
    for list in [DEPLOYMENTS, POOLS] {
        each(class, list, |worker| {
            for (old, _) in WORKER_TEMPLATES {
                let is_named = get(worker, &format!("{old}.name")).is_some_and(Value::is_string);
                let field = format!("{old}.namespace");
                if is_named && !own.is_empty() && get(worker, &field).is_none() {
                    put(worker, &field, own.clone().into());
                }
            }
        });
    }
    let check = |part: &mut Value| health_check::default(part, &own);
    with(class, "spec.controlPlane.machineHealthCheck", check);
    each(class, DEPLOYMENTS, |worker| {
        STRATEGY.default(worker);
        with(worker, "machineHealthCheck", check);
    });
}

fn to_stored(class: &mut Value) {
    for (old, new) in TEMPLATES {
        template_to_stored(class, old, new);
    }
    rename(class, "spec.infrastructureNamingStrategy", "spec.infrastructure.naming");
    with(class, "spec.controlPlane", |control_plane| {
        part_to_stored(control_plane);
        check_to_stored(control_plane);
    });
    each(class, DEPLOYMENTS, |worker| {
        STRATEGY.to_stored(worker);
        worker_to_stored(worker);
        check_to_stored(worker);
    });
    each(class, POOLS, worker_to_stored);
    each(class, "spec.patches", |patch| EXTENSIONS.iter().for_each(|(old, new)| rename(patch, old, new)));
    variables(class, "metadata", "deprecatedV1Beta1Metadata");
    CONDITIONS.to_stored(class);
    drop_each(
        class,
        &[
            "spec.availabilityGates",
            "spec.infrastructure.naming",
            "spec.patches",
            "spec.variables",
            DEPLOYMENTS,
            POOLS,
            "spec.workers",
        ],
    );
}

fn from_stored(class: &mut Value) {
    let own = namespace(class);
    rename(class, "spec.infrastructure.naming", "spec.infrastructureNamingStrategy");
    for (old, new) in TEMPLATES {
        template_from_stored(class, new, old, &own);
    }
    with(class, "spec.controlPlane", |control_plane| {
        part_from_stored(control_plane);
        check_from_stored(control_plane, &own);
    });
    each(class, DEPLOYMENTS, |worker| {
        STRATEGY.to_older(worker);
        worker_from_stored(worker, &own);
        check_from_stored(worker, &own);
    });
    each(class, POOLS, |worker| worker_from_stored(worker, &own));
    each(class, "spec.patches", |patch| EXTENSIONS.iter().for_each(|(old, new)| rename(patch, new, old)));
    variables(class, "deprecatedV1Beta1Metadata", "metadata");
    CONDITIONS.to_older(class);
}

/// Converts the fields that control planes and workers share.
fn part_to_stored(part: &mut Value) {
    timeouts::to_stored(part);
    rename(part, "namingStrategy", "naming");
    drop_each(part, &["metadata", "naming", "readinessGates", "taints"]);
}

fn part_from_stored(part: &mut Value) {
    timeouts::from_stored(part);
    rename(part, "naming", "namingStrategy");
}

fn worker_to_stored(worker: &mut Value) {
    for (old, new) in WORKER_TEMPLATES {
        template_to_stored(worker, old, new);
    }
    rename(worker, "template.metadata", "metadata");
    take(worker, "template");
    part_to_stored(worker);
}

fn worker_from_stored(worker: &mut Value, namespace: &str) {
    for (old, new) in WORKER_TEMPLATES {
        template_from_stored(worker, new, old, namespace);
    }
    rename(worker, "metadata", "template.metadata");
    drop_empty(worker, "bootstrap");
    drop_empty(worker, "infrastructure");
    part_from_stored(worker);
}

/// Converts the health check. A strategy may have written other fields of it before.
fn check_to_stored(part: &mut Value) {
    let Some(mut check) = take(part, "machineHealthCheck") else { return };
    health_check::to_stored(&mut check);
    if let Some(at_once) = get(part, "healthCheck.remediation.maxInFlight").cloned() {
        put(&mut check, "remediation.maxInFlight", at_once);
    }
    put(part, "healthCheck", check);
    drop_empty(part, "healthCheck");
}

fn check_from_stored(part: &mut Value, namespace: &str) {
    rename(part, "healthCheck", "machineHealthCheck");
    with(part, "machineHealthCheck", |check| health_check::from_stored(check, namespace));
    drop_empty(part, "machineHealthCheck");
}

/// Renames the metadata of variables, in the declared and in the reported ones.
fn variables(class: &mut Value, from: &str, to: &str) {
    each(class, "spec.variables", |variable| variable_metadata(variable, from, to));
    each(class, "status.variables", |variable| {
        each(variable, "definitions", |definition| variable_metadata(definition, from, to));
    });
}

fn variable_metadata(variable: &mut Value, from: &str, to: &str) {
    rename(variable, from, to);
    drop_each(variable, &["deprecatedV1Beta1Metadata"]);
}
