//! Tests of conversion with typical kubeadm configurations and control planes, in v1beta1 and in v1beta2.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use apiserver_conversion::conversion;
use serde_json::{Value, json};

/// Asserts that each of two objects is the conversion of the other.
fn same(group: &str, kind: &str, older: Value, stored: Value) {
    let conversion = conversion(group, kind, "v1beta1").unwrap();
    let whole = |version: &str, mut object: Value| {
        object["apiVersion"] = format!("{group}/{version}").into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "a", "namespace": "ns"});
        object
    };
    let (older, stored) = (whole("v1beta1", older), whole("v1beta2", stored));
    assert_eq!(conversion.stored(older.clone()), stored, "to the stored version");
    assert_eq!(conversion.served(stored), older, "from the stored version");
}

fn configs(older: &Value, stored: &Value) {
    let template = |spec: &Value| json!({"spec": {"template": {"spec": spec}}});
    let (one, two) = (template(older), template(stored));
    same("bootstrap.cluster.x-k8s.io", "KubeadmConfig", json!({"spec": older}), json!({"spec": stored}));
    same("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate", one, two);
}

#[test]
fn extra_args_become_a_list() {
    configs(
        &json!({
            "clusterConfiguration": {
                "apiServer": {"extraArgs": {"cloud-provider": "external", "audit-log-maxage": "30"}, "certSANs": ["api.example"]},
                "controllerManager": {"extraArgs": {"cloud-provider": "external"}},
                "scheduler": {"extraArgs": {"v": ""}},
                "etcd": {"local": {"extraArgs": {"quota-backend-bytes": "8589934592"}, "dataDir": "/var/lib/etcd"}}},
            "initConfiguration": {"nodeRegistration": {
                "name": "{{ local_hostname }}", "kubeletExtraArgs": {"provider-id": "openstack:///'{{ instance_id }}'"}}},
            "joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": {"cloud-provider": "external"}, "taints": []}}}),
        &json!({
            "clusterConfiguration": {
                "apiServer": {
                    "extraArgs": [{"name": "audit-log-maxage", "value": "30"}, {"name": "cloud-provider", "value": "external"}],
                    "certSANs": ["api.example"]},
                "controllerManager": {"extraArgs": [{"name": "cloud-provider", "value": "external"}]},
                "scheduler": {"extraArgs": [{"name": "v", "value": ""}]},
                "etcd": {"local": {
                    "extraArgs": [{"name": "quota-backend-bytes", "value": "8589934592"}], "dataDir": "/var/lib/etcd"}}},
            "initConfiguration": {"nodeRegistration": {
                "name": "{{ local_hostname }}",
                "kubeletExtraArgs": [{"name": "provider-id", "value": "openstack:///'{{ instance_id }}'"}]}},
            "joinConfiguration": {"nodeRegistration": {
                "kubeletExtraArgs": [{"name": "cloud-provider", "value": "external"}], "taints": []}}}),
    );
}

#[test]
fn timeouts_move_to_their_own_field() {
    configs(
        &json!({
            "clusterConfiguration": {"apiServer": {"timeoutForControlPlane": "10m0s"}},
            "initConfiguration": {"bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttl": "24h0m0s"}]},
            "joinConfiguration": {"discovery": {"timeout": "5m0s", "bootstrapToken": {"token": "t"}}}}),
        &json!({
            "initConfiguration": {
                "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttlSeconds": 86400}],
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 600}},
            "joinConfiguration": {
                "discovery": {"bootstrapToken": {"token": "t"}},
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 600, "tlsBootstrapSeconds": 300}}}),
    );
}

