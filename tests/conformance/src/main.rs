//! `conformance`: the server of the suite, its recorder and its comparison. `cargo xtask conformance` builds
//! and runs it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use tests_conformance::{Area, Client, Differences, ServeArguments, Target, Transcripts};

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
    /// Have a real kube-apiserver serve the suite's kinds as CRDs
    Establish(TargetArguments),
    /// The product's own command line, with the suite's kinds
    Capstan {
        /// As for `capstan`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Write ca.crt, client.crt and client.key for a server whose data are in DIR/data
    Mint {
        /// The directory
        #[arg(long)]
        dir: PathBuf,
    },
    /// Ask a real kube-apiserver, and write its answers to goldens/
    Record(AskArguments),
    /// Ask a server, and compare with goldens/
    Compare(AskArguments),
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
struct AskArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// The directory tests/conformance
    #[arg(long)]
    suite: PathBuf,
    /// Put before the names of namespaces, where a server is asked a second time
    #[arg(long, default_value = "")]
    prefix: String,
    /// The server is asked through a host
    #[arg(long)]
    through_host: bool,
    /// The server is a real kube-apiserver, which may not differ at all
    #[arg(long)]
    real: bool,
    /// Only cases with this in their `area/name`
    #[arg(long, default_value = "")]
    only: String,
    /// Show what is listed in differences.yaml, too
    #[arg(long)]
    all: bool,
    /// Take entries that are not needed any more out of differences.yaml
    #[arg(long)]
    prune: bool,
    /// Write every difference that is not listed as JSON lines, for scripts
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(arguments) => tests_conformance::serve(&arguments),
        Command::Capstan { arguments } => tests_conformance::capstan(arguments),
        Command::Mint { dir } => tests_conformance::mint(&dir),
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
        Command::Serve(_) | Command::Capstan { .. } | Command::Mint { .. } => Ok(()),
        Command::Establish(target) => tests_conformance::establish(&target.client()?).await,
        Command::Record(arguments) => record(&arguments).await,
        Command::Compare(arguments) => compare(&arguments).await,
    }
}

impl TargetArguments {
    fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.server, &self.ca, &self.cert, &self.key)
    }
}

impl AskArguments {
    async fn ask(&self, real: bool) -> anyhow::Result<Transcripts> {
        let areas = Area::load(&self.suite.join("cases"))?;
        let target = Target {
            client: self.target.client()?,
            prefix: self.prefix.clone(),
            through_host: self.through_host,
            real,
        };
        target.play(&areas, &self.only).await
    }

    fn recorded(&self) -> anyhow::Result<Transcripts> {
        let mut recorded = tests_conformance::load(&self.suite.join("goldens"))?;
        recorded.retain(|id, _| id.contains(&self.only));
        Ok(recorded)
    }
}

async fn record(arguments: &AskArguments) -> anyhow::Result<()> {
    let goldens = arguments.suite.join("goldens");
    let answers = arguments.ask(true).await?;
    let mut all =
        if arguments.only.is_empty() { BTreeMap::new() } else { tests_conformance::load(&goldens)? };
    let (cases, requests) = (answers.len(), answers.values().map(Vec::len).sum::<usize>());
    all.extend(answers);
    tests_conformance::store(&goldens, &all)?;
    say(&format!("recorded {requests} answers in {cases} cases in {}", goldens.display()))
}

async fn compare(arguments: &AskArguments) -> anyhow::Result<()> {
    let answers = arguments.ask(arguments.real).await?;
    let recorded = arguments.recorded()?;
    let requests: usize = answers.values().map(Vec::len).sum();
    let mut found = Vec::new();
    for (id, answer) in &answers {
        let golden = recorded.get(id).with_context(|| format!("{id} was never recorded: run record"))?;
        found.extend(tests_conformance::compare(id, golden, answer));
    }
    let (mut news, stale) = if arguments.real {
        (found, Vec::new())
    } else {
        let list = Differences::load(&arguments.suite.join("differences.yaml"))?;
        let found_all = arguments.all.then(|| found.clone());
        let (news, stale) = list.sort_out(found, arguments.through_host);
        (found_all.unwrap_or(news), stale)
    };
    news.sort_by(|a, b| (&a.case, a.step).cmp(&(&b.case, b.step)));
    let stale: Vec<_> = stale.into_iter().filter(|entry| entry.case.contains(&arguments.only)).collect();
    if let Some(path) = &arguments.dump {
        dump(path, &news)?;
    }
    say(&tests_conformance::report(&news))?;
    if arguments.prune {
        Differences::prune(&arguments.suite.join("differences.yaml"), &stale)?;
        return say(&format!("{} entries were not needed any more", stale.len()));
    }
    for entry in &stale {
        say(&format!("{} {}: listed, but there is no difference any more", entry.case, entry.field))?;
    }
    say(&format!(
        "{requests} requests in {} cases: {} differences that are not listed, {} stale entries",
        answers.len(),
        news.len(),
        stale.len()
    ))?;
    if !(arguments.all || news.is_empty() && stale.is_empty()) {
        bail!("{} differs from the real one", arguments.target.server);
    }
    Ok(())
}

fn dump(path: &Path, news: &[tests_conformance::Difference]) -> anyhow::Result<()> {
    let mut text = String::new();
    for one in news {
        let line = serde_json::json!({"case": one.case, "step": one.step, "request": one.request, "field": one.field,
            "expected": one.expected, "got": one.got});
        text.push_str(&format!("{line}\n"));
    }
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}
