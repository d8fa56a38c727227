//! Programs of etcd for both architectures, and the lists of their modules.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{image, prerequisites, run};

const PROGRAMS: [&str; 2] = ["etcd", "etcdctl"];
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// Adds the programs and their SBOMs to a folder.
pub(super) fn add(folder: &Path) -> anyhow::Result<()> {
    let version = prerequisites::version("etcd", "go.etcd.io/etcd/server/v3")?;
    let (version, own) = (version.trim_start_matches('v'), image::architecture()?);
    for name in PROGRAMS {
        for architecture in ARCHITECTURES {
            let other = (architecture != own).then_some(architecture);
            let program = prerequisites::program_of_etcd(name, other)?;
            super::copy(&program, &folder.join(format!("{name}-{version}-linux-{architecture}")))?;
        }
        let program = prerequisites::program_of_etcd(name, None)?;
        let printed = run::output(Command::new("go").args(["version", "-m"]).arg(program))?;
        let sbom = sbom(name, version, &printed).with_context(|| name.to_owned())?;
        super::document(&folder.join(format!("{name}-{version}.cdx.json")), &sbom)?;
    }
    Ok(())
}

/// Returns the modules of a program of Go as a CycloneDX document. `printed` is the output of `go version -m`.
fn sbom(name: &str, version: &str, printed: &str) -> anyhow::Result<Value> {
    let mut modules: Vec<(&str, &str)> = Vec::new();
    for line in printed.lines() {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if kind == "=>" {
            // It replaces the module before it.
            modules.pop();
        }
        if kind == "dep" || kind == "=>" {
            modules.push((path, version));
        }
    }
    ensure!(!modules.is_empty(), "`go version -m` names no modules");
    let language = printed.lines().next().and_then(|line| line.split_once(": go")).map(|(_, it)| it.trim());
    modules.extend(language.map(|version| ("std", version)));
    modules.sort_unstable();
    let component = |(path, version): (&str, &str)| {
        let purl = purl(path, version);
        json!({"type": "library", "bom-ref": purl, "name": path, "version": version, "purl": purl})
    };
    let components: Vec<Value> = modules.into_iter().map(component).collect();
    let own = json!({"type": "application", "bom-ref": name, "name": name, "version": version,
        "licenses": [{"expression": "Apache-2.0"}]});
    Ok(json!({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": own}, "components": components}))
}

fn purl(path: &str, version: &str) -> String {
    format!("pkg:golang/{path}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_of_a_program_of_go_are_listed_with_the_ones_that_replace_others() {
        let printed = "/tools/etcd: go1.26.0\n\tpath\tgo.etcd.io/etcd/server/v3\n\tmod\tcapstan.dev/hack/tools/etcd\t(devel)\t\n\
            \tdep\tgolang.org/x/net\tv0.50.0\th1:abc=\n\tdep\tgithub.com/a/b\tv1.0.0\n\t=>\tgithub.com/c/b\tv2.0.0+incompatible\th1:d=\n\
            \tbuild\t-trimpath=true\n";
        let sbom = sbom("etcd", "3.6.16", printed).unwrap();
        let purls: Vec<&str> =
            sbom["components"].as_array().unwrap().iter().filter_map(|it| it["purl"].as_str()).collect();
        assert_eq!(
            purls,
            [
                "pkg:golang/github.com/c/b@v2.0.0%2Bincompatible",
                "pkg:golang/golang.org/x/net@v0.50.0",
                "pkg:golang/std@1.26.0"
            ]
        );
        assert_eq!(sbom["metadata"]["component"]["version"], "3.6.16");
        assert!(super::sbom("etcd", "3.6.16", "/tools/etcd: go1.26.0\n").is_err());
    }
}
