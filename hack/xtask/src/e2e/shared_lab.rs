//! Parts that share one lab: the host, its clients, a real OpenStack and real nodes.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::lab::Lab;
use super::openstack::{self, OpenStack};
use super::outcome::Outcome;
use super::{
    Arguments, CLIENT_SCENARIOS, CLOUD_PROGRAMS, CLOUD_SCENARIOS, LONG_CLOUD_SCENARIOS, Part, SCENARIOS,
    clients, guests, one, templates, tools, workflows,
};
use crate::test::programs;
use crate::{prerequisites, run};

pub(super) fn start_lab(outcome: &mut Outcome) -> anyhow::Result<Lab> {
    let started = Instant::now();
    let lab = Lab::start(tools()?).context("cannot start the lab")?;
    workflows::mint(&lab, "direct", "system:masters")?;
    workflows::available(&lab)?;
    outcome.add("lab", started.elapsed());
    Ok(lab)
}

/// Runs the scenarios that need the lab alone.
pub(super) fn in_lab(
    lab: &Lab,
    programs: &[programs::Program],
    arguments: &Arguments,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for (part, scenarios) in [(Part::Host, &SCENARIOS[..]), (Part::Clients, &CLIENT_SCENARIOS[..])] {
        if arguments.wants(part) {
            let started = Instant::now();
            for (name, scenario) in scenarios.iter().filter(|(name, _)| name.contains(&arguments.scenario)) {
                one(lab, name, || scenario(lab))?;
                outcome.passed += 1;
            }
            outcome.add(part.name(), started.elapsed());
        }
    }
    if arguments.wants(Part::Clients) && clients::MOVE.contains(&arguments.scenario) {
        let started = Instant::now();
        one(lab, clients::MOVE, || clients::moves(programs))?;
        outcome.passed += 1;
        outcome.add("clients, move", started.elapsed());
    }
    if arguments.wants(Part::Clients) && clients::ACTIONS.contains(&arguments.scenario) {
        let started = Instant::now();
        one(lab, clients::ACTIONS, || clients::actions(lab, programs))?;
        outcome.passed += 1;
        outcome.add("clients, actions", started.elapsed());
    }
    if arguments.wants(Part::Host) && templates::SENTENCE.contains(&arguments.scenario) {
        let started = Instant::now();
        one(lab, templates::SENTENCE, || templates::run(lab, programs))?;
        outcome.passed += 1;
        outcome.add("host, templates", started.elapsed());
    }
    Ok(())
}

/// Returns true if this machine can have an OpenStack. If not, the scenarios are skipped, unless they were requested by
/// name or CI runs them: there a suite that cannot run counts as failed.
pub(super) fn can_have_openstack(arguments: &Arguments, outcome: &mut Outcome) -> anyhow::Result<bool> {
    let Err(reason) = prerequisites::openstack() else {
        return Ok(true);
    };
    if run::in_ci() || arguments.only.is_some() {
        return Err(reason.context("cannot run scenarios in a real OpenStack"));
    }
    outcome.skipped += CLOUD_SCENARIOS.len() + CLOUD_PROGRAMS.len() + guests::COUNT;
    eprintln!("skipped {} scenarios in a real OpenStack: {reason:#}", outcome.skipped);
    Ok(false)
}

pub(super) fn start_openstack(has_emulation: bool) -> anyhow::Result<(OpenStack, Duration)> {
    let started = Instant::now();
    let openstack = OpenStack::start(has_emulation).context("cannot start OpenStack")?;
    let taken = started.elapsed();
    eprintln!("ok      a real OpenStack has started ({:.1} s)", taken.as_secs_f64());
    Ok((openstack, taken))
}

/// Runs the scenarios in a real OpenStack, and the test programs that use one.
pub(super) fn in_openstack(
    lab: &Lab,
    openstack: &OpenStack,
    programs: &[programs::Program],
    arguments: &Arguments,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let is_selected = |sentence: &str| sentence.contains(&arguments.scenario);
    for (sentence, package, name) in CLOUD_PROGRAMS.into_iter().filter(|(it, ..)| is_selected(it)) {
        one(lab, sentence, || openstack::run_program(openstack, programs, package, name))?;
        outcome.passed += 1;
    }
    let long = LONG_CLOUD_SCENARIOS.iter().filter(|_| !arguments.scenario.is_empty());
    for (name, scenario) in CLOUD_SCENARIOS.iter().chain(long).filter(|(name, _)| is_selected(name)) {
        one(lab, name, || scenario(lab, openstack))?;
        outcome.passed += 1;
    }
    outcome.add(Part::Openstack.name(), started.elapsed());
    Ok(())
}

/// Runs the scenarios with real nodes, unless their root folder is not built in time.
pub(super) fn with_guests(lab: &Lab, openstack: &OpenStack, outcome: &mut Outcome) -> anyhow::Result<()> {
    let started = Instant::now();
    let image = guests::image().context("cannot build the root folder of the guests")?;
    outcome.add("guests, build", started.elapsed());
    let Some(image) = image else {
        outcome.skipped += guests::COUNT;
        outcome.note = guests::PUT_OFF;
        outcome.suites.note(guests::PUT_OFF);
        return Ok(());
    };
    let started = Instant::now();
    outcome.passed += guests::run(lab, openstack, image)?;
    outcome.add(Part::Guests.name(), started.elapsed());
    Ok(())
}
