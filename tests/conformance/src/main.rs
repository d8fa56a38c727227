//! Program `conformance`: the server of the suite, its recorder and its comparison. `cargo xtask conformance`
//! builds and runs it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use tests_conformance::authentication::{self, AuthenticationCase};
use tests_conformance::rbac::{self, Recording, World};
use tests_conformance::{Area, Client, KnownDifferences, ServeArguments, ServerUnderTest, Transcripts};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask conformance")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the product's kinds and the Widget, without controllers
    Serve(ServeArguments),
    /// Create the suite's kinds as CRDs in a real kube-apiserver
    Establish(TargetArguments),
    /// Run Capstan's own command line, with the suite's kinds
    Capstan {
        /// Arguments of `capstan`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write ca.crt, client.crt and client.key for a server whose data directory is DIR/data
    Mint {
        /// The directory
        #[arg(long)]
        dir: PathBuf,
    },
    /// Send the cases to a real kube-apiserver, and write its responses to goldens/
    Record(RunArguments),
    /// Send the cases to a server, and compare its responses with goldens/
    Compare(RunArguments),
    /// Create random policies in a real kube-apiserver without other roles, and record its verdicts
    RecordRbac {
        #[command(flatten)]
        target: TargetArguments,
        /// File of the recording
        #[arg(long)]
        file: PathBuf,
        /// Seed of the policies
        #[arg(long)]
        seed: u64,
    },
    /// Let a real kube-apiserver reload each authentication file, and record its errors
    RecordAuthentication {
        /// Authentication file of the running server
        #[arg(long)]
        live: PathBuf,
        /// Log of the server, in JSON
        #[arg(long)]
        log: PathBuf,
        /// The directory tests/conformance/authentication
        #[arg(long)]
        suite: PathBuf,
    },
}

#[derive(Debug, Args)]
struct TargetArguments {
    /// `host:port`
    #[arg(long)]
    server: String,
    /// The CA of its certificate
    #[arg(long)]
    ca: PathBuf,
    /// A client certificate of group system:masters
    #[arg(long)]
    cert: PathBuf,
    /// Its key
    #[arg(long)]
    key: PathBuf,
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// The directory tests/conformance, or its directory audit or quota
    #[arg(long)]
    suite: PathBuf,
    /// Compare the events of the server's audit log, not its responses
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Prefix of the names of namespaces, for another run against the same server
    #[arg(long, default_value = "")]
    prefix: String,
    /// The requests go through a host cluster
    #[arg(long)]
    through_host: bool,
    /// The server is a real kube-apiserver, for which no difference is allowed
    #[arg(long)]
    real: bool,
    /// Run only the cases with this text in their `area/name`
    #[arg(long, default_value = "")]
    only: String,
    /// Show the differences that differences.yaml lists, too
    #[arg(long)]
    all: bool,
    /// Remove stale entries from differences.yaml
    #[arg(long)]
    prune: bool,
    /// Write every unlisted difference as a JSON line, for scripts
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(arguments) => tests_conformance::serve(&arguments),
        Command::Capstan { arguments } => tests_conformance::capstan(arguments),
        Command::Mint { dir } => tests_conformance::mint(&dir),
        Command::RecordAuthentication { live, log, suite } => record_authentication(&live, &log, &suite),
        other => tokio::runtime::Runtime::new().map_err(Into::into).and_then(|it| it.block_on(run(other))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(_)
        | Command::Capstan { .. }
        | Command::Mint { .. }
        | Command::RecordAuthentication { .. } => Ok(()),
        Command::Establish(target) => tests_conformance::establish(&target.client()?).await,
        Command::Record(arguments) => record(&arguments).await,
        Command::Compare(arguments) => compare(&arguments).await,
        Command::RecordRbac { target, file, seed } => record_rbac(&target.client()?, &file, seed).await,
    }
}

impl TargetArguments {
    fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.server, &self.ca, &self.cert, &self.key)
    }

    /// Returns the clients of other users. Their certificates are beside that of the administrator.
    fn users(&self) -> anyhow::Result<BTreeMap<String, Client>> {
        let file = |name: &str| self.cert.with_file_name(name);
        let (certificate, key) = (file("alice.crt"), file("alice.key"));
        if !certificate.exists() {
            return Ok(BTreeMap::new());
        }
        let alice = Client::new(&self.server, &self.ca, &certificate, &key)?;
        Ok(BTreeMap::from([("alice".to_owned(), alice)]))
    }
}

