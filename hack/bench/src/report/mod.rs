//! Report of a benchmark: tables and plots of the results.

mod aims;
mod clusters;
mod figures;
mod growth;
mod plots;
mod tables;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use figures::Figures;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File with the results
    #[arg(long)]
    results: PathBuf,
    /// Directory for the report
    #[arg(long)]
    out: PathBuf,
}

/// Writes `api-server.md` and its plots.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let results = read(arguments)?;
    let figures = Figures::new(&results);
    let page = page(&results["machine"], &figures, &plots::draw(&figures, &arguments.out)?);
    write(arguments, "api-server.md", &page)
}

/// Writes `clusters.md` and its plots.
pub(crate) fn clusters(arguments: &Arguments) -> anyhow::Result<Value> {
    let results = read(arguments)?;
    let figures = Figures::new(&results);
    let mut page = String::from("# Many clusters\n\n");
    page.push_str(&measured(&results["machine"], "bench --clusters"));
    page.push_str(&clusters::page(&figures, &clusters::draw(&figures, &arguments.out)?));
    write(arguments, "clusters.md", &page)
}

fn read(arguments: &Arguments) -> anyhow::Result<Value> {
    let path = &arguments.results;
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn write(arguments: &Arguments, name: &str, page: &str) -> anyhow::Result<Value> {
    let path = arguments.out.join(name);
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    Ok(json!({"report": path}))
}

/// Describes the machine, and names the command.
fn measured(machine: &Value, command: &str) -> String {
    let text = |name: &str| machine[name].as_str().unwrap_or("?").to_owned();
    format!(
        "Measured by `cargo xtask {command}` on {}: {} × {}, {}, Linux {}, {}, commit {}.\n\n",
        text("date"),
        machine["cores"],
        text("processor"),
        text("memory"),
        text("kernel"),
        text("rustc"),
        text("commit"),
    )
}

fn page(machine: &Value, figures: &Figures, pictures: &[(String, &'static str)]) -> String {
    let mut page = String::from("# The API server beside others\n\n");
    page.push_str(&measured(machine, if machine["quick"] == true { "bench --quick" } else { "bench" }));
    if let Some(programs) = machine["programs"].as_object() {
        let versions = programs.iter().map(|(name, version)| {
            let version = version.as_str().unwrap_or("?");
            format!("{name}: {version}")
        });
        let versions = versions.collect::<Vec<_>>().join("; ");
        let _ = writeln!(page, "{versions}; {} rounds.\n", machine["rounds"]);
    }
    page.push_str(METHOD);
    page.push_str(&aims::table(figures));
    for (name, alternative) in pictures {
        let _ = writeln!(page, "\n![{alternative}]({name})");
    }
    page.push_str(&tables::all(figures));
    page
}

const METHOD: &str = "\
All servers run on one machine at the same time, over TLS, on the same etcd and disk. The load goes to one server after
the other. The load generator is a process of its own that shares the cores. Numbers are medians of all rounds; the
lowest and the highest are in brackets. Numbers without brackets were measured once: starts, resident memory, informers,
and the last three plots. The limits, which are etcd itself and the `floor`, are measured in each round as well.

The kube-apiserver serves Cluster API's own definition of Machine without its conversion and admission webhooks. The
sample-apiserver serves its Flunder, which annotations make as large as a Machine; a write of its status writes all of
them. No server writes an audit log, and Capstan's controllers are off. Objects that are listed are written into etcd as
each server would have written them. Lists for Go's clients are `compressed`, unless these clients disable it: MB/s are
then those of the compressed bytes. `metadata-protobuf` is the format that the garbage collector requests. If a server
has no number for 100,000, it would have needed more memory than was free.

Capstan is what `cargo build --release` builds; the others are built as their projects release them. etcd itself is
loaded through one connection, as by a server. The embedded store itself is called within the load generator's process,
as a server calls it within its own. The limit for writes is etcd with values as large as the objects. Capstan
compresses values of 2 KiB and more before it sends them to etcd, and the others do not; a table of its own shows etcd
with values of the compressed size.

**Is the load generator the bottleneck?** `floor` is a server that reads a request and returns bytes from memory,
through the same TLS and HTTP libraries as Capstan. Its rate is what the connection and the load generator allow, and no
server is loaded faster. Each table has the CPU time of the load generator. If it is as much as the server's, as with
informers, which read every event, the two share the cores. Times are then longer than the server's part of them, to the
disadvantage of the fast servers. The user who lists all objects lists a namespace of 10,000. The reader of that list
yields to other threads after every 128 KiB: otherwise the third user would wait for it and not for the server.

";
