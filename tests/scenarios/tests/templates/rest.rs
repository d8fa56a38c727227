//! Calls to the cloud for a cluster at rest, counted in one hour of a clock that the test advances, and what the looks at
//! rest notice. Upstream's provider makes at most 72 calls per Machine and hour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{SecurityGroupQuery, SubnetQuery};
use controllers_operations::Clock as _;
use controllers_runtime::SteadyClock;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};
use tests_scenarios::{Clock, Controllers, World};
use tokio_util::sync::CancellationToken;

use crate::calls::{phase, shape, template};
use crate::progress::Progress;

const NAMESPACE: &str = "rest";

/// Machines of the control plane.
const CONTROL_PLANE: usize = 3;

/// Workers.
const WORKERS: usize = 10;

/// Most calls per Machine and hour at rest.
const PER_MACHINE_AND_HOUR: usize = 2;

/// Interval of the passes over Machines. Those over clusters and templates are twice as long.
const INTERVAL: Duration = Duration::from_mins(5);

/// Age that the machines get. It is longer than the time in which they settle: their passes become rare then.
const AGE: SignedDuration = SignedDuration::from_hours(1);

/// Cluster at rest, whose controllers have a clock that the test advances.
struct Rest {
    world: World,
    clock: Arc<Clock>,
    controllers: Controllers,
}

impl Rest {
    /// Goes on with the cluster of a world in another process, which looks directly first.
    async fn begin(world: World) -> Self {
        let (clock, begin) = (Arc::new(Clock::default()), Instant::now());
        let shown = Arc::clone(&clock);
        let steady = SteadyClock::new(move || begin + shown.elapsed());
        let controllers = Controllers::start_at(&world, steady);
        let rest = Self { world, clock, controllers };
        Box::pin(rest.controllers.passes_at_rest()).await.unwrap();
        rest
    }

    /// Lets time pass, and makes the passes that become due.
    async fn pass(&self, time: Duration) {
        let mut passed = Duration::ZERO;
        while passed < time {
            passed += INTERVAL;
            self.clock.advance(INTERVAL);
            Box::pin(self.controllers.passes_at_rest()).await.unwrap();
        }
    }

    /// Returns the calls since the last count, by method and path.
    fn take_calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for call in self.world.cloud.log() {
            *calls.entry(shape(&call)).or_default() += 1;
        }
        self.world.cloud.clear_log();
        calls
    }

    async fn cluster(&self) -> OpenStackCluster {
        let api: Api<OpenStackCluster> = Api::namespaced(self.world.admin(), NAMESPACE);
        api.list(&ListParams::default()).await.unwrap().items.pop().unwrap()
    }

    /// Removes a rule of the workers' group by hand. Returns the number of rules before.
    async fn remove_rule(&self) -> usize {
        let cloud = self.world.project().await.unwrap();
        let rules = self.rules().await;
        cloud.delete_security_group_rule(&rules[0]).await.unwrap();
        rules.len()
    }

    /// Returns the ids of the rules of the workers' group.
    async fn rules(&self) -> Vec<String> {
        let cloud = self.world.project().await.unwrap();
        let groups = cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap();
        let group = groups.into_iter().find(|group| group.name.ends_with("secgroup-worker")).unwrap();
        let ingress = group.rules.into_iter().filter(|rule| rule.rule.direction == "ingress");
        ingress.map(|rule| rule.id).collect()
    }
}

