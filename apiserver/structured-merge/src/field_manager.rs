//! Field manager: applies one write to an object and its `metadata.managedFields`.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::ancient;
use crate::check::{Mismatch, check};
use crate::conflict::Conflicts;
use crate::element::Path;
use crate::entries::{Entries, Entry, InvalidEntries};
use crate::last_applied;
use crate::managed_fields::{self, is_same, put, take};
use crate::manager_identifier::{ManagerIdentifier, Operation};
use crate::schema::Type;
use crate::serialized::serialized;
use crate::set::Set;
use crate::updater::Updater;
use crate::versions::{VersionError, Versions};

/// Field manager of the fields from before the first apply.
const BEFORE: &str = "before-first-apply";

/// Fields that the server keeps and no field manager owns.
static SERVER_FIELDS: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let fields = metadata.map(|field| Path::of_fields(["metadata", field]));
    let whole = ["apiVersion", "kind", "metadata"].map(|field| Path::of_fields([field]));
    Set::of(whole.into_iter().chain(fields))
});

/// Error of an apply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// Other field managers own fields that it changes.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The configuration does not match the schema.
    #[error("{0}")]
    Mismatch(Mismatch),
    /// The managed fields of the live object cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Entries(#[from] InvalidEntries),
    /// The object cannot be converted to a version that one of its field managers wrote in.
    #[error("failed to convert between versions: {0}")]
    Conversion(#[from] VersionError),
    /// The kind does not have the version of the request.
    #[error("no type is known for version {0}")]
    UnknownVersion(String),
}

/// Result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object with its managed fields.
    pub object: Value,
    /// True if anything but the managed fields changed.
    pub changed: bool,
}

/// Field manager of one write through one endpoint. Its input and output objects have [serialized](crate::serialize_sets)
/// managed fields; those that a client sends have not.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The kind's versions.
    pub versions: &'a dyn Versions,
    /// The version of the request; all objects given here are in it.
    pub api_version: &'a str,
    /// The name of the writing field manager.
    pub manager: &'a str,
    /// The subresource written through, or empty.
    pub subresource: &'a str,
    /// The fields that the endpoint does not write.
    pub reset: &'a Set,
    /// Seconds since 1970.
    pub now: i64,
}

