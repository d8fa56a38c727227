//! Memory of the server's watch cache, by its metrics.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::{Value, json};

const BYTES: &str = "capstan_watch_cache_bytes{";

const FIELD_SETS: &str = "capstan_watch_cache_field_set_bytes ";

/// Returns the bytes of each part of the watch cache, summed over all kinds.
pub(super) async fn read(client: &Client) -> anyhow::Result<Value> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Ok(parts(&client.request_text(request).await?))
}

/// Reads the metrics. A server that lacks them has no parts.
fn parts(metrics: &str) -> Value {
    let mut parts: BTreeMap<&str, f64> = BTreeMap::new();
    for line in metrics.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let part = match series.strip_prefix(BYTES) {
            Some(labels) => labels.split_once("part=\"").and_then(|(_, rest)| Some(rest.split_once('"')?.0)),
            None => line.starts_with(FIELD_SETS).then_some("fieldSets"),
        };
        if let Some((part, bytes)) = part.zip(value.parse::<f64>().ok()) {
            *parts.entry(part).or_default() += bytes;
        }
    }
    json!(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_summed_over_all_kinds() {
        let metrics = "\
            # TYPE capstan_watch_cache_bytes gauge\n\
            capstan_watch_cache_bytes{group=\"\",resource=\"secrets\",part=\"objects\"} 3\n\
            capstan_watch_cache_bytes{group=\"\",resource=\"secrets\",part=\"history\"} 5\n\
            capstan_watch_cache_bytes{group=\"a.b\",resource=\"machines\",part=\"objects\"} 4\n\
            capstan_watch_cache_field_set_bytes 9\n\
            process_resident_memory_bytes 1000\n";
        assert_eq!(parts(metrics), json!({"objects": 7.0, "history": 5.0, "fieldSets": 9.0}));
        assert_eq!(parts("process_resident_memory_bytes 1000\n"), json!({}));
    }
}
