//! The report: tables and pictures of what was measured.

mod aims;
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
    /// What was measured
    #[arg(long)]
    results: PathBuf,
    /// Where the report goes
    #[arg(long)]
    out: PathBuf,
}

/// Writes `api-server.md` and its pictures.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let path = &arguments.results;
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let results: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let figures = Figures::new(&results);
    let page = page(&results["machine"], &figures, &plots::draw(&figures, &arguments.out)?);
    let page_path = arguments.out.join("api-server.md");
    std::fs::write(&page_path, &page).with_context(|| page_path.display().to_string())?;
    Ok(json!({"report": page_path}))
}

fn page(machine: &Value, figures: &Figures, pictures: &[(String, &'static str)]) -> String {
    let mut page = String::from("# The API server beside others\n\n");
    let text = |name: &str| machine[name].as_str().unwrap_or("?").to_owned();
    let _ = writeln!(
        page,
        "Measured by `cargo xtask bench{}` on {}: {} × {}, {}, Linux {}, {}, commit {}.\n",
        if machine["quick"] == true { " --quick" } else { "" },
        text("date"),
        machine["cores"],
        text("processor"),
        text("memory"),
        text("kernel"),
        text("rustc"),
        text("commit"),
    );
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
All servers run at once on one machine, over TLS, on the same etcd and disk, with load for one at a time, in turn; the
load generator is a process of its own that shares the cores. Numbers are medians of all rounds; in brackets the lowest
and the highest. What stands without brackets was measured once: starts, resident memory, informers, and what the last
three pictures show. The limits, etcd itself and the `floor`, have their turns in each round as well. The kube-apiserver
serves Cluster API's own definition of Machine without its conversion and admission webhooks; the sample-apiserver
serves its Flunder, made as large as a Machine by annotations, of which a status write writes all. None writes an audit
log, and Capstan's controllers are off. Objects that are listed are written into etcd as each server would have. Lists
are `compressed` for Go's clients, unless these say otherwise: MB/s are then of what is sent; `metadata-protobuf` is what
the garbage collector asks for. Where a server has no number for 100,000, it would have taken more memory than was free.

Capstan is what `cargo build --release` builds; the others are built as their projects release them. etcd itself is
asked through one connection, as a server asks it; the embedded store by itself is called within the load generator's
process, as a server calls it within its own. The limit for writes is etcd with values as large as the objects: Capstan
compresses those of 2 KiB and more before etcd has them, the others do not; what etcd does with values of that size has
a table of its own.

**Is the load generator the bottleneck?** `floor` is a server that takes a request in and answers bytes from memory
through the TLS and HTTP library that Capstan uses: what it does is what the wire and the load generator allow, and no
server is asked faster. Each table says what CPU time the load generator took. Where it is as much as the server's, as
with informers, which read every event, the two share the cores, and times are longer than the server's part of them:
that is to the fast servers' disadvantage. A user who lists all lists a namespace of 10,000; what reads that list lets
other threads go on after every 128 KiB, since the third user would else wait for it and not for the server.

";
