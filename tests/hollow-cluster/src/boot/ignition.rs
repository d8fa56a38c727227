//! Documents for Ignition 2.3.0.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{BootPlan, commands};
use crate::json::{flag, list, text};

/// The only version that is read, as Flatcar has it.
const VERSION: &str = "2.3.0";

/// Unit that runs kubeadm.
const UNIT: &str = "kubeadm.service";

/// Reads a document.
pub(super) fn plan(document: &str) -> Result<BootPlan, String> {
    let parsed: Value =
        serde_json::from_str(document).map_err(|error| format!("failed to parse config: {error}"))?;
    let version = text(&parsed, "/ignition/version");
    if version != VERSION {
        return Err(format!("failed to parse config: unsupported config version {version:?}"));
    }
    let mut plan = BootPlan::default();
    for file in list(&parsed, "/storage/files") {
        let path = text(file, "/path");
        let content = decode(file).map_err(|error| format!("failed to write file {path:?}: {error}"))?;
        let held = plan.files.entry(path.to_owned()).or_default();
        if !flag(file, "/append") {
            held.clear();
        }
        held.extend(content);
    }
    let units = list(&parsed, "/systemd/units").iter();
    let enabled = units.filter(|unit| text(unit, "/name") == UNIT && flag(unit, "/enabled"));
    let lines: Vec<&str> =
        enabled.flat_map(|unit| text(unit, "/contents").lines()).filter_map(executed).collect();
    for line in lines {
        run(&mut plan, line)?;
    }
    Ok(plan)
}

/// Returns the command of a line of a unit.
fn executed(line: &str) -> Option<&str> {
    line.trim().strip_prefix("ExecStart=").map(str::trim)
}

/// Reads the script that a unit runs.
fn run(plan: &mut BootPlan, command: &str) -> Result<(), String> {
    let script = command.split_whitespace().find(|word| plan.files.contains_key(*word));
    let script = match script {
        Some(path) => super::text_file(plan, path)?.to_owned(),
        None => command.to_owned(),
    };
    for line in script.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if plan.kubeadm.is_none() {
            plan.kubeadm = commands::kubeadm(line);
        }
        plan.commands.push(line.to_owned());
    }
    Ok(())
}

fn decode(file: &Value) -> Result<Vec<u8>, String> {
    let source = text(file, "/contents/source");
    if source.is_empty() {
        return Ok(Vec::new());
    }
    let data = source.strip_prefix("data:").ok_or_else(|| format!("source {source:?} is no data URL"))?;
    let (kind, content) = data.split_once(',').ok_or("the data URL has no comma")?;
    let decoded: Vec<u8> = percent_decode_str(content).collect();
    let bytes = if kind.ends_with(";base64") {
        STANDARD.decode(decoded).map_err(|error| error.to_string())?
    } else {
        decoded
    };
    match text(file, "/contents/compression") {
        "" => Ok(bytes),
        "gzip" => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_end(&mut decoder, &mut plain).map_err(|error| error.to_string())?;
            Ok(plain)
        }
        other => Err(format!("unsupported compression {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_script_of_the_unit_runs_kubeadm() {
        let unit =
            "[Unit]\nConditionPathExists=/etc/kubeadm.yml\n[Service]\nExecStart=/bin/bash /etc/kubeadm.sh\n";
        let document = json!({
            "ignition": {"version": "2.3.0"},
            "storage": {"files": [
                {"filesystem": "root", "path": "/etc/kubeadm.sh", "mode": 448, "contents":
                    {"source": "data:,%23!%2Fbin%2Fbash%0Aset%20-e%0Akubeadm%20init%20--config%20%2Fetc%2Fkubeadm.yml%0A"}},
                {"filesystem": "root", "path": "/etc/kubeadm.yml", "contents": {"source": "data:;base64,YTogYg=="}},
            ]},
            "systemd": {"units": [{"name": "kubeadm.service", "enabled": true, "contents": unit}]},
        });
        let plan = plan(&document.to_string()).unwrap();
        assert_eq!(plan.files["/etc/kubeadm.yml"], b"a: b");
        assert_eq!(plan.kubeadm.unwrap().config, "/etc/kubeadm.yml");
        assert_eq!(plan.commands.len(), 2);
        assert!(super::plan("{\"ignition\": {\"version\": \"3.1.0\"}}").is_err());
    }
}
