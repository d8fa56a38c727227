//! Header of a backup file: lines `name: value` up to an empty line.
//!
//! ```text
//! capstan-backup 1
//! name: capstan
//! created: 2026-11-27T20:15:00Z
//! …
//! ```
//!
//! It is not sealed, so that an operator sees which key a file needs. Each frame authenticates it.

use std::io::Read;

use storage_contract::Revision;

use crate::BackupError;
use crate::key::{SALT, from_hexadecimal, hexadecimal};

/// First word of a file.
const MAGIC: &str = "capstan-backup ";

/// Format that this release writes and reads.
const FORMAT: u32 = 1;

/// Largest header in bytes: each field is far shorter.
const LARGEST: usize = 16 * 1024;

/// Origin of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Name of the installation.
    pub name: String,
    /// Time at which the backup began, in RFC 3339.
    pub created: String,
    /// Version of the program that wrote the file.
    pub program: String,
    /// Kind of the store: `etcd` or `embedded`.
    pub store: String,
    /// Incarnation of the store. Empty for a store without a record of it.
    pub incarnation: String,
    /// Offset of the incarnation.
    pub offset: u64,
    /// The revision at which all keys were read.
    pub revision: Revision,
    /// Stored form of the values.
    pub form: u64,
    /// Fingerprints of the encryption keys that seal values of the store.
    pub encryption_keys: Vec<String>,
    /// Fingerprint of the backup key. The writer sets it.
    pub backup_key: String,
    /// Keys of the installation, as [`crate::BackupKey::seal`] returns them. Empty if the file has none.
    pub keys: String,
}

impl Header {
    /// Returns the lines of the header.
    pub(crate) fn encode(&self, salt: &[u8; SALT]) -> Result<Vec<u8>, BackupError> {
        let lines = [
            ("name", self.name.clone()),
            ("created", self.created.clone()),
            ("program", self.program.clone()),
            ("store", self.store.clone()),
            ("incarnation", self.incarnation.clone()),
            ("offset", self.offset.to_string()),
            ("revision", self.revision.to_string()),
            ("form", self.form.to_string()),
            ("encryption-keys", self.encryption_keys.join(" ")),
            ("backup-key", self.backup_key.clone()),
            ("salt", hexadecimal(salt)),
            ("keys", self.keys.clone()),
        ];
        let mut text = format!("{MAGIC}{FORMAT}\n");
        for (name, value) in lines.into_iter().filter(|(name, value)| *name != "keys" || !value.is_empty()) {
            if value.contains(char::is_control) {
                return Err(BackupError::Unwritable(format!("the field {name} of the header is {value:?}")));
            }
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push('\n');
        if text.len() > LARGEST {
            return Err(BackupError::Unwritable("its header is too long".to_owned()));
        }
        Ok(text.into_bytes())
    }

    /// Reads the header. Returns it with its bytes and the salt.
    pub(crate) fn read(input: &mut impl Read) -> Result<(Self, Vec<u8>, [u8; SALT]), BackupError> {
        let mut bytes = Vec::new();
        let mut next = [0];
        while !bytes.ends_with(b"\n\n") {
            if bytes.len() == LARGEST || input.read(&mut next)? == 0 {
                return Err(BackupError::NotABackup("it has no complete header".to_owned()));
            }
            bytes.push(next[0]);
            if bytes.len() == MAGIC.len() && bytes != MAGIC.as_bytes() {
                return Err(BackupError::NotABackup(format!("it does not begin with {MAGIC:?}")));
            }
        }
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| BackupError::NotABackup("its header is not text".to_owned()))?;
        let (header, salt) = Self::parse(text)?;
        Ok((header, bytes, salt))
    }

    fn parse(text: &str) -> Result<(Self, [u8; SALT]), BackupError> {
        let mut lines = text.lines();
        let found = lines.next().and_then(|line| line.strip_prefix(MAGIC)).unwrap_or_default();
        if found != FORMAT.to_string() {
            return Err(BackupError::Version { found: found.to_owned(), known: FORMAT });
        }
        let (mut header, mut salt) = (Self::default(), None);
        for line in lines.filter(|line| !line.is_empty()) {
            let bad = || BackupError::NotABackup(format!("the line {line:?} of its header"));
            let (name, value) = line.split_once(": ").ok_or_else(bad)?;
            let number = || value.parse::<u64>().map_err(|_| bad());
            match name {
                "name" => value.clone_into(&mut header.name),
                "created" => value.clone_into(&mut header.created),
                "program" => value.clone_into(&mut header.program),
                "store" => value.clone_into(&mut header.store),
                "incarnation" => value.clone_into(&mut header.incarnation),
                "offset" => header.offset = number()?,
                "revision" => header.revision = Revision::new(number()?),
                "form" => header.form = number()?,
                "encryption-keys" => {
                    header.encryption_keys = value.split_whitespace().map(str::to_owned).collect();
                }
                "backup-key" => value.clone_into(&mut header.backup_key),
                "salt" => salt = from_hexadecimal(value),
                "keys" => value.clone_into(&mut header.keys),
                // A later release may add fields that this one does not need. They are authenticated.
                _ => {}
            }
        }
        let salt = salt.ok_or_else(|| BackupError::NotABackup("its header has no salt".to_owned()))?;
        Ok((header, salt))
    }
}
