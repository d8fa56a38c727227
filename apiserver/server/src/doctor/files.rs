//! Checks of the files of a node: certificates, keys and the disk.

use std::path::Path;

use jiff::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Finding, Level, Node};
use crate::{encryption, pki};

/// Remaining lifetime of a certificate below which an operator must act. Capstan renews its own certificate earlier.
const SOON: i64 = 14 * 86_400;

/// Share of the disk that must be free. etcd and the embedded store refuse writes on a full one. Unit: percent.
const LEAST_FREE: u64 = 10;

/// Runs the checks.
pub(super) fn check(node: &Node) -> Vec<Finding> {
    let now = Timestamp::now().as_second();
    let data = &node.data;
    let mut files = vec![data.join("pki/ca.crt"), data.join("pki/server.crt")];
    let etcd = node.configuration.storage.etcd.iter();
    files.extend(etcd.flat_map(|etcd| [&etcd.ca_file, &etcd.cert_file]).flatten().cloned());
    files.extend(node.configuration.tls.iter().map(|tls| tls.cert_file.clone()));
    let server = data.join("etcd/server/tls.crt");
    files.extend(Some(server).filter(|path| path.exists()));
    // With a certificate of the operator, or before the first start, there is none of our own.
    files.retain(|path| path.exists() || !path.ends_with("server.crt"));
    let mut findings: Vec<Finding> = files.iter().map(|path| certificate(path, now)).collect();
    findings.push(keys(node));
    findings.extend(disk(data));
    findings
}

fn certificate(path: &Path, now: i64) -> Finding {
    let subject = path.display().to_string();
    let end = pki::read(path).and_then(|pem| end(&pem));
    match end {
        Err(error) => Finding::new(Level::Error, subject, format!("{error:#}")),
        Ok(end) => of_end(subject, end, now),
    }
}

/// Judges the end of a certificate.
pub(super) fn of_end(subject: String, end: i64, now: i64) -> Finding {
    let days = (end - now).div_euclid(86_400);
    if end <= now {
        return Finding::new(Level::Error, subject, format!("expired {} days ago; replace it", -days));
    }
    let level = if end - now < SOON { Level::Warning } else { Level::Ok };
    Finding::new(level, subject, format!("valid for {days} days"))
}

fn end(pem: &str) -> anyhow::Result<i64> {
    let chain = pki::certificates(pem, "the file")?;
    let ends = chain.iter().map(|der| {
        let (_, certificate) = X509Certificate::from_der(der)?;
        anyhow::Ok(certificate.validity().not_after.timestamp())
    });
    let ends: Vec<i64> = ends.collect::<Result<_, _>>()?;
    ends.into_iter().min().ok_or_else(|| anyhow::anyhow!("the file has no certificate"))
}

fn keys(node: &Node) -> Finding {
    match encryption::load(node.configuration.encryption_config_file.as_deref(), &node.data) {
        Err(error) => Finding::new(Level::Error, "encryption", format!("{error:#}")),
        Ok(file) if file.is_new() => Finding::new(
            Level::Warning,
            file.path.display().to_string(),
            "is missing; the first start creates it. If there was one, restore it from the backup",
        ),
        Ok(file) => {
            let keys: Vec<String> = file.encryption.sealing_keys().into_iter().collect();
            let message = format!("new Secrets are sealed with key {}", keys.join(", "));
            Finding::new(Level::Ok, file.path.display().to_string(), message)
        }
    }
}

fn disk(data: &Path) -> Option<Finding> {
    let subject = data.display().to_string();
    let found = match rustix::fs::statvfs(data) {
        Ok(found) => found,
        Err(error) => return Some(Finding::new(Level::Error, subject, format!("cannot be read: {error}"))),
    };
    let free = found.f_bavail.saturating_mul(100).checked_div(found.f_blocks)?;
    let level = if free < LEAST_FREE { Level::Warning } else { Level::Ok };
    Some(Finding::new(level, subject, format!("{free} % of the disk are free")))
}
