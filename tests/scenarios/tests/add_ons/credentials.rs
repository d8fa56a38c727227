//! Application credentials of a workload cluster: made, delivered, rotated, revoked, and the end of a process at each step.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::Cluster;
use controllers_infrastructure::{CloudConnector, Credentials, NetworkQuery};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};
use tests_scenarios::{CrashPoint, EachEffect};
use tokio_util::sync::CancellationToken;

use crate::testbed::Testbed;

/// Secret with the record of the credentials.
const RECORD: &str = "blue-application-credential";

/// Annotation of that Secret with the state.
const STATE: &str = "capstan.dev/application-credential-state";

/// Time after which a process that has not crashed is replaced all the same. On a busy machine, a start takes seconds.
const TERM: Duration = Duration::from_secs(30);

/// Looks after which a state does not come any more.
const LOOKS: usize = 600;

async fn opt_in(bed: &Testbed) {
    let annotations = json!({"capstan.dev/application-credential": "true"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    bed.api::<Cluster>().patch("blue", &PatchParams::default(), &patch).await.unwrap();
}

async fn until_delivered(bed: &Testbed) {
    bed.until::<Secret>(RECORD, |it| it.annotations().get(STATE).is_some_and(|it| it == "delivered")).await;
}

/// Returns the names of the credentials that Capstan has made.
fn made(bed: &Testbed) -> Vec<String> {
    let all = bed.world.cloud.application_credentials();
    all.into_iter().filter(|name| name.starts_with("capstan-")).collect()
}

async fn delivered(bed: &Testbed) -> Secret {
    Api::<Secret>::namespaced(bed.workload().await, "kube-system").get("cloud-config").await.unwrap()
}

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

/// Logs in with a delivered credential and the CA that came with it, and makes a call.
async fn works(secret: &Secret) -> bool {
    let ca = secret.data.as_ref().is_some_and(|data| data.contains_key("ca.crt"));
    let credentials = Credentials {
        clouds_yaml: text(secret, "clouds.yaml"),
        cloud_name: "openstack".to_owned(),
        // The file names the path of the CA in a Pod.
        ca_certificate: ca.then(|| text(secret, "ca.crt")),
        region: None,
        identity: None,
    };
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    match connector.connect(&credentials).await {
        Ok(cloud) => cloud.networks(&NetworkQuery::default()).await.is_ok(),
        Err(_) => false,
    }
}

/// Changes the credentials of the Cluster, as the rotation of a password does.
async fn change_credentials(bed: &Testbed) {
    let clouds = format!("{}    profile_of_test: changed\n", bed.world.cloud.clouds_yaml("demo"));
    let patch = Patch::Merge(json!({"stringData": {"clouds.yaml": clouds}}));
    bed.api::<Secret>().patch("credentials", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_delivered_rotated_and_revoked() {
    let bed = Testbed::start().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    bed.create_cluster().await;
    opt_in(&bed).await;
    until_delivered(&bed).await;
    let first = delivered(&bed).await;
    assert_eq!(made(&bed).len(), 1);
    assert!(works(&first).await);
    assert_eq!(text(&first, "cluster-name"), "add-ons-blue");
    let conf = text(&first, "cloud.conf");
    assert!(conf.contains("floating-network-id=") && !conf.contains("password"), "{conf}");

    // A reader of the Secret is restarted. The old credential works until its Pods are ready.
    let daemons: Api<DaemonSet> = Api::namespaced(bed.workload().await, "kube-system");
    let volumes = json!([{"name": "c", "secret": {"secretName": "cloud-config"}}]);
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "volumes": volumes}});
    let ccm = json!({"metadata": {"name": "ccm"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    daemons.create(&PostParams::default(), &serde_json::from_value(ccm).unwrap()).await.unwrap();
    change_credentials(&bed).await;
    bed.until::<Secret>(RECORD, |it| {
        it.annotations().get(STATE).is_some_and(|it| it.contains("DaemonSet kube-system/ccm"))
    })
    .await;
    let second = delivered(&bed).await;
    assert_ne!(text(&first, "cloud.conf"), text(&second, "cloud.conf"));
    assert!(works(&first).await && works(&second).await);
    let ccm = daemons.get("ccm").await.unwrap();
    let annotations = ccm.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    assert!(annotations.contains_key("capstan.dev/cloud-config-hash"), "{annotations:?}");
    let ready = json!({"status": {"observedGeneration": ccm.metadata.generation, "currentNumberScheduled": 1,
        "desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": 1, "numberMisscheduled": 0}});
    daemons.patch_status("ccm", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    until_delivered(&bed).await;
    assert_eq!(made(&bed).len(), 1);
    assert!(!works(&first).await && works(&second).await);

    // A user changes the Secret: it is written again.
    let secrets: Api<Secret> = Api::namespaced(bed.workload().await, "kube-system");
    let spoiled = Patch::Merge(json!({"data": {"cloud.conf": ""}}));
    secrets.patch("cloud-config", &PatchParams::default(), &spoiled).await.unwrap();
    opt_in_again(&bed).await;
    for _ in 0..LOOKS {
        if text(&delivered(&bed).await, "cloud.conf") == text(&second, "cloud.conf") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(text(&delivered(&bed).await, "cloud.conf"), text(&second, "cloud.conf"));

    bed.api::<Cluster>().delete("blue", &DeleteParams::background()).await.unwrap();
    bed.until_gone::<Cluster>("blue").await;
    assert_eq!(made(&bed), Vec::<String>::new());
    let events = bed.api::<Event>().list(&ListParams::default()).await.unwrap();
    let reasons: Vec<String> = events.into_iter().filter_map(|event| event.reason).collect();
    for reason in ["Created", "Delivered", "Revoked"] {
        let reason = format!("ApplicationCredential{reason}");
        assert!(reasons.contains(&reason), "{reason} {reasons:?}");
    }
    term.cancel();
    running.join_all().await;
}

/// Returns the certificate of an authority: that of the API, or that of etcd, of the workload cluster.
async fn authority(bed: &Testbed, name: &str) -> String {
    text(&bed.api::<Secret>().get(name).await.unwrap(), "tls.crt")
}

async fn change_ca(bed: &Testbed, ca: &str) {
    let patch = Patch::Merge(json!({"stringData": {"cacert": ca}}));
    bed.api::<Secret>().patch("credentials", &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until the workload cluster has this CA of the cloud, and a credential that works with it.
async fn until_ca(bed: &Testbed, ca: &str) -> Secret {
    for _ in 0..LOOKS {
        let found = delivered(bed).await;
        if found.data.as_ref().unwrap().get("ca.crt").is_some_and(|it| it.0 == ca.as_bytes()) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the cluster has no new CA: {:?}", delivered(bed).await.data.unwrap().keys());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_ca_of_the_cloud_reaches_a_running_cluster() {
    let bed = Testbed::start().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    bed.create_cluster().await;
    opt_in(&bed).await;
    until_delivered(&bed).await;
    let first = delivered(&bed).await;
    assert!(!first.data.as_ref().unwrap().contains_key("ca.crt"));
    assert!(!text(&first, "cloud.conf").contains("ca-file"));

    let deployments: Api<Deployment> = Api::namespaced(bed.workload().await, "kube-system");
    let volumes = json!([{"name": "c", "secret": {"secretName": "cloud-config"}}]);
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "volumes": volumes}});
    let csi = json!({"metadata": {"name": "csi"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    deployments.create(&PostParams::default(), &serde_json::from_value(csi).unwrap()).await.unwrap();
    let mut hashes = Vec::new();
    let (one, two) = (authority(&bed, "blue-ca").await, authority(&bed, "blue-etcd").await);
    // The second time, both are trusted, as while the certificates of a cloud are replaced.
    for ca in [one.clone(), format!("{one}{two}")] {
        change_ca(&bed, &ca).await;
        let found = until_ca(&bed, &ca).await;
        assert!(text(&found, "cloud.conf").contains("ca-file=\"/etc/config/ca.crt\""));
        assert!(text(&found, "clouds.yaml").contains("\"cacert\": \"/etc/config/ca.crt\""));
        assert!(works(&found).await);
        // The Pods that read it restart.
        bed.until::<Secret>(RECORD, |it| {
            it.annotations().get(STATE).is_some_and(|it| it.contains("Deployment kube-system/csi"))
        })
        .await;
        let csi = deployments.get("csi").await.unwrap();
        let annotations = csi.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
        hashes.push(annotations["capstan.dev/cloud-config-hash"].clone());
        let ready = json!({"status": {"observedGeneration": csi.metadata.generation, "replicas": 1,
            "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
        deployments.patch_status("csi", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
        until_delivered(&bed).await;
        assert_eq!(made(&bed).len(), 1, "the credential before it is revoked");
    }
    assert_ne!(hashes[0], hashes[1]);
    assert!(!works(&first).await);
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_fails_its_probe_is_not_delivered_and_the_one_before_it_stays() {
    let bed = Testbed::start().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    bed.create_cluster().await;
    opt_in(&bed).await;
    until_delivered(&bed).await;
    let first = delivered(&bed).await;

    // Keystone makes credentials, but Neutron refuses the call of the probe.
    let refusal = json!({"NeutronError": {"type": "PolicyNotAuthorized", "message": "no", "detail": ""}});
    bed.world.cloud.inject(InjectedFault {
        service: Some(CloudService::Network),
        method: Some("GET".to_owned()),
        path: Some("/networks".to_owned()),
        ..InjectedFault::new(FaultEffect::Status {
            code: 403,
            body: refusal.to_string(),
            content_type: None,
            retry_after: None,
        })
    });
    change_credentials(&bed).await;
    let is_probe = |event: &Event| {
        event.message.as_ref().is_some_and(|it| it.contains("use the new application credential capstan-"))
    };
    let mut looks = 0;
    while !bed.api::<Event>().list(&ListParams::default()).await.unwrap().iter().any(is_probe) {
        assert!(looks < LOOKS, "no Event reports the failed probe");
        looks += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(text(&delivered(&bed).await, "cloud.conf"), text(&first, "cloud.conf"));
    assert_eq!(made(&bed).len(), 2, "the old one is not revoked");

    bed.world.cloud.clear_faults();
    opt_in_again(&bed).await;
    for _ in 0..LOOKS {
        if text(&delivered(&bed).await, "cloud.conf") != text(&first, "cloud.conf") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until_delivered(&bed).await;
    let second = delivered(&bed).await;
    assert_ne!(text(&second, "cloud.conf"), text(&first, "cloud.conf"));
    assert!(works(&second).await && !works(&first).await);
    assert_eq!(made(&bed).len(), 1);
    term.cancel();
    running.join_all().await;
}

/// Changes an annotation, which begins a pass.
async fn opt_in_again(bed: &Testbed) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/pass": "1"}}}));
    bed.api::<Cluster>().patch("blue", &PatchParams::default(), &patch).await.unwrap();
}

/// Runs processes that end at each of these effects, until `holds`. Returns the number of effects.
async fn crash_until(bed: &Testbed, holds: impl AsyncFn()) -> usize {
    let each = Arc::new(EachEffect::containing([
        "application_credential",
        RECORD,
        "cloud-config",
        "openstackclusters/blue",
    ]));
    for _ in 0..100 {
        let crash_point = Arc::new(CrashPoint::at_each(&each));
        let term = CancellationToken::new();
        let running = tests_scenarios::run_until_crash(&bed.world, &crash_point, &term);
        let is_held = tokio::select! {
            held = tokio::time::timeout(TERM, holds()) => held.is_ok(),
            () = crash_point.crashed() => false,
        };
        drop(running);
        if is_held {
            return each.crashes().len();
        }
    }
    panic!("not there after 100 processes: {:?}", each.crashes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_at_any_step_leaves_no_credential_behind() {
    let bed = Testbed::start().await;
    bed.create_cluster().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    bed.until::<Cluster>("blue", |it| it.condition("RemoteConnectionProbe").is_some_and(|it| it.holds()))
        .await;
    term.cancel();
    running.join_all().await;

    opt_in(&bed).await;
    let effects = crash_until(&bed, || until_delivered(&bed)).await;
    assert!(effects >= 4, "the process has ended at few steps: {effects}");
    let first = made(&bed);
    assert_eq!(first.len(), 1);
    assert!(works(&delivered(&bed).await).await);

    change_credentials(&bed).await;
    let rotated = async || {
        while made(&bed) == first || made(&bed).len() != 1 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        until_delivered(&bed).await;
    };
    crash_until(&bed, rotated).await;
    assert!(works(&delivered(&bed).await).await);

    bed.api::<Cluster>().delete("blue", &DeleteParams::background()).await.unwrap();
    let gone = async || bed.until_gone::<Cluster>("blue").await;
    crash_until(&bed, gone).await;
    assert_eq!(made(&bed), Vec::<String>::new());
}
