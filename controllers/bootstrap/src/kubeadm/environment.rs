//! Environment of the control plane's static pods for v1beta3, whose file has no field for it: patches of kubeadm.

use apiserver_types::{ClusterConfiguration, EnvVar, KubeadmPatches};
use serde_json::json;

use super::RenderError;
use super::api_version::ApiVersion;
use crate::setup::File;

/// Directory of the patches, if the user names none. An upgrade of the node reads them again, so it is on the disk.
const DIRECTORY: &str = "/etc/kubernetes/extra-envs";

/// End of the name of a patch. kubeadm applies patches in the order of their names, and a dash sorts before the dot and
/// the digits: the patches of the user are applied later, and have priority.
const SUFFIX: &str = "-extra-envs.json";

/// Returns the patches for the environment of the static pods, and sets their directory in the node's settings. With a
/// version whose file has the fields, there are none.
///
/// # Errors
/// The version is not valid or not supported.
pub fn environment_patches(
    version: &str,
    cluster: Option<&ClusterConfiguration>,
    patches: &mut Option<KubeadmPatches>,
) -> Result<Vec<File>, RenderError> {
    let (ApiVersion::V1Beta3, Some(cluster)) = (ApiVersion::of(version)?, cluster) else {
        return Ok(Vec::new());
    };
    let pods: Vec<_> =
        variables(cluster).into_iter().filter(|(_, variables)| !variables.is_empty()).collect();
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let given = patches.get_or_insert_default().directory.get_or_insert_with(|| DIRECTORY.to_owned());
    let directory = given.trim_end_matches('/');
    let file = |(pod, variables): (&str, &[EnvVar])| {
        // A strategic merge patch: containers and variables are merged by their names. JSON has no words for other types.
        let patch = json!({"spec": {"containers": [{"name": pod, "env": variables}]}});
        File::of_root(format!("{directory}/{pod}{SUFFIX}"), "0600", format!("{patch}\n"))
    };
    Ok(pods.into_iter().map(file).collect())
}

/// Returns the variables of each static pod. Its container has the same name.
fn variables(cluster: &ClusterConfiguration) -> [(&'static str, &[EnvVar]); 4] {
    let server = cluster.api_server.as_ref().and_then(|it| it.extra_envs.as_deref());
    let controllers = cluster.controller_manager.as_ref().and_then(|it| it.extra_envs.as_deref());
    let scheduler = cluster.scheduler.as_ref().and_then(|it| it.extra_envs.as_deref());
    let local = cluster.etcd.as_ref().and_then(|etcd| etcd.local.as_ref());
    let etcd = local.and_then(|it| it.extra_envs.as_deref());
    [
        ("kube-apiserver", server.unwrap_or_default()),
        ("kube-controller-manager", controllers.unwrap_or_default()),
        ("kube-scheduler", scheduler.unwrap_or_default()),
        ("etcd", etcd.unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(version: &str, cluster: Value, patches: Value) -> (Vec<File>, Value) {
        let cluster: ClusterConfiguration = serde_json::from_value(cluster).unwrap();
        let mut patches: Option<KubeadmPatches> = serde_json::from_value(patches).unwrap();
        let files = environment_patches(version, Some(&cluster), &mut patches).unwrap();
        (files, serde_json::to_value(&patches).unwrap())
    }

    /// A real kubeadm 1.30.14 applied these patches to its four static pods.
    #[test]
    fn the_environment_of_every_static_pod_is_a_patch_where_the_file_has_no_field() {
        let memory = json!([{"name": "GOMEMLIMIT", "value": "no"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
        let component = json!({"extraEnvs": memory});
        let all = json!({"apiServer": component, "controllerManager": component, "scheduler": component,
            "etcd": {"local": component}});
        let (files, patches) = of("v1.30.14", all.clone(), Value::Null);
        assert_eq!(patches, json!({"directory": "/etc/kubernetes/extra-envs"}));
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let expected = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"]
            .map(|pod| format!("/etc/kubernetes/extra-envs/{pod}-extra-envs.json"));
        assert_eq!(paths, expected);
        let patch: Value = serde_json::from_slice(&files[3].content).unwrap();
        assert_eq!(patch, json!({"spec": {"containers": [{"name": "etcd", "env": memory}]}}));
        assert_eq!(of("v1.31.0-rc.1", all, Value::Null), (Vec::new(), Value::Null));
    }

    #[test]
    fn the_directory_of_the_user_is_kept_and_nothing_changes_without_variables() {
        let server = json!({"apiServer": {"extraEnvs": [{"name": "A", "value": "b"}]}});
        let given = json!({"directory": "/etc/kubernetes/patches/"});
        let (files, patches) = of("v1.29.0", server, given.clone());
        assert_eq!(patches, given);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].path, "/etc/kubernetes/patches/kube-apiserver-extra-envs.json");
        let names = ["kube-apiserver.yaml", "kube-apiserver0+merge.yaml"];
        assert!(names.iter().all(|name| *name > "kube-apiserver-extra-envs.json"), "the user's patches win");
        let empty = json!({"apiServer": {"extraEnvs": []}, "etcd": {"external": {"endpoints": [], "caFile": "/a",
            "certFile": "/b", "keyFile": "/c"}}});
        assert_eq!(of("v1.29.0", empty, Value::Null), (Vec::new(), Value::Null));
        let mut patches = None;
        assert_eq!(environment_patches("v1.29.0", None, &mut patches).unwrap(), Vec::new());
        assert!(environment_patches("latest", None, &mut patches).is_err());
    }
}
