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
and the highest. The kube-apiserver serves Cluster API's own definition of Machine without its conversion and admission
webhooks; the sample-apiserver serves its Flunder, made as large as a Machine by annotations. None writes an audit log,
and Capstan's controllers are off. `floor` is a server that takes a request in and answers bytes from memory through the
TLS and HTTP library that Capstan uses: what it does is what the wire and the load generator allow.

";
