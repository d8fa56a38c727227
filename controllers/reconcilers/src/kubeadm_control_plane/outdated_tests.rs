//! Tests of the comparison of Machines with their control plane.

use apiserver_types::{
    CLONED_FROM_REVISION, KubeadmConfig, KubeadmConfigSpec, KubeadmControlPlane, TEMPLATE_DIGESTS,
    TEMPLATE_REVISION, Time,
};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::cause::Cause;
use super::config::{self, Start};
use super::outdated::{causes, until_requested};
use super::replica::Replica;
use super::replica::examples::replica;
use crate::templates::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};

#[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
fn control_plane(config: Value) -> KubeadmControlPlane {
    let template = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"});
    let spec = json!({
        "version": "v1.33.0", "kubeadmConfigSpec": config, "machineTemplate": {"spec": {"infrastructureRef": template}},
    });
    serde_json::from_value(json!({"spec": spec})).unwrap()
}

fn with_config(config: KubeadmConfigSpec) -> Replica {
    let mut replica = replica("m", 1000);
    replica.machine.spec.version = Some("v1.33.0".to_owned());
    replica.config = Some(KubeadmConfig::new("m", config));
    replica
}

fn settings() -> Value {
    let registration =
        json!({"name": "{{ local_hostname }}", "kubeletExtraArgs": [{"name": "a", "value": "b"}]});
    json!({
        "clusterConfiguration": {"apiServer": {"certSANs": ["a"]}},
        "initConfiguration": {"nodeRegistration": registration, "localAPIEndpoint": {"bindPort": 6444}},
        "joinConfiguration": {
            "nodeRegistration": registration, "controlPlane": {"localAPIEndpoint": {"bindPort": 6444}},
        },
    })
}

fn changed(mut settings: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').unwrap();
    settings.pointer_mut(parent).unwrap()[field] = value;
    settings
}

#[test]
fn machines_as_they_were_made_match_and_what_controllers_fill_in_is_no_difference() {
    let wish = control_plane(settings());
    for start in [Start::Init, Start::Join] {
        let made = config::spec(&wish, start);
        assert_eq!(causes(&wish, &with_config(made.clone()), None, Timestamp::UNIX_EPOCH), [], "{start:?}");
        let mut filled = serde_json::to_value(&made).unwrap();
        filled["clusterConfiguration"]["controlPlaneEndpoint"] = json!("10.0.0.1:6443");
        filled["format"] = json!("cloud-config");
        filled["files"] = json!([]);
        let part = if start == Start::Init { "initConfiguration" } else { "joinConfiguration" };
        filled[part]["nodeRegistration"]["imagePullPolicy"] = json!("IfNotPresent");
        if start == Start::Join {
            filled[part]["discovery"] = json!({"bootstrapToken": {"token": "a.b"}});
        }
        let filled = with_config(serde_json::from_value(filled).unwrap());
        assert_eq!(causes(&wish, &filled, None, Timestamp::UNIX_EPOCH), [], "{start:?}");
    }
}

#[test]
fn a_change_of_the_settings_outdates_machines_that_it_concerns() {
    let both = [true, true];
    let table = [
        ("/clusterConfiguration/dns", json!({"imageTag": "1"}), [false, false]),
        ("/clusterConfiguration/apiServer", json!({"certSANs": ["a", "b"]}), both),
        ("/clusterConfiguration/featureGates", json!({"ControlPlaneKubeletLocalMode": true}), [false, false]),
        ("/clusterConfiguration/featureGates", json!({"ControlPlaneKubeletLocalMode": false}), both),
        (
            "/joinConfiguration/timeouts",
            json!({"controlPlaneComponentHealthCheckSeconds": 9}),
            [false, false],
        ),
        ("/joinConfiguration/caCertPath", json!("/ca"), [false, true]),
        // The first Machine still is what the init settings say.
        ("/joinConfiguration/skipPhases", json!(["x"]), [false, true]),
        // It is what a Machine would be that joins.
        ("/initConfiguration/skipPhases", json!(["x"]), [false, false]),
        ("/joinConfiguration/nodeRegistration/taints", json!([]), [false, true]),
    ];
    let old = control_plane(settings());
    for (path, value, expected) in table {
        let new = control_plane(changed(settings(), path, value.clone()));
        for (start, expected) in [Start::Init, Start::Join].into_iter().zip(expected) {
            let machine = with_config(config::spec(&old, start));
            let found = !causes(&new, &machine, None, Timestamp::UNIX_EPOCH).is_empty();
            assert_eq!(found, expected, "{path} = {value}, {start:?}");
        }
    }
}

