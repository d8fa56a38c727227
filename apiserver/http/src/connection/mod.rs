//! Connections: the listener, and the wrappers of a stream from the socket up to HTTP.
//!
//! ```text
//! TCP → tls → lingering_close → http1_error_body (HTTP/1.1) or write_coalescer (HTTP/2) → hyper
//!   → http2_driver polls the streams → request_validation → drain_on_drop (request body)
//!   → chain → in_flight_body (response body)
//! ```

pub(crate) mod drain_on_drop;
pub(crate) mod handshake_budget;
pub(crate) mod http1_error_body;
pub(crate) mod http2_driver;
pub(crate) mod in_flight_body;
pub(crate) mod lingering_close;
pub(crate) mod listener;
pub(crate) mod request_validation;
pub(crate) mod tls;
pub(crate) mod write_coalescer;
