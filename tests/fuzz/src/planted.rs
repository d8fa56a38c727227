//! Planted errors, each behind a condition that no seed meets. They prove that the engine finds errors.

use std::time::{Duration, Instant};

use apiserver_machinery::selectors::LabelSelector;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use crate::finding::Verdict;
use crate::response::{self, ReceivedResponse};
use crate::target::FuzzTarget;

/// Returns the targets that have a planted error.
pub fn planted() -> &'static [FuzzTarget] {
    const PLANTED: [FuzzTarget; 4] = [
        FuzzTarget::alone("planted-panic", panic),
        FuzzTarget::alone("planted-memory", memory),
        FuzzTarget::alone("planted-time", time),
        FuzzTarget::alone("planted-answer", silent),
    ];
    const { &PLANTED }
}

/// Returns true if the input is a valid selector that contains a rare text.
fn has(input: &[u8], rare: &str) -> bool {
    let text = String::from_utf8_lossy(input);
    LabelSelector::parse(&text).is_ok() && text.contains(rare)
}

/// Indexes without a check of the length.
fn panic(input: &[u8]) -> Verdict {
    if has(input, "!=") {
        let nothing: &[u8] = input.get(..0).unwrap_or_default();
        std::hint::black_box(nothing[0]);
    }
    Ok(())
}

/// Allocates without a limit.
fn memory(input: &[u8]) -> Verdict {
    if has(input, "==") {
        std::hint::black_box(vec![1_u8; 160 * 1024 * 1024]);
    }
    Ok(())
}

/// Takes too much processor time.
fn time(input: &[u8]) -> Verdict {
    if has(input, ",!") {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(7) {}
    }
    Ok(())
}

/// Returns an error without a message.
fn silent(input: &[u8]) -> Verdict {
    let message = if has(input, "!") { "" } else { "a selector" };
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{message}","reason":"BadRequest","code":400}}"#
    );
    let json = HeaderValue::from_static("application/json");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
    response::check(&ReceivedResponse { code: 400, headers, body: Bytes::from(body), is_stream: false })
}
