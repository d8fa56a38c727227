//! Command `cargo xtask e2e`: end-to-end tests of Capstan with a real kube-apiserver, etcd, kubectl and OpenStack.

mod balancer;
mod bootstrap;
mod certificates;
mod clients;
mod clusterctl;
mod garbage_collection;
mod guest;
pub(crate) mod guests;
mod hollow;
mod host_data;
mod host_outage;
mod install;
mod keystone;
mod kms;
mod lab;
mod log_secrets;
mod machines;
mod mirror;
mod octavia;
mod openstack;
mod outage;
mod outcome;
mod package;
mod process;
mod reference;
mod separate_parts;
mod service_accounts;
mod shared_lab;
mod takeover;
mod templates;
mod twenty;
mod versions;
mod workflows;

use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};

use crate::test::programs;
use crate::{conformance, prerequisites, run};
pub(crate) use certificates::Certificates;
pub(crate) use lab::{Lab, Server, Tools, kube_apiserver, ports, start_etcd, until};
use openstack::OpenStack;
use outcome::Outcome;
pub(crate) use process::Process;
pub(crate) use reference::Reference;

/// Scenario: a sentence that must hold, and the function that checks it.
type Scenario = (&'static str, fn(&Lab) -> anyhow::Result<()>);

const SCENARIOS: [Scenario; 22] = [
    ("every APIService of Capstan becomes Available", workflows::available),
    ("discovery and OpenAPI list each kind once, although it has a CRD object", workflows::no_duplicates),
    ("a host user with permission creates and lists objects through the host", workflows::permitted_user),
    ("kubectl explain, describe, wait and the table of get work through the host", workflows::reading),
    ("a host user without permission is rejected, also by Capstan itself", workflows::refused_user),
    ("identity headers are ignored without the front proxy's certificate", workflows::forged_headers),
    ("the direct endpoint and the host return the same object", workflows::direct_endpoint),
    (
        "background deletion collects the dependents of a deleted owner, and only those",
        garbage_collection::background,
    ),
    (
        "foreground deletion deletes the dependents first, and orphan deletion keeps them",
        garbage_collection::other_orders,
    ),
    ("Capstan does not serve its core kinds to the front proxy", workflows::core_kinds_stay_in_the_host),
    (
        "Capstan's user in the host can get a Secret, but cannot list, create or delete Secrets",
        host_data::secrets,
    ),
    ("Capstan copies its Events to the host, and updates their counts there", host_data::events),
    ("the direct endpoint accepts a token of the host, and rejects a forged one", host_data::tokens),
    (
        "kubectl issues tokens of Capstan's own service accounts, beside those of the host",
        service_accounts::tokens,
    ),
    (
        "two machines with certificates read their own objects on the direct endpoint, and nothing of each other",
        machines::own_objects,
    ),
    ("an API group is switched from the host's CRDs to Capstan, and back", takeover::switch_and_switch_back),
    ("one server runs the controllers, and after its end another one takes over", host_data::election),
    ("every API group responds after `capstan host wait` has ended", workflows::responds_after_wait),
    ("objects survive a restart of Capstan, and the host reaches it again", workflows::restart),
    ("Capstan starts while the host is down, and knows its namespaces", host_outage::at_start),
    (
        "the direct endpoint works while the host dies and returns, and its Events follow",
        host_outage::under_load,
    ),
    (
        "a KMS plug-in on the library of Kubernetes seals Secrets, and they stay readable while it is down",
        kms::seals,
    ),
];

/// Scenarios with client programs as users run them.
const CLIENT_SCENARIOS: [Scenario; 20] = [
    ("all commands of the current kubectl work, through the host and directly", clients::current),
    ("all commands of a kubectl four minors older work, through the host and directly", clients::older),
    ("client-go and controller-runtime work through the host", clients::checks_through_host),
    ("client-go and controller-runtime work directly", clients::checks_directly),
    ("kube-rs works through the host", clients::kube_rs_through_host),
    ("kube-rs works directly", clients::kube_rs_directly),
    ("the Python client works through the host", clients::python_through_host),
    (
        "the Python client works directly, and PyJWT verifies a token of Capstan by the published keys",
        clients::python_directly,
    ),
    ("Helm installs, upgrades and rolls back through the host", clients::helm_through_host),
    ("Helm installs, upgrades and rolls back directly", clients::helm_directly),
    ("Flux applies, detects drift, corrects it and deletes through the host", clients::flux_through_host),
    ("Flux applies, detects drift, corrects it and deletes directly", clients::flux_directly),
    ("Argo CD syncs, detects drift, corrects it and prunes through the host", clients::argo_cd_through_host),
    ("Argo CD syncs, detects drift, corrects it and prunes directly", clients::argo_cd_directly),
    (
        "clusterctl describes a cluster and gets its kubeconfig through the host",
        clients::describe_through_host,
    ),
    ("clusterctl describes a cluster and gets its kubeconfig directly", clients::describe_directly),
    ("clusterctl installs nothing in a host that Capstan serves", clusterctl::finds),
    ("the host's garbage collector and namespace controller delete objects of Capstan", clients::collects),
    ("the host's garbage collector keeps owned objects during outages of Capstan", clients::outage),
    ("no write fails while two replicas are restarted one after the other under load", clients::restart),
];

/// Scenario in a real OpenStack.
type CloudScenario = (&'static str, fn(&Lab, &OpenStack) -> anyhow::Result<()>);

/// Test programs of one crate alone that use a real OpenStack: the sentence, the package and the program.
const CLOUD_PROGRAMS: [(&str, &str, &str); 2] = [
    ("the OpenStack provider passes the provider suite", "controllers-infrastructure-openstack", "openstack"),
    ("the simulator responds to twenty requests like the real cloud", "tests-openstack-simulator", "script"),
];

const CLOUD_SCENARIOS: [CloudScenario; 6] = [
    (
        "users of Keystone log in with kubectl's plug-in, and a binding gives permissions to their project",
        keystone::log_in,
    ),
    (
        "each kind of token of Keystone names its user or is refused, also after a revocation and while Keystone is stopped",
        keystone::tokens,
    ),
    (
        "through the host: servers are created, rebooted, powered off and on, upgraded and completely deleted",
        |lab, openstack| openstack::life(lab, openstack, &openstack::HOST),
    ),
    (
        "directly: servers are created, rebooted, powered off and on, upgraded and completely deleted",
        |lab, openstack| openstack::life(lab, openstack, &openstack::DIRECT),
    ),
    (
        "a load balancer of Octavia gets a member, is healed in ERROR, and is completely deleted",
        octavia::load_balancer,
    ),
    ("a real guest that is rebooted through the host returns a new boot id", guest::reboot),
];

/// Scenarios of minutes in a real OpenStack. They run only if `--scenario` selects them.
const LONG_CLOUD_SCENARIOS: [CloudScenario; 1] =
    [("twenty Machines are made and deleted with few calls", twenty::machines)];

/// Runs the end-to-end tests with a real kube-apiserver, real clients and a real OpenStack.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Run only one part: boot documents, hollow clusters, manifests and chart, three machines without a host, an outage
    /// of the host, the rights of its users in an outage, workflows behind a host cluster, client programs, comparison
    /// with a kube-apiserver, a real OpenStack, or real nodes in it; or two releases side by side, which run only by
    /// this flag
    #[arg(long)]
    only: Option<Part>,
    /// Run only scenarios whose sentence contains this text; scenarios of the part `host` depend on earlier ones
    #[arg(long, default_value = "")]
    scenario: String,
}

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    fn wants_cloud(&self) -> bool {
        self.wants(Part::Openstack) || self.wants(Part::Guests)
    }
}

