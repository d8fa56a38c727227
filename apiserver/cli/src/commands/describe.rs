//! Command `capstan describe cluster`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::duration;
use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::objects::ClusterObjects;
use crate::output::{self, ColorChoice, ConditionFilter, LiveTree, Style};
use crate::tree::{Problem, Tree};

/// Interval between two reads with `--watch`: a change shows within a second, at about ten requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Kinds that can be described.
#[derive(Debug, Subcommand)]
pub enum DescribeCommand {
    /// Print a Cluster as a tree, with the reasons of everything that is not ready
    ///
    /// The tree has the Cluster, its infrastructure, its control plane, its workers and the operations
    /// in flight. READY counts Machines, or is a sign:
    ///
    ///   ✓ done   ○ waiting   ● in progress   ! unknown or paused   ✗ failed
    ///
    /// Four or more Machines that are alike share a line, and healthy details are left out; --all shows
    /// every object.
    ///
    /// Exit code: 0 done, 1 refused or failed, 2 wrong usage, 3 --timeout passed, 6 server not reachable
    /// or credentials not accepted, 130 Ctrl-C.
    ///
    /// Example: capstan describe cluster prod -n team --show-conditions machine!
    #[command(verbatim_doc_comment)]
    Cluster(DescribeClusterArguments),
}

/// Arguments of `capstan describe cluster`.
#[derive(Debug, Args)]
pub struct DescribeClusterArguments {
    /// Name of the Cluster
    pub name: String,
    /// Server, user and namespace.
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Objects whose conditions to show: KIND, KIND/NAME or all, separated by commas; a final ! hides
    /// conditions that need no attention
    #[arg(long, value_name = "KIND[/NAME][!],...", value_parser = ConditionFilter::parse, verbatim_doc_comment)]
    pub show_conditions: Option<ConditionFilter>,
    /// Show every object, also MachineSets and healthy details, each on a line of its own
    #[arg(long)]
    pub all: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
    /// Follow changes until the Cluster is Available
    #[arg(short, long)]
    pub watch: bool,
    /// Longest time to follow with --watch, e.g. 30s or 10m
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse, requires = "watch")]
    pub timeout: Duration,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    /// Use ASCII characters only
    #[arg(long)]
    pub ascii: bool,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A tree as a table, as wide as the terminal.
    #[value(alias = "text")]
    Table,
    /// A tree as a table with all columns and whole messages.
    Wide,
    /// JSON of schema capstan.dev/describe/v1. With --watch, one line for each change.
    Json,
    /// YAML of the same form.
    Yaml,
    /// The failed objects alone, as kind/name.
    Name,
}

/// Runs a `describe` command.
///
/// # Errors
/// The Cluster cannot be read, or with `--watch` it is not Available in time. With `-o json`, the text of the failure is
/// the server's Status.
pub fn describe(command: &DescribeCommand) -> Result<(), Failure> {
    let DescribeCommand::Cluster(arguments) = command;
    super::block_on(async {
        let connection = arguments.connection.connect().await?;
        if !arguments.watch {
            let tree = read(&connection, arguments).await?;
            return print(&text(&tree, arguments, &connection.namespace)?);
        }
        tokio::select! {
            result = Box::pin(watch(&connection, arguments)) => result,
            _ = tokio::signal::ctrl_c() => Err(interrupted(arguments)),
        }
    })
    .map_err(|failure| if arguments.output == Form::Json { failure.for_programs() } else { failure })
}

async fn read(connection: &Connection, arguments: &DescribeClusterArguments) -> Result<Tree, Failure> {
    let objects = ClusterObjects::read(&connection.client, &connection.namespace, &arguments.name).await?;
    Ok(Tree::of(&objects))
}

/// Returns the whole output for a tree.
fn text(tree: &Tree, arguments: &DescribeClusterArguments, namespace: &str) -> Result<String, Failure> {
    let lines = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect::<String>();
    match arguments.output {
        Form::Table | Form::Wide => {
            let mut style = Style::detect(&std::io::stdout(), arguments.color, arguments.ascii);
            style.width = style.width.filter(|_| arguments.output == Form::Table);
            let filter = arguments.show_conditions.clone().unwrap_or_default();
            let shown = shown(tree, arguments);
            let mut text = lines(output::render(&shown, style, &filter, Timestamp::now()));
            if let Some(summary) = summary(&tree.problems(), namespace) {
                text.push_str(&format!("\n{summary}\n"));
            }
            Ok(text)
        }
        Form::Json => {
            let text = serde_json::to_string_pretty(&output::view(tree));
            text.map(|text| text + "\n").map_err(output::unwritable)
        }
        Form::Yaml => serde_saphyr::to_string(&output::view(tree)).map_err(output::unwritable),
        Form::Name => Ok(lines(output::names(tree))),
    }
}

