//! Layout of the database file: its tables and their keys.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition};
use storage_contract::{Key, Revision, StoreError};

use crate::OpenError;

/// Table of the keys that exist now: key to the revisions of its last write and of its creation.
pub(crate) const CURRENT: TableDefinition<'_, &[u8], (u64, u64)> = TableDefinition::new("current");

/// Table of all versions: key and revision to the creation's revision and the value, or nothing for a deletion.
pub(crate) const HISTORY: TableDefinition<'_, At<'_>, Written<'_>> = TableDefinition::new("history");

/// A key and a revision.
pub(crate) type At<'a> = (&'a [u8], u64);

/// The revision of the creation, and the value, or nothing for a deletion.
pub(crate) type Written<'a> = (u64, Option<&'a [u8]>);

/// Table of the log: revision to the key that it wrote.
pub(crate) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// Table of named numbers.
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The revision of the newest write.
pub(crate) const REVISION: &str = "revision";

/// Revision before which history is compacted.
pub(crate) const COMPACTED: &str = "compacted";

/// Flag that the journal may have writes that the database lacks: 1 from the opening to the closing.
const OPEN: &str = "open";

/// A number that no other store has.
const STORE: &str = "store";

/// Flag that the values were migrated to another store, which is used from then on: 1 or absent.
const MIGRATED: &str = "migrated";

/// Version of the layout.
const FORMAT: &str = "format";

/// The layout described here: the tables of the first layout, and a journal beside them. A program that reads only
/// the first layout would not miss the journal's writes.
const THIS_FORMAT: u64 = 2;

/// The previous layout.
const WITHOUT_JOURNAL: u64 = 1;

/// A new store starts at 1, as etcd does, so that no object ever has revision 0.
pub(crate) const FIRST: Revision = Revision::new(1);

/// Page cache, in bytes: enough for a replay of history. The cache above the store answers reads of objects, and the
/// newest writes are in memory; redb's own default of 1 GiB would hold them twice.
const PAGE_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Time to wait for the lock of the file. A process that has closed the file can still hold the lock for a moment: in a
/// child process between its fork and its start of another program.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Interval between two attempts to take the lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Opens the database. A new one begins at revision `first`.
pub(crate) fn open(path: &Path, first: Revision) -> Result<Opened, OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        private_directory(directory).map_err(io)?;
    }
    let unusable = |detail: String| OpenError::Unusable { path: path.to_owned(), detail };
    let begun = Instant::now();
    let database = loop {
        let file = private_file(path).map_err(io)?;
        match Builder::new().set_cache_size(PAGE_CACHE_BYTES).create_file(file) {
            Ok(database) => break database,
            Err(DatabaseError::DatabaseAlreadyOpen) if begun.elapsed() < LOCK_WAIT => {
                std::thread::sleep(LOCK_INTERVAL);
            }
            Err(DatabaseError::DatabaseAlreadyOpen) => {
                return Err(OpenError::InUse { path: path.to_owned() });
            }
            Err(DatabaseError::Storage(StorageError::Io(source))) => return Err(io(source)),
            Err(error) => return Err(unusable(error.to_string())),
        }
    };
    let Metadata { format, store, was_open, is_migrated } =
        prepare(&database, first).map_err(|error| unusable(error.to_string()))?;
    if format != THIS_FORMAT {
        return Err(unusable(format!("its format is {format}; this version of capstan reads {THIS_FORMAT}")));
    }
    keep_private(path).map_err(io)?;
    Ok(Opened { database, store, was_open, is_migrated })
}

/// Open database, and its store's number and state.
pub(crate) struct Opened {
    pub(crate) database: Database,
    /// The store's number.
    pub(crate) store: u64,
    /// True if the database was not closed.
    pub(crate) was_open: bool,
    /// True if the values were migrated to another store.
    pub(crate) is_migrated: bool,
}

