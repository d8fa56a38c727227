//! Sandbox of a process, as systemd or a container engine makes it: no capabilities, and a filter of system calls.
//!
//! It needs neither of them. The filter is that of a unit in `manifests/systemd`, or refuses the calls that container
//! engines refuse by default.

mod container;
mod filter;
mod unit;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{prerequisites, run};
use filter::Filter;

/// Program that installs a filter and becomes the command.
const INSTALLER: &str = include_str!("filter.py");

/// Python of the distribution, which has the module `seccomp` as a package.
const PYTHON: &str = "/usr/bin/python3";

/// Words before a command that make its sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox(Vec<String>);

impl Sandbox {
    /// Reports whether this machine can evaluate the filter of a unit.
    pub(crate) fn knows_units() -> bool {
        // The module of Python is a package of the distribution.
        let programs = ["systemd-analyze", "setpriv", "apt-get"];
        programs.into_iter().all(run::is_there) && Path::new(PYTHON).exists()
    }

    /// Returns the sandbox of a unit in `manifests/systemd`. Its files are in the folder `home`. The caller is root.
    pub(crate) fn of_unit(name: &str, home: &Path) -> anyhow::Result<Self> {
        let path = run::root()?.join("manifests/systemd").join(name);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let groups = run::output(Command::new("systemd-analyze").args(["--no-pager", "syscall-filter"]))?;
        let filter = unit::filter(&text, &unit::groups(&groups)).with_context(|| name.to_owned())?;
        let rights = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
        Self::with(&rights, &filter, home, name)
    }

    /// Returns the sandbox of a container with the default filter. Its files are in the folder `home`. The command still
    /// has to change its user.
    pub(crate) fn of_container(home: &Path) -> anyhow::Result<Self> {
        Self::with(&["--inh-caps=-all", "--no-new-privs"], &container::filter(), home, "container")
    }

    fn with(rights: &[&str], filter: &Filter, home: &Path, name: &str) -> anyhow::Result<Self> {
        let module = prerequisites::seccomp()?.display().to_string();
        let (installer, rules) = (home.join("filter.py"), home.join(format!("{name}.json")));
        std::fs::write(&installer, INSTALLER).with_context(|| installer.display().to_string())?;
        std::fs::write(&rules, filter.json().to_string()).with_context(|| rules.display().to_string())?;
        let mut words = vec!["setpriv".to_owned()];
        words.extend(rights.iter().map(|&word| word.to_owned()));
        // Without the modules of the user, and without files of compiled modules.
        words.extend([PYTHON, "-s", "-B"].map(str::to_owned));
        words.extend([installer.display().to_string(), module, rules.display().to_string()]);
        Ok(Self(words))
    }

    /// Returns the words before a command.
    pub(crate) fn words(&self) -> &[String] {
        &self.0
    }

    /// Checks that the sandbox refuses a system call that only administrators need.
    pub(crate) fn refuses(&self) -> anyhow::Result<()> {
        let run = |words: &[&str]| Command::new("env").args(&self.0).args(words).output();
        let (works, refused) = (run(&["true"])?, run(&["unshare", "--uts", "true"])?);
        let error = String::from_utf8_lossy(&works.stderr);
        ensure!(works.status.success(), "no program runs in the sandbox: {error}");
        let error = String::from_utf8_lossy(&refused.stderr);
        ensure!(error.contains("not permitted"), "the sandbox permits namespaces: {error}");
        Ok(())
    }
}

/// Checks that a process has no capabilities, can get none, and has a filter of system calls.
pub(crate) fn verify(process: u32) -> anyhow::Result<()> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    for expected in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        ensure!(
            status.lines().any(|line| line == expected),
            "the process {process} does not run with {expected:?}"
        );
    }
    Ok(())
}