#[test]
fn files_users_commands_and_disks_are_unchanged() {
    let machine = json!({
        "format": "cloud-config", "verbosity": 5, "mounts": [["LABEL=etcd_disk", "/var/lib/etcddisk"]],
        "files": [{"path": "/etc/cloud.conf", "owner": "root", "permissions": "0600", "encoding": "base64",
            "contentFrom": {"secret": {"name": "cloud-config", "key": "cloud.conf"}}}],
        "users": [{"name": "ops", "sudo": "ALL=(ALL) NOPASSWD:ALL", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}],
        "ntp": {"enabled": true, "servers": ["ntp.example"]},
        "preKubeadmCommands": ["hostname \"{{ ds.meta_data.hostname }}\""], "postKubeadmCommands": ["true"],
        "diskSetup": {
            "filesystems": [{"device": "/dev/vdb", "filesystem": "ext4", "label": "etcd_disk"}],
            "partitions": [{"device": "/dev/vdb", "layout": true, "tableType": "gpt"}]},
        "ignition": {"containerLinuxConfig": {"strict": true, "additionalConfig": "systemd: {}"}}});
    configs(&machine, &machine);
    configs(
        &json!({"diskSetup": {"partitions": [{"device": "/dev/vdb", "layout": false, "diskLayout": [{"percentage": 100}]}]}}),
        &json!({"diskSetup": {"partitions": [{"device": "/dev/vdb", "diskLayout": [{"percentage": 100}]}]}}),
    );
}

#[test]
fn status_fields_of_a_config_are_renamed() {
    same(
        "bootstrap.cluster.x-k8s.io",
        "KubeadmConfig",
        json!({"status": {
            "ready": true, "dataSecretName": "a-data", "observedGeneration": 2, "failureReason": "r", "failureMessage": "m",
            "conditions": [{"type": "Ready", "status": "False", "severity": "Info", "lastTransitionTime": "2026-11-21T06:00:00Z"}],
            "v1beta2": {"conditions": [{"type": "DataSecretAvailable", "status": "True", "reason": "Available", "message": "",
                "lastTransitionTime": "2026-11-21T06:00:00Z"}]}}}),
        json!({"status": {
            "initialization": {"dataSecretCreated": true}, "dataSecretName": "a-data", "observedGeneration": 2,
            "conditions": [{"type": "DataSecretAvailable", "status": "True", "reason": "Available", "message": "",
                "lastTransitionTime": "2026-11-21T06:00:00Z"}],
            "deprecated": {"v1beta1": {"failureReason": "r", "failureMessage": "m",
                "conditions": [{"type": "Ready", "status": "False", "severity": "Info", "lastTransitionTime": "2026-11-21T06:00:00Z"}]}}}}),
    );
}

#[test]
fn fields_of_a_control_plane_are_regrouped() {
    same(
        "controlplane.cluster.x-k8s.io",
        "KubeadmControlPlane",
        json!({"spec": {
            "replicas": 3, "version": "v1.34.1",
            "kubeadmConfigSpec": {"clusterConfiguration": {"scheduler": {"extraArgs": {"a": "b"}}}},
            "machineNamingStrategy": {"template": "{{ .kubeadmControlPlane.name }}-{{ .index }}"},
            "machineTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                    "kind": "OpenStackMachineTemplate", "name": "cp", "namespace": "ns"},
                "nodeDrainTimeout": "1m30s", "nodeVolumeDetachTimeout": "5m0s", "nodeDeletionTimeout": "10s",
                "readinessGates": [{"conditionType": "Checked"}],
                "taints": [{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]},
            "remediationStrategy": {"maxRetry": 3, "retryPeriod": "5m0s", "minHealthyPeriod": "2h0m0s"},
            "rolloutAfter": "2026-11-21T06:00:00Z", "rolloutBefore": {"certificatesExpiryDays": 21},
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}},
            "status": {"initialized": true, "ready": true, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 2, "unavailableReplicas": 0,
                "selector": "cluster.x-k8s.io/cluster-name=a", "version": "v1.34.1",
                "lastRemediation": {"machine": "m", "retryCount": 0, "timestamp": "2026-11-21T06:00:00Z"},
                "v1beta2": {"readyReplicas": 3, "availableReplicas": 2, "upToDateReplicas": 2}}}),
        json!({"spec": {
            "replicas": 3, "version": "v1.34.1",
            "kubeadmConfigSpec": {"clusterConfiguration": {"scheduler": {"extraArgs": [{"name": "a", "value": "b"}]}}},
            "machineNaming": {"template": "{{ .kubeadmControlPlane.name }}-{{ .index }}"},
            "machineTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "cp"},
                "deletion": {"nodeDrainTimeoutSeconds": 90, "nodeVolumeDetachTimeoutSeconds": 300, "nodeDeletionTimeoutSeconds": 10},
                "readinessGates": [{"conditionType": "Checked"}],
                "taints": [{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]}},
            "remediation": {"maxRetry": 3, "retryPeriodSeconds": 300, "minHealthyPeriodSeconds": 7200},
            "rollout": {"after": "2026-11-21T06:00:00Z", "before": {"certificatesExpiryDays": 21},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}}},
            "status": {"initialization": {"controlPlaneInitialized": true}, "replicas": 3,
                "readyReplicas": 3, "availableReplicas": 2, "upToDateReplicas": 2,
                "selector": "cluster.x-k8s.io/cluster-name=a", "version": "v1.34.1",
                "lastRemediation": {"machine": "m", "retryCount": 0, "time": "2026-11-21T06:00:00Z"},
                "deprecated": {"v1beta1": {"readyReplicas": 3, "updatedReplicas": 2, "unavailableReplicas": 0}}}}),
    );
}

