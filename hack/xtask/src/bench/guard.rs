//! `cargo xtask bench --guard`: what the hot paths cost in instructions, against the numbers that are kept.
//!
//! Instructions are counted by callgrind: the clock and the machine's load have no part in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::{prerequisites, run};

/// The numbers that are kept: instructions for each time that a path is walked.
const KEPT: &str = "hack/hot-paths/instructions.json";

/// As much dearer, or cheaper, as a path may become before somebody has to look at it. Unit: tenths of a percent.
const TOLERANCE: i128 = 100;

/// The profile in which the paths are built: optimized, and built anyway for the fuzz targets.
const PROFILE: &str = "fuzz";

/// Counts, and compares; with `keep` writes the numbers down instead.
pub(super) fn run(keep: bool) -> anyhow::Result<()> {
    prerequisites::valgrind()?;
    run::shown(&mut run::cargo(&["build", "--quiet", "--locked", "--profile", PROFILE, "-p", "hot-paths"])?)?;
    let counted = count()?;
    let file = run::root()?.join(KEPT);
    if keep {
        let text = serde_json::to_string_pretty(&counted)? + "\n";
        return std::fs::write(&file, text).with_context(|| file.display().to_string());
    }
    let kept = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let kept: BTreeMap<String, u64> = serde_json::from_slice(&kept).with_context(|| KEPT.to_owned())?;
    compare(&kept, &counted)
}

/// Instructions for each time that a path is walked.
fn count() -> anyhow::Result<BTreeMap<String, u64>> {
    let home = std::env::temp_dir().join(format!("capstan-hot-paths-{}", std::process::id()));
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let counted = count_in(&home);
    let _ = std::fs::remove_dir_all(&home);
    counted
}

fn count_in(home: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*::measured_*"]);
    let file = home.join("out");
    command.arg(format!("--callgrind-out-file={}", file.display()));
    let walked = run::output(command.arg(run::target()?.join(PROFILE).join("hot-paths")))?;
    let profile = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut counted = BTreeMap::new();
    for line in walked.lines() {
        let (name, times) = line.split_once(' ').with_context(|| line.to_owned())?;
        counted.insert(name.to_owned(), within(&profile, name)? / times.parse::<u64>()?);
    }
    Ok(counted)
}

/// The instructions of the function that walks a path, with all that it calls. In callgrind's files a function has its
/// name where it is first spoken of, and a number everywhere; a call is three lines: the function that is called, how
/// often, and what that cost.
fn within(profile: &str, name: &str) -> anyhow::Result<u64> {
    let unseen = || format!("callgrind has not seen {name}");
    let function = format!("::measured_{name}");
    let named = profile.lines().find(|line| line.ends_with(&function)).with_context(unseen)?;
    let number = named.split_once('=').and_then(|(_, rest)| rest.split(' ').next()).with_context(unseen)?;
    let called = format!("cfn={number}");
    let mut lines = profile.lines();
    lines.find(|line| line.split(' ').next() == Some(&called)).with_context(unseen)?;
    let cost = lines.nth(1).and_then(|line| line.split(' ').nth(1)).with_context(unseen)?;
    Ok(cost.parse()?)
}

fn compare(kept: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    let mut dearer = Vec::new();
    if let Some(name) = kept.keys().find(|name| !counted.contains_key(*name)) {
        bail!("{KEPT} has a number for {name}, which nobody walks: {REMEDY}");
    }
    for (name, &now) in counted {
        let Some(&before) = kept.get(name) else { bail!("{KEPT} has no number for {name}: {REMEDY}") };
        let tenths = (i128::from(now) - i128::from(before)) * 1000 / i128::from(before.max(1));
        let (sign, size) = (if tenths < 0 { '-' } else { '+' }, tenths.abs());
        let percent = format!("{sign}{}.{}", size / 10, size % 10);
        eprintln!("        {name:<10} {now:>12} instructions, {before:>12} before ({percent} %)");
        if tenths > TOLERANCE {
            dearer.push(format!("{name} ({percent} %)"));
        } else if tenths < -TOLERANCE {
            eprintln!("        {name} has become cheaper: keep that with cargo xtask bench --guard --keep");
        }
    }
    match dearer.as_slice() {
        [] => Ok(()),
        _ => bail!("more instructions than are kept: {}; if that has to be, {REMEDY}", dearer.join(", ")),
    }
}

/// How numbers are kept.
const REMEDY: &str = "cargo xtask bench --guard --keep, and say why in the commit";