fn shown(tree: &Tree, arguments: &DescribeClusterArguments) -> Tree {
    if arguments.all { tree.clone() } else { tree.condensed() }
}

/// Returns the number of problems, and the command that shows the first one with its Events.
fn summary(problems: &[Problem], namespace: &str) -> Option<String> {
    let first = problems.first()?;
    let count =
        if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
    let object = format!("{} {}", first.kind.to_lowercase(), first.name);
    Some(format!("{count}.  next: kubectl describe {object} -n {namespace}"))
}

async fn watch(connection: &Connection, arguments: &DescribeClusterArguments) -> Result<(), Failure> {
    let end = Instant::now().checked_add(arguments.timeout);
    let style = Style::detect(&std::io::stdout(), arguments.color, arguments.ascii);
    let filter = arguments.show_conditions.clone().unwrap_or_default();
    let mut live = LiveTree::new(style, filter, std::io::stdout().is_terminal());
    let mut last = None;
    let mut tree = read(connection, arguments).await?;
    loop {
        if matches!(arguments.output, Form::Table | Form::Wide) {
            let shown = shown(&tree, arguments);
            live.show(&mut std::io::stdout().lock(), &shown, Timestamp::now()).map_err(output::unwritable)?;
        } else {
            print_change(&tree, arguments, &mut last, &connection.namespace)?;
        }
        if tree.is_available() {
            return Ok(());
        }
        tree = next(connection, arguments, end).await?.ok_or_else(|| timed_out(&tree, arguments))?;
    }
}

/// Reads the tree again after a moment, or returns `None` at the end. Until then, a server that restarts is waited for.
async fn next(
    connection: &Connection,
    arguments: &DescribeClusterArguments,
    end: Option<Instant>,
) -> Result<Option<Tree>, Failure> {
    let mut is_reported = false;
    loop {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(None);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        match read(connection, arguments).await {
            Err(failure) if failure.is_transient() => {
                if !std::mem::replace(&mut is_reported, true) {
                    eprintln!("{failure}\ntrying again");
                }
            }
            read => return read.map(Some),
        }
    }
}

/// Prints a tree for programs if it differs from the last one, as JSON on a single line.
fn print_change(
    tree: &Tree,
    arguments: &DescribeClusterArguments,
    last: &mut Option<String>,
    namespace: &str,
) -> Result<(), Failure> {
    let text = match arguments.output {
        Form::Json => format!("{}\n", output::view(tree)),
        Form::Yaml => format!("---\n{}", text(tree, arguments, namespace)?),
        Form::Table | Form::Wide | Form::Name => text(tree, arguments, namespace)?,
    };
    if last.as_ref() == Some(&text) {
        return Ok(());
    }
    print(&text)?;
    *last = Some(text);
    Ok(())
}

fn timed_out(tree: &Tree, arguments: &DescribeClusterArguments) -> Failure {
    let root = &tree.root;
    let seconds = arguments.timeout.as_secs();
    let summary = format!("Cluster {}/{} is not Available after {seconds} s", root.namespace, root.name);
    let failure = Failure::new(ExitCode::TimedOut, summary).next(follow(arguments));
    match &root.cause {
        Some(cause) => failure.detail("wants", cause.lines().into_iter().next().unwrap_or_default()),
        None => failure,
    }
}

fn interrupted(arguments: &DescribeClusterArguments) -> Failure {
    let summary = format!("stopped following Cluster {}", arguments.name);
    Failure::new(ExitCode::Interrupted, summary).next(follow(arguments))
}

/// Returns the command that follows the Cluster further.
fn follow(arguments: &DescribeClusterArguments) -> String {
    let namespace = arguments.connection.namespace.as_ref().map(|it| format!(" -n {it}")).unwrap_or_default();
    format!("capstan describe cluster {}{namespace} --watch", arguments.name)
}

fn print(text: &str) -> Result<(), Failure> {
    output::print(text.as_bytes())
}
