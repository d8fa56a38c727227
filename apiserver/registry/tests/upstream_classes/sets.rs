//! Sets of variables: as few as a class requires, and all that switch a patch on.

use apiserver_types::ClusterClass;
use serde_json::{Value, json};

/// Values of variables, as lists of entries of a Cluster.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) variables: Vec<Value>,
    /// Values for each group of workers.
    pub(crate) overrides: Vec<Value>,
}

/// Returns the sets of variables for a class. A set has the variables that the class defines.
pub(crate) fn of(class: &ClusterClass) -> Vec<Set> {
    let few = json!({"cloudSecret": "cloud", "identityRef": {}});
    let all = json!({
        // Of the classes of Cluster API's own tests.
        "cloudSecret": "cloud", "etcdImageTag": "3.5.3-0", "coreDNSImageTag": "v1.8.5",
        "kubeadmControlPlaneMaxSurge": "0", "controlPlaneTaint": false, "externalCloudProvider": true,
        "ipv6Primary": true, "kubeControlPlaneLogLevel": "4", "kubeletLogLevel": "6",
        "lbImageRepository": "registry.example/lb", "preLoadImages": ["one:1", "two:2"],
        // Of the class of the OpenStack provider's tests.
        "identityRef": {"name": "cloud"}, "imageRef": "node", "addImageVersion": false,
        "injectIgnitionSysext": true, "allowedCIDRs": ["10.0.0.0/8", "192.0.2.0/24"],
        "bastion": {"enabled": true, "spec": {"flavor": {"filter": {"name": "m1.tiny"}},
            "image": {"filter": {"name": "cirros"}}, "sshKeyName": "default"}, "floatingIP": "192.0.2.9",
            "availabilityZone": "az1"},
    });
    let filtered = json!({"identityRef": {}, "imageName": "node", "imageRef": ""});
    let overrides = json!({"kubeletLogLevel": "9", "imageRef": "other", "addImageVersion": true});
    let set = |name, values: &Value, overrides: &Value| Set {
        name,
        variables: entries(class, values),
        overrides: entries(class, overrides),
    };
    let mut sets = vec![set("few", &few, &json!({})), set("all", &all, &overrides)];
    if is_defined(class, "imageName") {
        sets.push(set("image by name", &filtered, &json!({})));
    }
    sets
}

fn is_defined(class: &ClusterClass, name: &str) -> bool {
    class.spec.variables.iter().flatten().any(|variable| variable.name == name)
}

fn entries(class: &ClusterClass, values: &Value) -> Vec<Value> {
    let values = values.as_object().unwrap().iter().filter(|(name, _)| is_defined(class, name));
    values.map(|(name, value)| json!({"name": name, "value": value})).collect()
}
