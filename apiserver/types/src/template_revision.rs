//! Revisions of machine templates: the annotations with which the server numbers the contents of a template.

use std::collections::BTreeMap;

/// Annotation of a template with the number of its present content. Absent: 1. The server writes it, clients cannot.
///
/// Of an object that was made from a template, see [`CLONED_FROM_REVISION`].
pub const TEMPLATE_REVISION: &str = "capstan.dev/template-revision";

/// Annotation of a template with the digests of its contents: `<number>:<digest>`, comma separated, in ascending order.
/// An edit that restores an earlier content restores its number. The server writes it, clients cannot.
pub const TEMPLATE_DIGESTS: &str = "capstan.dev/template-digests";

/// Annotation of an object with the revision of the template that it was made from. Absent: 1.
pub const CLONED_FROM_REVISION: &str = "capstan.dev/cloned-from-revision";

/// Annotation of a MachineDeployment or MachineSet with the revision of its infrastructure template. Absent: 1.
pub const INFRASTRUCTURE_REVISION: &str = "capstan.dev/infrastructure-template-revision";

/// Annotation of a MachineDeployment or MachineSet with the revision of its bootstrap template. Absent: 1.
pub const BOOTSTRAP_REVISION: &str = "capstan.dev/bootstrap-template-revision";

/// Annotation of a MachineDeployment that keeps the revisions of its templates while it is `true`: edits do not replace
/// its Machines, and new Machines are made from the kept content.
pub const PIN_REVISIONS: &str = "capstan.dev/pin-template-revisions";

/// Number of a content that was never edited.
pub const FIRST_REVISION: i64 = 1;

/// Returns the number in one of these annotations. A text that is no positive number counts as absent.
#[must_use]
pub fn template_revision(annotations: &BTreeMap<String, String>, key: &str) -> i64 {
    let number = annotations.get(key).and_then(|text| text.parse().ok());
    number.filter(|number| *number > FIRST_REVISION).unwrap_or(FIRST_REVISION)
}

/// Returns the value of one of these annotations; `None` for the first revision, which has none.
#[must_use]
pub fn revision_annotation(number: i64) -> Option<String> {
    (number > FIRST_REVISION).then(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_revision_has_no_annotation() {
        let with = |text: &str| BTreeMap::from([(TEMPLATE_REVISION.to_owned(), text.to_owned())]);
        let number = |text: &str| template_revision(&with(text), TEMPLATE_REVISION);
        assert_eq!(["3", "1", "0", "-2", "x", ""].map(number), [3, 1, 1, 1, 1, 1]);
        assert_eq!(template_revision(&BTreeMap::new(), TEMPLATE_REVISION), 1);
        assert_eq!(revision_annotation(1), None);
        assert_eq!(revision_annotation(3).as_deref(), Some("3"));
    }
}