/// Part of the end-to-end tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Bootstrap,
    Hollow,
    Package,
    Install,
    Host,
    Clients,
    Conformance,
    Outage,
    Versions,
    Mirror,
    Openstack,
    Guests,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Hollow => "hollow",
            Self::Package => "package",
            Self::Install => "install",
            Self::Host => "host",
            Self::Clients => "clients",
            Self::Conformance => "conformance",
            Self::Outage => "outage",
            Self::Versions => "versions",
            Self::Mirror => "mirror",
            Self::Openstack => "openstack",
            Self::Guests => "guests",
        }
    }
}

/// Builds the programs of `cargo xtask test`, starts the lab once, runs the parts in order, and stops the lab. The part
/// `outage` runs beside others, and OpenStack starts beside other parts, except for its first start on a machine.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    prerequisites::lab()?;
    let mut outcome = Outcome::new();
    if arguments.only == Some(Part::Bootstrap) {
        separate_parts::documents(&[], &mut outcome)?;
        return outcome.finish();
    }
    if arguments.only == Some(Part::Hollow) {
        separate_parts::hollow_clusters(&[], &mut outcome)?;
        return outcome.finish();
    }
    if arguments.only == Some(Part::Versions) {
        separate_parts::two_releases(&mut outcome)?;
        return outcome.finish();
    }
    if let Some(part @ (Part::Package | Part::Install | Part::Mirror)) = arguments.only {
        programs::build()?;
        match part {
            Part::Package => separate_parts::packaged(&mut outcome)?,
            Part::Mirror => separate_parts::mirror(&mut outcome)?,
            _ => separate_parts::installed(&mut outcome)?,
        }
        return outcome.finish();
    }
    if arguments.only == Some(Part::Outage) {
        programs::build()?;
        separate_parts::outage(&mut outcome)?;
        return outcome.finish();
    }
    let started = Instant::now();
    // One part needs fewer programs. Another choice of packages has other features of dependencies, and builds all anew.
    let programs = programs::build()?.programs;
    outcome.add("build", started.elapsed());
    if arguments.only.is_none() && arguments.scenario.is_empty() {
        separate_parts::documents(&programs, &mut outcome)?;
        separate_parts::packaged(&mut outcome)?;
        separate_parts::beside_outage(&programs, &mut outcome)?;
    }
    let has_openstack = arguments.wants_cloud() && shared_lab::can_have_openstack(arguments, &mut outcome)?;
    let beside = has_openstack && OpenStack::has_run()?;
    let start = || shared_lab::start_openstack(arguments.wants(Part::Openstack));
    let first = (has_openstack && !beside).then(start).transpose()?;
    std::thread::scope(|scope| {
        let starting = beside.then(|| scope.spawn(start));
        let lab = shared_lab::start_lab(&mut outcome)?;
        shared_lab::in_lab(&lab, &programs, arguments, &mut outcome)?;
        let started = match starting {
            Some(starting) => Some(starting.join().map_err(|_| anyhow!("the start of OpenStack panicked"))??),
            None => first,
        };
        if let Some((openstack, taken)) = started {
            outcome.add("openstack, start", taken);
            if arguments.wants(Part::Openstack) {
                shared_lab::in_openstack(&lab, &openstack, &programs, arguments, &mut outcome)?;
            }
            if arguments.wants(Part::Guests) && guests::has(&arguments.scenario) {
                shared_lab::with_guests(&lab, &openstack, &mut outcome)?;
            }
        }
        // This part replaces Capstan with the program of the suite, so it runs last.
        if arguments.wants(Part::Conformance) {
            let started = Instant::now();
            outcome.passed += conformance::live(&lab)?;
            outcome.add(Part::Conformance.name(), started.elapsed());
        }
        anyhow::Ok(())
    })?;
    outcome.finish()
}

/// Returns the programs of the lab. The build of all tests has built `capstan`, too.
fn tools() -> anyhow::Result<Tools> {
    Ok(Tools {
        etcd: prerequisites::current_etcd()?,
        kube_apiserver: prerequisites::kubernetes("kube-apiserver")?,
        kubectl: prerequisites::kubernetes("kubectl")?,
        capstan: run::target()?.join("debug/capstan"),
    })
}

fn one(lab: &Lab, name: &str, scenario: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    let outcome = scenario().and_then(|()| log_secrets::absent(&lab.directory("")));
    outcome.with_context(|| format!("FAILED: {name}; logs are in {}", lab.keep_logs()))?;
    eprintln!("ok      {name} ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}
