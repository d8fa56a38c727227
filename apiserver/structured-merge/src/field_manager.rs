//! A write and `metadata.managedFields`: from the object as it was to the object with its owners.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::ancient;
use crate::check::{Mismatch, check};
use crate::conflict::Conflicts;
use crate::element::Path;
use crate::entries::{Entries, Entry, InvalidEntries};
use crate::last_applied;
use crate::managed_fields::{self, is_same, put, take};
use crate::manager::{Manager, Operation};
use crate::schema::Type;
use crate::serialized::packed;
use crate::set::Set;
use crate::updater::Updater;
use crate::versions::{VersionError, Versions};

/// Who owns what was there before anybody applied.
const BEFORE: &str = "before-first-apply";

/// What the server keeps and nobody owns.
static SERVERS_OWN: LazyLock<Set> = LazyLock::new(|| {
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

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// ObjectReader own what it changes.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// It is not what the schema declares.
    #[error("{0}")]
    Mismatch(Mismatch),
    /// The owners of the live object cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Entries(#[from] InvalidEntries),
    /// The object cannot be shown in a version that one of its owners wrote in.
    #[error("failed to convert between versions: {0}")]
    Conversion(#[from] VersionError),
    /// The version of the request is none of the kind's.
    #[error("no type is known for version {0}")]
    UnknownVersion(String),
}

/// What an apply came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object with its owners.
    pub object: Value,
    /// Whether anything but the owners is another than before.
    pub changed: bool,
}

/// Somebody's write through one endpoint. The objects that it is given and makes have their owners
/// [packed](crate::pack); what a client sends has not.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The kind's versions.
    pub versions: &'a dyn Versions,
    /// The version of the request; all objects given here are in it.
    pub api_version: &'a str,
    /// Who writes.
    pub manager: &'a str,
    /// The subresource written through, or empty.
    pub subresource: &'a str,
    /// What the endpoint does not write.
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
    /// A create, update or patch from `live` (`None` when it is created) to `new`, which is given
    /// its `managedFields`. Never refuses: whatever goes wrong with the owners, the write is what
    /// counts, and the owners stay as they were.
    pub fn update(&self, live: Option<&Value>, new: &mut Value) {
        let given = take(new).map(packed);
        let before = live.and_then(managed_fields::of);
        // Whoever sends back the owners as they are, and changes nothing, changes no owners.
        let unchanged = live.is_some() && given.as_ref().is_none_or(|given| Some(given) == before);
        if unchanged && live.is_some_and(|live| is_same(live, new)) {
            return put(new, before.cloned());
        }
        let entries = self.base(live, given.as_ref());
        let tracked = entries.and_then(|entries| self.track(live, new, entries).ok());
        let written = tracked.map(|entries| match unchanged {
            true => entries
                .encode_over(given.or_else(|| before.cloned()), &self.owner(self.manager, Operation::Update)),
            false => entries.encode(),
        });
        put(new, written.unwrap_or_else(|| before.cloned()));
    }

    /// The owners that an update starts from: those it sends, where it sends any that can be read.
    /// `None` when the live ones cannot be read either.
    fn base(&self, live: Option<&Value>, given: Option<&Value>) -> Option<Entries> {
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
        // An object that nobody is known to own stays so until somebody applies.
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
        let owner = self.owner(manager, Operation::Update);
        let mut gained = updater.update(old, new, entries, &owner)?;
        if let Some(entry) = entries.get_mut(&owner) {
            entry.lose(&gained.intersection(&SERVERS_OWN));
            entries.drop_empty();
        }
        gained.subtract(&SERVERS_OWN);
        if gained.is_empty() {
            return Ok(());
        }
        match entries.get_mut(&owner) {
            Some(entry) => {
                entry.gain(gained);
                entry.time = Some(self.now);
            }
            None => entries.push(Entry { owner, time: Some(self.now), fields: Arc::new(gained) }),
        }
        Ok(())
    }

    /// An apply of `config` to `live` (`None` when it would be created).
    ///
    /// # Errors
    /// [`ApplyError`]; without `force` also for what others own.
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

    /// What client-side `kubectl apply` applied is taken over without a conflict.
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

    /// The owners of the live object; what nobody owns there is owned by nobody in particular.
    fn before_apply(&self, live: Option<&Value>) -> Result<Entries, ApplyError> {
        let Some(live) = live else { return Ok(Entries::default()) };
        let mut entries = Entries::decode(managed_fields::of(live))?;
        if entries.is_empty() {
            self.record_update(&json!({}), live, BEFORE, &mut entries)?;
        }
        Ok(entries)
    }

    /// The live object has the list that the owners were read from, and so has what comes of it, until it is given its
    /// own.
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
        let owner = self.owner(self.manager, Operation::Apply);
        let (object, last) = updater.apply(live, config, &owner, &mut entries, force)?;
        let changed = !crate::json_order::same(live, &object);
        if let Some(entry) = entries.get_mut(&owner) {
            entry.lose(&SERVERS_OWN);
            // Who applies the same fields again has the set that was read, which is not written anew.
            if let Some(last) = last.filter(|last| last.fields == entry.fields) {
                entry.fields = last.fields;
            }
            entry.time = if changed { Some(self.now) } else { entry.time };
        }
        let mut object = if changed { object } else { live.clone() };
        let list = take(&mut object);
        put(&mut object, entries.encode_over(list, &owner));
        Ok(Applied { object, changed })
    }

    fn of_version(&self) -> Result<Arc<Type>, ApplyError> {
        let of = self.versions.of_version(self.api_version);
        of.ok_or_else(|| ApplyError::UnknownVersion(self.api_version.to_owned()))
    }

    fn updater<'a>(&'a self, of: &'a Type) -> Updater<'a> {
        Updater { versions: self.versions, version: self.api_version, of, reset: self.reset }
    }

    fn owner(&self, manager: &str, operation: Operation) -> Manager {
        Manager {
            manager: manager.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
        }
    }
}
