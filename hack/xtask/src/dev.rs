//! `cargo xtask dev`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use crate::{prerequisites, run};

/// Starts Capstan with a simulated OpenStack, and makes the cluster of
/// manifests/examples/quickstart.yaml. All state is in `.dev`, also the kubeconfig.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port to serve on
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Throw the state of earlier runs away first
    #[arg(long)]
    fresh: bool,
    /// Without a terminal: reboot a machine, upgrade another, check both, and end
    #[arg(long)]
    demo: bool,
}

/// Builds both, and becomes the program that runs them.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    let root = run::root()?;
    eprintln!("building");
    let build = ["build", "--quiet", "--locked", "--package", "apiserver-server", "--package", "dev"];
    run::shown(&mut run::cargo(&build)?)?;
    let target = run::target()?;
    let binary = target.join("debug/dev");
    let mut dev = Command::new(&binary);
    dev.arg("--home").arg(root.join(".dev")).arg("--binary").arg(target.join("debug/capstan"));
    dev.arg("--manifest").arg(root.join("manifests/examples/quickstart.yaml"));
    dev.args(["--port", &arguments.port.to_string()]);
    dev.args(arguments.fresh.then_some("--fresh")).args(arguments.demo.then_some("--demo"));
    // One process, so that Ctrl-C reaches the one who tidies up.
    let error = dev.exec();
    Err(error).with_context(|| format!("{}: cannot be run", binary.display()))?;
    bail!("{}: cannot be run", binary.display())
}