/// Makes the machines look as if they had come up long ago. Returns their number.
async fn age(world: &World) -> usize {
    let api: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let machines = api.list(&ListParams::default()).await.unwrap().items;
    let past = (Timestamp::now() - AGE).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for machine in &machines {
        let mut conditions = machine.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        for condition in &mut conditions {
            condition.last_transition_time.0.clone_from(&past);
        }
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        api.patch_status(&machine.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
    machines.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_10_a_cluster_at_rest_makes_fewer_than_two_calls_per_machine_and_hour() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let manifest = template(&world, NAMESPACE, CONTROL_PLANE, WORKERS);
    let progress = Progress::new(world.admin(), &manifest);
    world.apply(NAMESPACE, &manifest.documents(&world.cloud.address())).await.unwrap();
    progress.until_available().await.unwrap();
    phase(&world).await;
    term.cancel();
    running.join_all().await;
    assert_eq!(age(&world).await, CONTROL_PLANE + WORKERS);
    world.cloud.clear_log();

    let rest = Rest::begin(world).await;
    print("the first looks, which are direct", &rest.take_calls());
    rest.pass(Duration::from_hours(1)).await;
    let calls = rest.take_calls();
    print("one hour at rest", &calls);
    let all: usize = calls.values().sum();
    assert!(all < PER_MACHINE_AND_HOUR * (CONTROL_PLANE + WORKERS), "{all} calls");
    assert!(calls.keys().all(|call| call.starts_with("GET ")), "{calls:?}");
    assert!(all > 12, "{all} calls are too few to notice anything");
    notices(&rest).await;
    drop(hollow);
}

fn print(what: &str, calls: &BTreeMap<String, usize>) {
    let all: usize = calls.values().sum();
    eprintln!("{what}: {all} calls");
    for (call, count) in calls {
        eprintln!("{count:>5} {call}");
    }
}

/// Looks at rest notice what others change, and what the cloud refuses.
async fn notices(rest: &Rest) {
    // Who may connect is compared every ten minutes, in the smallest project, too.
    let rules = rest.remove_rule().await;
    rest.pass(2 * INTERVAL).await;
    assert_eq!(rest.rules().await.len(), rules, "the rule is there again");

    // The settings of subnets are compared every half hour, although nothing but a read shows them.
    let cloud = rest.world.project().await.unwrap();
    let subnets = || async {
        let found = cloud.subnets(&SubnetQuery::default()).await.unwrap();
        found.into_iter().find(|subnet| subnet.name.starts_with("k8s-clusterapi-cluster")).unwrap()
    };
    let subnet = subnets().await;
    cloud.set_dns_nameservers(&subnet.id, &["192.0.2.1".to_owned()]).await.unwrap();
    rest.pass(Duration::from_mins(30)).await;
    assert_eq!(subnets().await.dns_nameservers, subnet.dns_nameservers);

    // An object that someone changes is compared at once, and directly.
    let rules = rest.remove_rule().await;
    let api: Api<OpenStackCluster> = Api::namespaced(rest.world.admin(), NAMESPACE);
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"example.org/look": "now"}}}));
    api.patch(&rest.cluster().await.name_any(), &PatchParams::default(), &touch).await.unwrap();
    Box::pin(rest.controllers.passes_at_rest()).await.unwrap();
    assert_eq!(rest.rules().await.len(), rules);

    // A list that fails is followed by direct reads, whose failure is reported in the cloud's words.
    rest.world.cloud.inject(InjectedFault {
        service: Some(CloudService::Network),
        path: Some("/security-groups".to_owned()),
        ..InjectedFault::new(FaultEffect::Status {
            code: 403,
            body:
                json!({"NeutronError": {"type": "PolicyNotAuthorized", "message": "not today", "detail": ""}})
                    .to_string(),
            content_type: None,
            retry_after: None,
        })
    });
    rest.clock.advance(2 * INTERVAL);
    let refused = Box::pin(rest.controllers.passes_at_rest()).await;
    assert!(refused.is_err(), "the cluster is not settled");
    let ready = rest.cluster().await.condition("Ready").cloned().unwrap();
    assert!(!ready.holds() && ready.message.contains("not today"), "{ready:?}");
    rest.world.cloud.clear_faults();

    // So is the failure of the list of servers, on each Machine.
    rest.world.cloud.inject(InjectedFault {
        service: Some(CloudService::Compute),
        path: Some("/servers/detail".to_owned()),
        ..InjectedFault::new(FaultEffect::HtmlPage { code: 502 })
    });
    rest.clock.advance(2 * INTERVAL);
    let api: Api<OpenStackMachine> = Api::namespaced(rest.world.admin(), NAMESPACE);
    assert!(Box::pin(rest.controllers.passes_at_rest()).await.is_err(), "the machines are not settled");
    for machine in api.list(&ListParams::default()).await.unwrap() {
        let ready = machine.condition("Ready").cloned().unwrap();
        assert!(!ready.holds() && ready.message.contains("502"), "{}: {ready:?}", machine.name_any());
    }
}
