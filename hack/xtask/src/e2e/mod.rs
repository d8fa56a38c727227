//! `cargo xtask e2e`: Capstan behind a real kube-apiserver, stored in a real etcd, driven with the
//! real kubectl, working in a real OpenStack.

mod balancer;
mod certificates;
mod clients;
mod exchange;
mod garbage;
mod guest;
mod lab;
mod openstack;
mod process;
mod reference;
mod takeover;
mod walk;

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::{conformance, prerequisites, run};
pub(crate) use certificates::Certificates;
pub(crate) use lab::{Lab, Tools, kube_apiserver, ports, start_etcd, until};
use openstack::OpenStack;
pub(crate) use process::Process;
pub(crate) use reference::Reference;

/// A scenario: a sentence, and what it does.
type Scenario = (&'static str, fn(&Lab) -> anyhow::Result<()>);

const SCENARIOS: [Scenario; 16] = [
    ("every APIService of ours becomes Available", walk::available),
    ("discovery and OpenAPI have each kind once, beside its CRD object", walk::no_duplicates),
    ("a host user with permission works through the host", walk::permitted_user),
    ("explain, describe, wait and the table work through the host", walk::reading),
    ("a host user without permission is refused by us", walk::refused_user),
    ("identity headers with another certificate are ignored", walk::forged_headers),
    ("the direct face shows the same objects", walk::direct_face),
    ("what an owner leaves behind is collected, and only that", garbage::background),
    ("a foreground deletion takes the dependents first, an orphaning one leaves them", garbage::other_orders),
    ("our core kinds are not offered to the host", walk::core_stays_the_hosts),
    ("our user in the host reads a Secret by name, and no more", exchange::secrets),
    ("our Events are shown on the host, and count on there", exchange::events),
    ("a token of the host is known on the direct face, a forged one is not", exchange::tokens),
    ("a group of the host's own CRDs is taken over, and given back", takeover::back_and_forth),
    ("one server runs the controllers, and the next one takes over", exchange::election),
    ("state survives a restart, and the host finds us again", walk::restart),
];

/// The scenarios with programs that people use.
const CLIENT_SCENARIOS: [Scenario; 18] = [
    ("kubectl of this minor does everything, on both faces", clients::current),
    ("kubectl of an older minor does everything, on both faces", clients::older),
    ("client-go and controller-runtime work through the host", clients::checks_through_host),
    ("client-go and controller-runtime work directly", clients::checks_directly),
    ("kube-rs works through the host", clients::kube_rs_through_host),
    ("kube-rs works directly", clients::kube_rs_directly),
    ("the Python client works through the host", clients::python_through_host),
    ("the Python client works directly", clients::python_directly),
    ("Helm installs, upgrades and rolls back through the host", clients::helm_through_host),
    ("Helm installs, upgrades and rolls back directly", clients::helm_directly),
    ("Flux applies, sees drift, heals it and deletes through the host", clients::flux_through_host),
    ("Flux applies, sees drift, heals it and deletes directly", clients::flux_directly),
    ("Argo CD syncs, compares, heals and prunes through the host", clients::argo_cd_through_host),
    ("Argo CD syncs, compares, heals and prunes directly", clients::argo_cd_directly),
    ("clusterctl describes a cluster and gets its kubeconfig", clients::describe),
    ("the host's collector and namespace controller work over our objects", clients::collects),
    ("an outage of ours, and flapping, make the host delete nothing wrongly", clients::outage),
    ("two replicas are restarted under load, and no write fails", clients::restart),
];

/// The scenarios in a real OpenStack.
type CloudScenario = (&'static str, fn(&Lab, &OpenStack) -> anyhow::Result<()>);

const CLOUD_SCENARIOS: [CloudScenario; 4] = [
    ("the provider passes its suite", |_, openstack| openstack::suite(openstack)),
    ("through the host: servers are made, rebooted, upgraded and leave nothing behind", |lab, openstack| {
        openstack::life(lab, openstack, &openstack::HOST)
    }),
    ("directly: servers are made, rebooted, upgraded and leave nothing behind", |lab, openstack| {
        openstack::life(lab, openstack, &openstack::DIRECT)
    }),
    ("a real guest is rebooted through the host, and answers with another boot id", guest::reboot),
];

/// Runs the tests behind a real kube-apiserver, and in a real OpenStack.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only one of the parts: behind the kube-apiserver, compared with it, with other people's clients, or in
    /// the OpenStack
    #[arg(long)]
    only: Option<Part>,
    /// Only scenarios with this in their sentence; those behind the kube-apiserver build on earlier ones
    #[arg(long, default_value = "")]
    scenario: String,
}

/// A part of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Host,
    Clients,
    Conformance,
    Openstack,
}

/// Brings everything up, runs the scenarios in order, takes everything down.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    prerequisites::lab()?;
    let wants = |part: Part| arguments.only.is_none_or(|only| only == part);
    let (mut passed, mut skipped) = (0, 0);
    if wants(Part::Conformance) {
        passed += conformance::live()?;
    }
    if arguments.only == Some(Part::Conformance) {
        return summary(passed, skipped);
    }
    let tools = Tools {
        etcd: prerequisites::current_etcd()?,
        kube_apiserver: prerequisites::kubernetes("kube-apiserver")?,
        kubectl: prerequisites::kubernetes("kubectl")?,
        capstan: {
            run::shown(&mut run::cargo(&["build", "--quiet", "--locked", "--package", "apiserver-server"])?)?;
            run::target()?.join("debug/capstan")
        },
        capstan_arguments: &[],
    };
    let started = Instant::now();
    let lab = Lab::start(tools).context("the lab does not come up")?;
    eprintln!("ok      etcd, kube-apiserver and capstan are up ({:.1} s)", started.elapsed().as_secs_f64());
    walk::mint(&lab, "direct", "system:masters")?;
    walk::available(&lab)?;
    for (part, scenarios) in [(Part::Host, &SCENARIOS[..]), (Part::Clients, &CLIENT_SCENARIOS[..])] {
        for (name, scenario) in
            scenarios.iter().filter(|(name, _)| wants(part) && name.contains(&arguments.scenario))
        {
            one(&lab, name, || scenario(&lab))?;
            passed += 1;
        }
    }
    if wants(Part::Openstack) {
        match prerequisites::openstack() {
            Ok(()) => passed += in_openstack(&lab)?,
            Err(reason) => {
                skipped = CLOUD_SCENARIOS.len();
                eprintln!("skipped {skipped} scenarios in a real OpenStack: {reason:#}");
            }
        }
    }
    summary(passed, skipped)
}

fn summary(passed: usize, skipped: usize) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{passed} passed, 0 failed, {skipped} skipped")?)
}

fn in_openstack(lab: &Lab) -> anyhow::Result<usize> {
    let started = Instant::now();
    let openstack = OpenStack::start().context("the OpenStack does not come up")?;
    eprintln!("ok      a real OpenStack is up ({:.1} s)", started.elapsed().as_secs_f64());
    for (name, scenario) in CLOUD_SCENARIOS {
        one(lab, name, || scenario(lab, &openstack))?;
    }
    Ok(CLOUD_SCENARIOS.len())
}

fn one(lab: &Lab, name: &str, scenario: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    scenario().with_context(|| format!("FAILED: {name}; logs are in {}", lab.keep_logs()))?;
    eprintln!("ok      {name} ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}