#[test]
fn version_template_time_and_expiry_outdate_a_machine_with_one_line_each() {
    let mut wish = control_plane(settings());
    let mut machine = with_config(config::spec(&wish, Start::Join));
    let resource = ApiResource::erase::<apiserver_types::OpenStackMachine>(&());
    let mut infrastructure = DynamicObject::new("m", &resource);
    machine.machine.spec.infrastructure_ref.kind = "OpenStackMachine".to_owned();
    machine.infrastructure = Some(infrastructure.clone());
    let now = Timestamp::from_second(100_000).unwrap();
    assert_eq!(causes(&wish, &machine, None, now), [], "an adopted object has no template");
    let kind = "OpenStackMachineTemplate.infrastructure.cluster.x-k8s.io".to_owned();
    infrastructure.annotations_mut().insert(CLONED_FROM_GROUP_KIND.to_owned(), kind);
    infrastructure.annotations_mut().insert(CLONED_FROM_NAME.to_owned(), "t".to_owned());
    machine.infrastructure = Some(infrastructure);
    assert_eq!(causes(&wish, &machine, None, now), []);
    let resource = ApiResource::erase::<apiserver_types::OpenStackMachineTemplate>(&());
    let mut template = DynamicObject::new("t", &resource);
    assert_eq!(causes(&wish, &machine, Some(&template), now), []);
    template.annotations_mut().insert(TEMPLATE_REVISION.to_owned(), "2".to_owned());
    let found: Vec<String> =
        causes(&wish, &machine, Some(&template), now).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["OpenStackMachine is not up-to-date"], "the template was edited");
    let made = machine.infrastructure.as_mut().unwrap();
    made.annotations_mut().insert(CLONED_FROM_REVISION.to_owned(), "2".to_owned());
    assert_eq!(causes(&wish, &machine, Some(&template), now), []);
    template.annotations_mut().remove(TEMPLATE_REVISION);
    assert_eq!(causes(&wish, &machine, Some(&template), now), [], "it was deleted and created again");
    template.annotations_mut().insert(TEMPLATE_DIGESTS.to_owned(), "1:a,2:b".to_owned());
    let found = causes(&wish, &machine, Some(&template), now);
    assert_eq!(found, [Cause::Infrastructure("OpenStackMachine".to_owned())], "it was edited back");
    wish.spec.version = "v1.34.0".to_owned();
    wish.spec.machine_template.spec.infrastructure_ref.name = "other".to_owned();
    let rollout = json!({"after": "1970-01-01T12:00:00Z", "before": {"certificatesExpiryDays": 7}});
    wish.spec.rollout = serde_json::from_value(rollout).unwrap();
    machine.machine.status = Some(apiserver_types::MachineStatus {
        certificates_expiry_date: Some(Time("1970-01-08T00:00:00Z".to_owned())),
        ..Default::default()
    });
    let expected = [
        "Version v1.33.0, v1.34.0 required",
        "OpenStackMachine is not up-to-date",
        "spec.rollout.after has passed",
        "the certificates expire in less than 7 days",
    ];
    let found: Vec<String> = causes(&wish, &machine, None, now).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

/// A date in the future was noticed by a full resync alone, up to ten minutes late.
#[test]
fn a_requested_rollout_is_awaited_until_a_moment_after_its_date() {
    let wish = |after: &str| {
        let mut wish = control_plane(json!({}));
        wish.spec.rollout = serde_json::from_value(json!({ "after": after })).unwrap();
        wish
    };
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let left = |after: &str, second| until_requested(&wish(after), at(second)).map(|it| it.as_secs());
    let date = "1970-01-01T00:01:40Z";
    assert_eq!(left(date, 40), Some(61));
    assert_eq!(left(date, 100), Some(1), "it has not passed yet");
    assert_eq!(left(date, 101), None);
    assert_eq!(until_requested(&control_plane(json!({})), at(0)), None, "no rollout is requested");
}
