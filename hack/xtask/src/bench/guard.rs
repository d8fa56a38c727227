//! Command `cargo xtask bench --guard`: compares the instruction counts of the hot paths with the recorded ones.
//!
//! Callgrind counts the instructions, so the clock and the load of the machine have no effect.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::{prerequisites, run};

/// File with the recorded numbers: instructions per run of each path.
const RECORDED: &str = "hack/hot-paths/instructions.json";

/// Change of a path above which the guard fails, or suggests new numbers. Unit: tenths of a percent.
const TOLERANCE: i128 = 100;

/// Build profile of the paths. It is optimized, and the fuzz targets use it already.
const PROFILE: &str = "fuzz";

/// Counts the instructions and compares them. With `keep`, records them instead.
pub(super) fn run(keep: bool) -> anyhow::Result<()> {
    prerequisites::valgrind()?;
    run::shown(&mut run::cargo(&["build", "--quiet", "--locked", "--profile", PROFILE, "-p", "hot-paths"])?)?;
    let counted = count()?;
    let file = run::root()?.join(RECORDED);
    if keep {
        let text = serde_json::to_string_pretty(&counted)? + "\n";
        return std::fs::write(&file, text).with_context(|| file.display().to_string());
    }
    let kept = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let kept: BTreeMap<String, u64> = serde_json::from_slice(&kept).with_context(|| RECORDED.to_owned())?;
    compare(&kept, &counted)
}

/// Returns the instructions per run of each path.
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
    let runs = run::output(command.arg(run::target()?.join(PROFILE).join("hot-paths")))?;
    let profile = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut counted = BTreeMap::new();
    for line in runs.lines() {
        let (name, times) = line.split_once(' ').with_context(|| line.to_owned())?;
        counted.insert(name.to_owned(), instructions_of(&profile, name)? / times.parse::<u64>()?);
    }
    Ok(counted)
}

/// Returns the instructions of the function that runs a path, including its callees. In callgrind's files a function
/// has its name where it occurs first, and a number everywhere. A call is three lines: the function that is called, the
/// number of calls, and the cost.
fn instructions_of(profile: &str, name: &str) -> anyhow::Result<u64> {
    let missing = || format!("the profile of callgrind has no function {name}");
    let function = format!("::measured_{name}");
    let named = profile.lines().find(|line| line.ends_with(&function)).with_context(missing)?;
    let number = named.split_once('=').and_then(|(_, rest)| rest.split(' ').next()).with_context(missing)?;
    let called = format!("cfn={number}");
    let mut lines = profile.lines();
    lines.find(|line| line.split(' ').next() == Some(&called)).with_context(missing)?;
    let cost = lines.nth(1).and_then(|line| line.split(' ').nth(1)).with_context(missing)?;
    Ok(cost.parse()?)
}

fn compare(kept: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    let mut costlier = Vec::new();
    if let Some(name) = kept.keys().find(|name| !counted.contains_key(*name)) {
        bail!("{RECORDED} has a number for {name}, but there is no hot path of that name: {REMEDY}");
    }
    for (name, &now) in counted {
        let Some(&before) = kept.get(name) else { bail!("{RECORDED} has no number for {name}: {REMEDY}") };
        let tenths = (i128::from(now) - i128::from(before)) * 1000 / i128::from(before.max(1));
        let (sign, size) = (if tenths < 0 { '-' } else { '+' }, tenths.abs());
        let percent = format!("{sign}{}.{}", size / 10, size % 10);
        eprintln!("        {name:<10} {now:>12} instructions, {before:>12} before ({percent} %)");
        if tenths > TOLERANCE {
            costlier.push(format!("{name} ({percent} %)"));
        } else if tenths < -TOLERANCE {
            eprintln!(
                "        {name} takes fewer instructions; record that with cargo xtask bench --guard --keep"
            );
        }
    }
    match costlier.as_slice() {
        [] => Ok(()),
        _ => bail!("more instructions than recorded: {}; if that is intended: {REMEDY}", costlier.join(", ")),
    }
}

/// Command that records new numbers.
const REMEDY: &str = "cargo xtask bench --guard --keep, and give the reason in the commit message";
