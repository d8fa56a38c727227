//! Command `cargo xtask dev`: builds and starts Capstan with a simulated OpenStack.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use crate::{prerequisites, run};

/// Starts Capstan with a simulated OpenStack, and creates the cluster of manifests/examples/quickstart.yaml. Then scales,
/// reboots and deletes workers, and upgrades the cluster. All state is in `.dev`, including the kubeconfigs.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port to serve on
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Delete the state of earlier runs first
    #[arg(long)]
    fresh: bool,
    /// Run without a terminal, and exit after the last step
    #[arg(long)]
    demo: bool,
    /// Create the cluster of this manifest instead, and change nothing
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    template: Option<PathBuf>,
}

/// Builds Capstan and `hack/dev`, and replaces this process with `hack/dev`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    let root = run::root()?;
    eprintln!("building: about four minutes on a machine where nothing was built, else seconds");
    let build = ["build", "--locked", "--package", "apiserver-server", "--package", "dev"];
    run::shown(&mut run::cargo(&build)?)?;
    let target = run::target()?;
    let binary = target.join("debug/dev");
    let mut dev = Command::new(&binary);
    dev.arg("--home").arg(root.join(".dev")).arg("--binary").arg(target.join("debug/capstan"));
    dev.arg("--class").arg(root.join("manifests/classes/openstack.yaml"));
    for example in ["credentials.yaml", "quickstart.yaml"] {
        dev.arg("--manifest").arg(root.join("manifests/examples").join(example));
    }
    dev.args(["--port", &arguments.port.to_string()]);
    dev.args(arguments.fresh.then_some("--fresh")).args(arguments.demo.then_some("--demo"));
    if let Some(template) = &arguments.template {
        dev.arg("--template").arg(template);
    }
    // One process, so that Ctrl-C reaches the program that stops the servers.
    let error = dev.exec();
    Err(error).with_context(|| format!("{}: cannot be run", binary.display()))?;
    bail!("{}: cannot be run", binary.display())
}
