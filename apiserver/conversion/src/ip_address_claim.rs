//! Conversion of IPAddressClaim.

use serde_json::{Value, json};

use crate::fields::{drop_empty, get, put, take, with};
use crate::ip_address::default_name;
use crate::{Rules, status};

/// Rules of v1beta1.
pub(crate) const V1BETA1: Rules = Rules {
    group: "ipam.cluster.x-k8s.io",
    kind: "IPAddressClaim",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored: conditions_to_stored,
    from_stored: conditions_from_stored,
};

/// Rules of v1alpha1, which has the cluster in a label and no new conditions.
pub(crate) const V1ALPHA1: Rules =
    Rules { version: "v1alpha1", to_stored: alpha_to_stored, from_stored: alpha_from_stored, ..V1BETA1 };

/// Label with the cluster. Its name contains dots, so it is no path.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Annotation of a v1alpha1 object whose stored form has no such label. The name is Cluster API's.
const LABEL_WAS_SET: &str = "conversion.cluster.x-k8s.io/cluster-name-label-set";

/// Sets the default of older versions: a reference to an address has a name, which can be empty.
fn default(object: &mut Value) {
    with(object, "status.addressRef", default_name);
}

fn conditions_to_stored(object: &mut Value) {
    status::to_stored(object, status::CONDITIONS, status::CONDITIONS);
}

fn conditions_from_stored(object: &mut Value) {
    status::from_stored(object, status::CONDITIONS, status::CONDITIONS);
}

fn alpha_to_stored(object: &mut Value) {
    conditions_to_stored(object);
    let metadata = |object: &Value, map: &str, key: &str| -> Option<String> {
        object.get("metadata")?.get(map)?.get(key)?.as_str().map(str::to_owned)
    };
    if let Some(cluster) = metadata(object, "labels", CLUSTER_LABEL) {
        put(object, "spec.clusterName", cluster.into());
    }
    if metadata(object, "annotations", LABEL_WAS_SET).as_deref() == Some("false") {
        remove(object, "labels", CLUSTER_LABEL);
    }
    remove(object, "annotations", LABEL_WAS_SET);
}

fn alpha_from_stored(object: &mut Value) {
    conditions_from_stored(object);
    take(object, "status.v1beta2");
    drop_empty(object, "status");
    let Some(cluster) = take(object, "spec.clusterName") else { return };
    let labelled = get(object, "metadata.labels").is_some_and(|labels| labels.get(CLUSTER_LABEL).is_some());
    if !labelled {
        insert(object, "annotations", LABEL_WAS_SET, json!("false"));
    }
    insert(object, "labels", CLUSTER_LABEL, cluster);
}

fn insert(object: &mut Value, map: &str, key: &str, value: Value) {
    let path = format!("metadata.{map}");
    if get(object, &path).is_none() {
        put(object, &path, json!({}));
    }
    with(object, &path, |map| {
        if let Some(map) = map.as_object_mut() {
            map.insert(key.to_owned(), value);
        }
    });
}

fn remove(object: &mut Value, map: &str, key: &str) {
    let path = format!("metadata.{map}");
    let mut removed = None;
    with(object, &path, |map| removed = map.as_object_mut().and_then(|map| map.remove(key)));
    if removed.is_some() {
        crate::empty::drop_at(object, &path);
    }
}
