//! `cargo xtask e2e`: Capstan behind a real kube-apiserver, stored in a real etcd, driven with the
//! real kubectl, working in a real OpenStack.

mod balancer;
mod certificates;
mod clients;
mod garbage_collection;
mod guest;
mod host_data;
mod lab;
mod openstack;
mod process;
mod reference;
mod takeover;
mod workflows;

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::suites::Suites;
use crate::{conformance, prerequisites, run};
pub(crate) use certificates::Certificates;
pub(crate) use lab::{Lab, Program, Tools, kube_apiserver, ports, start_etcd, until};
use openstack::OpenStack;
pub(crate) use process::Process;
pub(crate) use reference::Reference;

/// A scenario: a sentence, and what it does.
type Scenario = (&'static str, fn(&Lab) -> anyhow::Result<()>);

const SCENARIOS: [Scenario; 17] = [
    ("every APIService of ours becomes Available", workflows::available),
    ("discovery and OpenAPI have each kind once, beside its CRD object", workflows::no_duplicates),
    ("a host user with permission works through the host", workflows::permitted_user),
    ("explain, describe, wait and the table work through the host", workflows::reading),
    ("a host user without permission is refused by us", workflows::refused_user),
    ("identity headers with another certificate are ignored", workflows::forged_headers),
    ("the direct face shows the same objects", workflows::direct_face),
    ("what an owner leaves behind is collected, and only that", garbage_collection::background),
    (
        "a foreground deletion takes the dependents first, an orphaning one leaves them",
        garbage_collection::other_orders,
    ),
    ("our core kinds are not offered to the host", workflows::core_stays_the_hosts),
    ("our user in the host reads a Secret by name, and no more", host_data::secrets),
    ("our Events are shown on the host, and count on there", host_data::events),
    ("a token of the host is known on the direct face, a forged one is not", host_data::tokens),
    ("a group of the host's own CRDs is taken over, and given back", takeover::back_and_forth),
    ("one server runs the controllers, and the next one takes over", host_data::election),
    ("each kind answers once `capstan host wait` has ended", workflows::answers_after_wait),
    ("state survives a restart, and the host finds us again", workflows::restart),
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

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Clients => "clients",
            Self::Conformance => "conformance",
            Self::Openstack => "openstack",
        }
    }
}

/// Brings everything up once, runs the parts in order, takes everything down.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    prerequisites::lab()?;
    let wants = |part: Part| arguments.only.is_none_or(|only| only == part);
    let mut outcome = Outcome::new();
    let started = Instant::now();
    let lab = Lab::start(tools()?).context("the lab does not come up")?;
    workflows::mint(&lab, "direct", "system:masters")?;
    workflows::available(&lab)?;
    outcome.add("build and lab", started);
    for (part, scenarios) in [(Part::Host, &SCENARIOS[..]), (Part::Clients, &CLIENT_SCENARIOS[..])] {
        if wants(part) {
            let started = Instant::now();
            for (name, scenario) in scenarios.iter().filter(|(name, _)| name.contains(&arguments.scenario)) {
                one(&lab, name, || scenario(&lab))?;
                outcome.passed += 1;
            }
            outcome.add(part.name(), started);
        }
    }
    if wants(Part::Openstack) {
        in_openstack(&lab, arguments, &mut outcome)?;
    }
    // It replaces Capstan by the suite's program, so it comes last.
    if wants(Part::Conformance) {
        let started = Instant::now();
        outcome.passed += conformance::live(&lab)?;
        outcome.add(Part::Conformance.name(), started);
    }
    outcome.finish()
}

/// The programs of the lab, built where they are missing.
fn tools() -> anyhow::Result<Tools> {
    run::shown(&mut run::cargo(&["build", "--quiet", "--locked", "--package", "apiserver-server"])?)?;
    Ok(Tools {
        etcd: prerequisites::current_etcd()?,
        kube_apiserver: prerequisites::kubernetes("kube-apiserver")?,
        kubectl: prerequisites::kubernetes("kubectl")?,
        capstan: run::target()?.join("debug/capstan"),
        capstan_arguments: &[],
    })
}

/// The counts of all parts, and how long each took.
struct Outcome {
    passed: usize,
    skipped: usize,
    suites: Suites,
}

impl Outcome {
    fn new() -> Self {
        Self { passed: 0, skipped: 0, suites: Suites::new("e2e") }
    }

    fn add(&mut self, part: &str, started: Instant) {
        self.suites.add(part, started.elapsed());
    }

    fn finish(self) -> anyhow::Result<()> {
        let budgets = self.suites.finish();
        writeln!(std::io::stdout(), "{} passed, 0 failed, {} skipped", self.passed, self.skipped)?;
        budgets
    }
}

/// Runs the scenarios in a real OpenStack. On a machine that cannot have one they are skipped, unless they were requested
/// by name or CI runs them: there a suite that cannot run has failed.
fn in_openstack(lab: &Lab, arguments: &Arguments, outcome: &mut Outcome) -> anyhow::Result<()> {
    if let Err(reason) = prerequisites::openstack() {
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        if in_ci || arguments.only == Some(Part::Openstack) {
            return Err(reason.context("no scenario can run in a real OpenStack"));
        }
        outcome.skipped = CLOUD_SCENARIOS.len();
        eprintln!("skipped {} scenarios in a real OpenStack: {reason:#}", outcome.skipped);
        return Ok(());
    }
    let started = Instant::now();
    let openstack = OpenStack::start().context("the OpenStack does not come up")?;
    eprintln!("ok      a real OpenStack is up ({:.1} s)", started.elapsed().as_secs_f64());
    outcome.add("openstack, start", started);
    let started = Instant::now();
    for (name, scenario) in CLOUD_SCENARIOS.iter().filter(|(name, _)| name.contains(&arguments.scenario)) {
        one(lab, name, || scenario(lab, &openstack))?;
        outcome.passed += 1;
    }
    outcome.add(Part::Openstack.name(), started);
    Ok(())
}

fn one(lab: &Lab, name: &str, scenario: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    scenario().with_context(|| format!("FAILED: {name}; logs are in {}", lab.keep_logs()))?;
    eprintln!("ok      {name} ({:.1} s)", started.elapsed().as_secs_f64());
    Ok(())
}
