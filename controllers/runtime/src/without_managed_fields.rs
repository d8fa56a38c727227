//! Objects of a watch without `metadata.managedFields`.
//!
//! No watch of a controller reads them. They are skipped while an object is decoded: as trees, the sets of fields take
//! several times as much memory as the rest of the object. Passes read objects from the API, with all fields.

use std::borrow::Cow;
use std::fmt::{self, Debug};

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource};
use serde::de::value::CowStrDeserializer;
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

const METADATA: &str = "metadata";

const MANAGED_FIELDS: &str = "managedFields";

/// Object that is decoded without `metadata.managedFields`. Do not write it back: as everything that a watch has reported, it
/// may be old.
#[derive(Debug, Clone)]
pub struct WithoutManagedFields<K>(K);

impl<K> WithoutManagedFields<K> {
    /// Returns the event with the object itself.
    pub fn event(event: Event<Self>) -> Event<K> {
        match event {
            Event::Apply(Self(object)) => Event::Apply(object),
            Event::Delete(Self(object)) => Event::Delete(object),
            Event::Init => Event::Init,
            Event::InitApply(Self(object)) => Event::InitApply(object),
            Event::InitDone => Event::InitDone,
        }
    }
}

/// Watches objects, and decodes them without their field managers.
pub(crate) fn events<K>(api: Api<K>) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher(of_api(api), Config::default());
    events.map(|event| event.map(WithoutManagedFields::event))
}

/// Returns the same part of the API.
fn of_api<K: Resource<DynamicType = ()>>(api: Api<K>) -> Api<WithoutManagedFields<K>> {
    let namespace = api.namespace().map(str::to_owned);
    match namespace {
        Some(namespace) => Api::namespaced_with(api.into_client(), &namespace, &()),
        None => Api::all(api.into_client()),
    }
}

impl<K: Resource> Resource for WithoutManagedFields<K> {
    type DynamicType = K::DynamicType;
    type Scope = DynamicResourceScope;

    fn kind(of: &K::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &K::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &K::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn api_version(of: &K::DynamicType) -> Cow<'_, str> {
        K::api_version(of)
    }

    fn plural(of: &K::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn url_path(of: &K::DynamicType, namespace: Option<&str>) -> String {
        K::url_path(of, namespace)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

impl<'de, K: Deserialize<'de>> Deserialize<'de> for WithoutManagedFields<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        K::deserialize(Filtered { inner: from, level: Level::Object }).map(Self)
    }
}

/// Part of an object that is being decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
}

/// Step of a decoding that skips the field, and otherwise does what the inner one does.
struct Filtered<T> {
    inner: T,
    level: Level,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Filtered<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Filtered { inner: visitor, level: self.level })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Filtered { inner: visitor, level: self.level })
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }

    // An object and its metadata are maps, whatever type they are decoded into.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Filtered<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Filtered { inner: from, level: self.level })
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(FilteredFields { fields, level: self.level, is_metadata: false })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Filtered<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Filtered { inner: from, level: self.level })
    }
}

/// Fields of an object, or of its metadata.
struct FilteredFields<A> {
    fields: A,
    level: Level,
    /// True if the next value is the metadata.
    is_metadata: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FilteredFields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(Name(name)) = self.fields.next_key::<Name<'de>>()? {
            if self.level == Level::Metadata && name == MANAGED_FIELDS {
                self.fields.next_value::<IgnoredAny>()?;
                continue;
            }
            self.is_metadata = self.level == Level::Object && name == METADATA;
            let name: CowStrDeserializer<'_, A::Error> = CowStrDeserializer::new(name);
            return seed.deserialize(name).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match std::mem::take(&mut self.is_metadata) {
            true => self.fields.next_value_seed(Filtered { inner: seed, level: Level::Metadata }),
            false => self.fields.next_value_seed(seed),
        }
    }
}

/// Name of a field.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

#[cfg(test)]
#[path = "without_managed_fields_tests.rs"]
mod tests;