impl RunArguments {
    async fn run_cases(&self, real: bool) -> anyhow::Result<Transcripts> {
        let areas = Area::load(&self.suite.join("cases"))?;
        let target = ServerUnderTest {
            client: self.target.client()?,
            users: self.target.users()?,
            prefix: self.prefix.clone(),
            through_host: self.through_host,
            real,
        };
        match &self.audit_log {
            None => target.run(&areas, &self.only).await,
            Some(log) => target.run_audited(&areas, &self.only, log).await,
        }
    }

    fn recorded(&self) -> anyhow::Result<Transcripts> {
        let mut recorded = tests_conformance::load(&self.suite.join("goldens"))?;
        recorded.retain(|id, _| id.contains(&self.only));
        Ok(recorded)
    }
}

/// Time in which a kube-apiserver certainly sees all roles and bindings.
const SETTLED: Duration = Duration::from_secs(5);

async fn record_rbac(client: &Client, file: &Path, seed: u64) -> anyhow::Result<()> {
    let worlds: Vec<World> = (0..rbac::WORLDS).map(|number| World::generate(seed, number)).collect();
    for world in &worlds {
        rbac::establish(client, world).await?;
    }
    tokio::time::sleep(SETTLED).await;
    let mut recording = Recording { seed, worlds: Vec::new() };
    for world in &worlds {
        recording.worlds.push(rbac::answer(client, world, true).await?);
    }
    recording.store(file)?;
    say(&format!("recorded the verdicts about {} policies in {}", worlds.len(), file.display()))
}

fn record_authentication(live: &Path, log: &Path, suite: &Path) -> anyhow::Result<()> {
    let cases = AuthenticationCase::load(&suite.join("cases"))?;
    let recorded = authentication::record(&cases, live, log)?;
    let file = suite.join("recorded.json");
    recorded.store(&file)?;
    say(&format!("recorded the verdicts about {} authentication files in {}", recorded.len(), file.display()))
}

async fn record(arguments: &RunArguments) -> anyhow::Result<()> {
    let goldens = arguments.suite.join("goldens");
    let responses = arguments.run_cases(true).await?;
    let mut all =
        if arguments.only.is_empty() { BTreeMap::new() } else { tests_conformance::load(&goldens)? };
    let (cases, requests) = (responses.len(), responses.values().map(Vec::len).sum::<usize>());
    all.extend(responses);
    tests_conformance::store(&goldens, &all)?;
    say(&format!("recorded {requests} responses in {cases} cases in {}", goldens.display()))
}

async fn compare(arguments: &RunArguments) -> anyhow::Result<()> {
    let responses = arguments.run_cases(arguments.real).await?;
    let recorded = arguments.recorded()?;
    let requests: usize = responses.values().map(Vec::len).sum();
    let mut found = Vec::new();
    for (id, response) in &responses {
        let golden = recorded.get(id).with_context(|| format!("{id} was never recorded: run record"))?;
        found.extend(tests_conformance::compare(id, golden, response));
    }
    let (mut unlisted, stale) = if arguments.real {
        (found, Vec::new())
    } else {
        let list = KnownDifferences::load(&arguments.suite.join("differences.yaml"))?;
        let found_all = arguments.all.then(|| found.clone());
        let (unlisted, stale) = list.partition(found, arguments.through_host);
        (found_all.unwrap_or(unlisted), stale)
    };
    unlisted.sort_by(|a, b| (&a.case, a.step).cmp(&(&b.case, b.step)));
    let stale: Vec<_> = stale.into_iter().filter(|entry| entry.case.contains(&arguments.only)).collect();
    if let Some(path) = &arguments.dump {
        dump(path, &unlisted)?;
    }
    say(&tests_conformance::report(&unlisted))?;
    if arguments.prune {
        KnownDifferences::prune(&arguments.suite.join("differences.yaml"), &stale)?;
        return say(&format!("{} entries were not needed any more", stale.len()));
    }
    for entry in &stale {
        say(&format!("{} {}: listed, but there is no difference any more", entry.case, entry.field))?;
    }
    say(&format!(
        "{requests} requests in {} cases: {} differences that are not listed, {} stale entries",
        responses.len(),
        unlisted.len(),
        stale.len()
    ))?;
    if !(arguments.all || unlisted.is_empty() && stale.is_empty()) {
        bail!("{} differs from the real kube-apiserver", arguments.target.server);
    }
    Ok(())
}

fn dump(path: &Path, unlisted: &[tests_conformance::Difference]) -> anyhow::Result<()> {
    let mut text = String::new();
    for one in unlisted {
        let line = serde_json::json!({"case": one.case, "step": one.step, "request": one.request, "field": one.field,
            "expected": one.expected, "got": one.got});
        text.push_str(&format!("{line}\n"));
    }
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
