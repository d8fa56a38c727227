//! Label and field selectors.

mod fields;
mod labels;
mod scan;

pub use fields::FieldSelector;
pub use labels::LabelSelector;
