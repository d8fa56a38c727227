//! `cargo xtask dev`.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

use crate::{prerequisites, run};

/// Builds Capstan, starts it on loopback with everything in `.dev`, and writes `.dev/kubeconfig`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port to serve on
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Throw the state of earlier runs away first
    #[arg(long)]
    fresh: bool,
}

/// Longest a start may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the server and stays until it ends. Ctrl-C reaches both.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    let root = run::root()?;
    let home = root.join(".dev");
    if arguments.fresh && home.exists() {
        std::fs::remove_dir_all(&home).with_context(|| format!("{}: cannot be removed", home.display()))?;
    }
    std::fs::create_dir_all(&home).with_context(|| format!("{}: cannot be made", home.display()))?;
    let address = format!("127.0.0.1:{}", arguments.port);
    if let Err(error) = std::net::TcpListener::bind(&address) {
        bail!("{address} cannot be served on: {error}. Stop what has the port, or give another with --port");
    }
    eprintln!("building");
    run::shown(&mut run::cargo(&["build", "--quiet", "--locked", "--package", "apiserver-server"])?)?;
    let binary = run::target()?.join("debug/capstan");
    let data = home.join("data");
    let mut serve = Command::new(&binary);
    serve.args(["serve", "--listen", &address, "--data-dir"]).arg(&data);
    let mut server = serve.spawn().with_context(|| format!("{}: cannot be run", binary.display()))?;
    wait_for(&mut server, &address)?;
    let mut mint = Command::new(&binary);
    mint.args(["kubeconfig", "--server", &format!("https://{address}"), "--data-dir"]).arg(&data);
    let path = home.join("kubeconfig");
    std::fs::write(&path, run::output(&mut mint)?)
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    eprintln!(
        "\nready; Ctrl-C ends it. In another terminal, try:\n  \
         kubectl --kubeconfig .dev/kubeconfig api-resources\n  \
         kubectl --kubeconfig .dev/kubeconfig apply -f manifests/examples/quickstart.yaml\n  \
         kubectl --kubeconfig .dev/kubeconfig get clusters,machines -A\n"
    );
    let status = server.wait()?;
    if status.success() { Ok(()) } else { bail!("the server ended: {status}") }
}

/// Until the port is served on, or the server is over.
fn wait_for(server: &mut Child, address: &str) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(address).is_err() {
        if let Some(status) = server.try_wait()? {
            bail!("the server ended before it served: {status}; its last words are above");
        }
        if Instant::now() > end {
            server.kill()?;
            bail!("the server did not serve on {address} within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