#[test]
fn fields_of_a_control_plane_template_are_regrouped() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    same(
        "controlplane.cluster.x-k8s.io",
        "KubeadmControlPlaneTemplate",
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "kubeadmConfigSpec": {"joinConfiguration": {"controlPlane": {}}}, "rolloutStrategy": strategy,
            "machineTemplate": {"nodeDrainTimeout": "1m0s"}, "remediationStrategy": {"maxRetry": 1}}}}}),
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "kubeadmConfigSpec": {"joinConfiguration": {"controlPlane": {}}}, "rollout": {"strategy": strategy},
            "machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 60}}}, "remediation": {"maxRetry": 1}}}}}),
    );
}

/// Fields that only v1beta1 has, or that the stored version lacks in this case, come back.
#[test]
fn fields_that_the_stored_version_lacks_are_kept() {
    let conversion = conversion("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "v1beta1").unwrap();
    for spec in [
        json!({"useExperimentalRetryJoin": true}),
        json!({"clusterConfiguration": {"clusterName": "c", "kubernetesVersion": "v1.34.1", "networking": {"dnsDomain": "x"}}}),
        json!({"initConfiguration": {}, "joinConfiguration": {"discovery": {}, "kind": "JoinConfiguration"}}),
        json!({"clusterConfiguration": {"apiServer": {"extraArgs": {}, "timeoutForControlPlane": "soon"}}}),
        json!({"files": [], "mounts": [["a"], []], "initConfiguration": {"localAPIEndpoint": {"bindPort": 0}}}),
    ] {
        let older = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1", "kind": "KubeadmConfig",
            "metadata": {"name": "a"}, "spec": spec});
        let stored = conversion.stored(older.clone());
        assert_eq!(stored.pointer("/spec/useExperimentalRetryJoin"), None);
        assert_eq!(conversion.served(stored), older);
    }
}

/// A duplicate flag is shown once, and both are kept when other fields are edited.
#[test]
fn an_edit_in_the_older_version_keeps_fields_that_it_lacks() {
    let conversion = conversion("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "v1beta1").unwrap();
    let flags = json!([{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]);
    let stored = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
        "metadata": {"name": "a"}, "spec": {"clusterConfiguration": {"apiServer": {"extraArgs": flags}},
        "joinConfiguration": {"timeouts": {"discoverySeconds": 7}}}});
    let mut older = conversion.served(stored);
    assert_eq!(older["spec"]["clusterConfiguration"]["apiServer"]["extraArgs"], json!({"a": "2"}));
    older["spec"]["joinConfiguration"] = json!({"discovery": {"timeout": "30s"}});
    older["spec"]["verbosity"] = json!(3);
    let again = conversion.stored(older.clone());
    assert_eq!(again["spec"]["clusterConfiguration"]["apiServer"]["extraArgs"], flags);
    assert_eq!(
        again["spec"]["joinConfiguration"]["timeouts"],
        json!({"discoverySeconds": 7, "tlsBootstrapSeconds": 30})
    );
    assert_eq!(again["spec"]["verbosity"], 3);
    older["spec"]["clusterConfiguration"]["apiServer"]["extraArgs"] = json!({"b": "3"});
    let again = conversion.stored(older);
    assert_eq!(
        again["spec"]["clusterConfiguration"]["apiServer"]["extraArgs"],
        json!([{"name": "b", "value": "3"}])
    );
}
