//! Command `capstan upgrade plan`: the order in which replicas are replaced by this release, and the reasons against it.

mod decide;

use std::fmt::Write as _;

use anyhow::bail;
use jiff::Timestamp;
use serde::Serialize;

use self::decide::{Plan, Release};
use crate::backup::{self, Setup};
use crate::cli::UpgradePlanArguments;
use crate::output;
use crate::report::report;

/// Runs `capstan upgrade plan`. Nothing is changed.
///
/// # Errors
/// A store that cannot be read; a reason against the upgrade.
pub(crate) fn plan(arguments: &UpgradePlanArguments) -> anyhow::Result<()> {
    let setup = Setup::load(&arguments.store)?;
    let report = backup::block_on(report(&setup))?;
    let release = Release::of_this_program();
    let plan = decide::plan(&report, &release, Timestamp::now());
    let text = match arguments.json {
        true => format!("{}\n", serde_json::to_string_pretty(&Printed { release: &release, plan: &plan })?),
        false => rendered(&release, &plan),
    };
    output::print(&text)?;
    if !plan.blocked.is_empty() {
        bail!("the upgrade cannot begin: reasons are above");
    }
    Ok(())
}

/// Plan with the release that it is for, as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    release: &'a Release,
    #[serde(flatten)]
    plan: &'a Plan,
}

fn rendered(release: &Release, plan: &Plan) -> String {
    let mut text = format!(
        "this program: version {}, reads the stored forms {}\nstore: {}\n",
        release.version,
        numbers(&release.reads),
        plan.store
    );
    for (title, lines) in [
        ("replicas", &plan.replicas),
        ("steps", &plan.steps),
        ("notes", &plan.notes),
        ("blocked by", &plan.blocked),
    ] {
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}:");
        for (index, line) in lines.iter().enumerate() {
            let _ = match title {
                "steps" => writeln!(text, "  {}. {line}", index + 1),
                _ => writeln!(text, "  {line}"),
            };
        }
    }
    text
}

/// Returns numbers as a list for people.
fn numbers(all: &[u64]) -> String {
    all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