/// Records whether the values were migrated to another store.
pub(crate) fn mark_migrated(database: &Database, is_migrated: bool) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(MIGRATED, u64::from(is_migrated))?;
    transaction.commit()?;
    Ok(())
}

/// Records whether the journal may have writes that the database lacks.
pub(crate) fn mark_open(database: &Database, is_open: bool) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(OPEN, u64::from(is_open))?;
    transaction.commit()?;
    Ok(())
}

/// Metadata of a store.
#[derive(Default)]
struct Metadata {
    /// Version of the layout; 0 for a new store.
    format: u64,
    store: u64,
    was_open: bool,
    is_migrated: bool,
}

/// Creates the tables of a new store, and those that an older one lacks.
fn prepare(database: &Database, first: Revision) -> Result<Metadata, redb::Error> {
    let read_metadata = read_metadata(database)?;
    if read_metadata.format > WITHOUT_JOURNAL {
        return Ok(read_metadata);
    }
    let store = new_number();
    let transaction = database.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT, THIS_FORMAT)?;
        meta.insert(STORE, store)?;
        if read_metadata.format == 0 {
            transaction.open_table(CURRENT)?;
            transaction.open_table(HISTORY)?;
            transaction.open_table(LOG)?;
            meta.insert(REVISION, first.number())?;
            // Revisions before the first one belong to another store, whose history is not here.
            meta.insert(COMPACTED, if first > FIRST { first.number() } else { 0 })?;
        }
    }
    transaction.commit()?;
    Ok(Metadata { format: THIS_FORMAT, store, was_open: false, is_migrated: false })
}

fn read_metadata(database: &Database) -> Result<Metadata, redb::Error> {
    let transaction = database.begin_read()?;
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Metadata::default()),
        Err(error) => return Err(error.into()),
    };
    let number = |name| Ok::<_, redb::Error>(meta.get(name)?.map_or(0, |value| value.value()));
    Ok(Metadata {
        format: number(FORMAT)?,
        store: number(STORE)?,
        was_open: number(OPEN)? == 1,
        is_migrated: number(MIGRATED)? == 1,
    })
}

/// Returns a random number. It is not secret and need not be: it identifies a journal of another store.
fn new_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(unix)]
fn private_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_directory(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Opens a file, creating it when absent. It is created private, so no other user can have opened it before.
pub(crate) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes permissions that a copy or an operator has granted to others.
#[cfg(unix)]
pub(crate) fn keep_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
pub(crate) fn keep_private(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Syncs the names of the files, which are in the directory of `path`.
#[cfg(unix)]
pub(crate) fn sync_names(path: &Path) -> std::io::Result<()> {
    let named = |path: &Path| if path == Path::new("") { Path::new(".").to_owned() } else { path.to_owned() };
    let mut above = path.ancestors().skip(1).map(named);
    if let Some(directory) = above.next() {
        File::open(directory)?.sync_all()?;
    }
    // The directory's own name, if this process created it. If it may not read the parent, it did not create the
    // directory.
    if let Some(Ok(directory)) = above.next().map(File::open) {
        directory.sync_all()?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn sync_names(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Converts an error of the database after which nothing was changed.
pub(crate) fn unreadable(operation: &'static str, error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Corrupted(detail) => StoreError::Corrupt { detail },
        redb::Error::PreviousIo => {
            let why = "the disk failed earlier (see the log); free space or repair it, then restart capstan";
            StoreError::Unavailable { operation, source: why.into() }
        }
        other => StoreError::Unavailable { operation, source: Box::new(other) },
    }
}

/// Decodes a key of the file.
pub(crate) fn key(bytes: &[u8]) -> Result<Key, StoreError> {
    let text = String::from_utf8(bytes.to_vec());
    let text = text.map_err(|error| StoreError::Corrupt { detail: format!("a key is not text: {error}") })?;
    Key::new(text).map_err(|error| StoreError::Corrupt { detail: error.to_string() })
}