impl std::fmt::Debug for FieldManager<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = formatter.debug_struct("FieldManager");
        text.field("api_version", &self.api_version).field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl FieldManager<'_> {
    /// Records a create, update or patch from `live` (`None` when it is created) to `new`, and sets the
    /// `managedFields` of `new`. It never refuses: if the managed fields are invalid, the write still counts, and the
    /// managed fields stay unchanged.
    pub fn update(&self, live: Option<&Value>, new: &mut Value) {
        let given = take(new).map(serialized);
        let before = live.and_then(managed_fields::of);
        // A client that sends the managed fields back unchanged, and changes nothing, changes no entry.
        let unchanged = live.is_some() && given.as_ref().is_none_or(|given| Some(given) == before);
        if unchanged && live.is_some_and(|live| is_same(live, new)) {
            return put(new, before.cloned());
        }
        let entries = self.starting_entries(live, given.as_ref());
        let tracked = entries.and_then(|entries| self.track(live, new, entries).ok());
        let written = tracked.map(|entries| match unchanged {
            true => entries.encode_over(
                given.or_else(|| before.cloned()),
                &self.manager(self.manager, Operation::Update),
            ),
            false => entries.encode(),
        });
        put(new, written.unwrap_or_else(|| before.cloned()));
    }

    /// Returns the entries that an update starts from: those it sends, if it sends any that can be read. `None` when
    /// the live ones cannot be read either.
    fn starting_entries(&self, live: Option<&Value>, given: Option<&Value>) -> Option<Entries> {
        let before = || {
            let list = live.and_then(managed_fields::of);
            Entries::decode(list).ok()
        };
        if !self.subresource.is_empty() {
            return before();
        }
        if given == Some(&json!([{}])) {
            return Some(Entries::default());
        }
        match Entries::decode(given) {
            Ok(entries) if !entries.is_empty() => Some(entries),
            _ => before(),
        }
    }

    fn track(&self, live: Option<&Value>, new: &Value, mut entries: Entries) -> Result<Entries, ApplyError> {
        // An object without managed fields stays without them until a client applies.
        if entries.is_empty() && live.is_some() {
            return Ok(entries);
        }
        let empty = json!({});
        self.record_update(live.unwrap_or(&empty), new, self.manager, &mut entries)?;
        ancient::cap(&mut entries);
        Ok(entries)
    }

    fn record_update(
        &self,
        old: &Value,
        new: &Value,
        manager: &str,
        entries: &mut Entries,
    ) -> Result<(), ApplyError> {
        let of = self.of_version()?;
        let updater = self.updater(&of);
        updater.reconcile(entries);
        let manager = self.manager(manager, Operation::Update);
        let mut gained = updater.update(old, new, entries, &manager)?;
        if let Some(entry) = entries.get_mut(&manager) {
            entry.lose(&gained.intersection(&SERVER_FIELDS));
            entries.drop_empty();
        }
        gained.subtract(&SERVER_FIELDS);
        if gained.is_empty() {
            return Ok(());
        }
        match entries.get_mut(&manager) {
            Some(entry) => {
                entry.gain(gained);
                entry.time = Some(self.now);
            }
            None => entries.push(Entry { manager, time: Some(self.now), fields: Arc::new(gained) }),
        }
        Ok(())
    }

    /// Applies `config` to `live` (`None` when it would be created).
    ///
    /// # Errors
    /// [`ApplyError`]; without `force` also for fields that others own.
    pub fn apply(&self, live: Option<&Value>, config: &Value, force: bool) -> Result<Applied, ApplyError> {
        let of = self.of_version()?;
        check(&of, config).map_err(ApplyError::Mismatch)?;
        let before = self.before_apply(live)?;
        let nothing = json!({});
        let start = live.unwrap_or(&nothing);
        let mut applied = if self.manager == last_applied::KUBECTL {
            self.apply_as_kubectl(&of, start, config, before, force)?
        } else {
            self.apply_once(start, config, before, force)?
        };
        if self.manager == last_applied::KUBECTL {
            last_applied::keep(&mut applied.object, config);
        }
        Ok(applied)
    }

    /// Applies like [`Self::apply_once`], and takes over the fields of client-side `kubectl apply` without a
    /// conflict.
    fn apply_as_kubectl(
        &self,
        of: &Type,
        live: &Value,
        config: &Value,
        entries: Entries,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let conflicts = match self.apply_once(live, config, entries.clone(), force) {
            Err(ApplyError::Conflicts(conflicts)) => conflicts,
            other => return other,
        };
        let allowed = last_applied::allowed(of, live).unwrap_or_default();
        match conflicts.without(&allowed) {
            Some(rest) => Err(ApplyError::Conflicts(rest)),
            None => self.apply_once(live, config, entries, true),
        }
    }

    /// Returns the entries of the live object. Fields without a field manager get [`BEFORE`].
    fn before_apply(&self, live: Option<&Value>) -> Result<Entries, ApplyError> {
        let Some(live) = live else { return Ok(Entries::default()) };
        let mut entries = Entries::decode(managed_fields::of(live))?;
        if entries.is_empty() {
            self.record_update(&json!({}), live, BEFORE, &mut entries)?;
        }
        Ok(entries)
    }

    /// Applies once. The live object has the list that the entries were decoded from, and the result keeps it until
    /// it gets its own.
    fn apply_once(
        &self,
        live: &Value,
        config: &Value,
        mut entries: Entries,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let of = self.of_version()?;
        let updater = self.updater(&of);
        updater.reconcile(&mut entries);
        let manager = self.manager(self.manager, Operation::Apply);
        let (object, last) = updater.apply(live, config, &manager, &mut entries, force)?;
        let changed = !crate::json_order::same(live, &object);
        if let Some(entry) = entries.get_mut(&manager) {
            entry.lose(&SERVER_FIELDS);
            // A repeated apply of the same fields keeps the decoded set, which is not written anew.
            if let Some(last) = last.filter(|last| last.fields == entry.fields) {
                entry.fields = last.fields;
            }
            entry.time = if changed { Some(self.now) } else { entry.time };
        }
        let mut object = if changed { object } else { live.clone() };
        let list = take(&mut object);
        put(&mut object, entries.encode_over(list, &manager));
        Ok(Applied { object, changed })
    }

    fn of_version(&self) -> Result<Arc<Type>, ApplyError> {
        let of = self.versions.of_version(self.api_version);
        of.ok_or_else(|| ApplyError::UnknownVersion(self.api_version.to_owned()))
    }

    fn updater<'a>(&'a self, of: &'a Type) -> Updater<'a> {
        Updater { versions: self.versions, version: self.api_version, of, reset: self.reset }
    }

    fn manager(&self, manager: &str, operation: Operation) -> ManagerIdentifier {
        ManagerIdentifier {
            manager: manager.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
        }
    }
}
