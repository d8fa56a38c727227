//! Errors as a client sees them: `metav1.Status`.
