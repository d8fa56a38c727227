//! Tests of the program as a process: start, behavior without its storage, and shutdown.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod admission_policies;
mod admission_scene;
mod audit;
mod backup;
mod break_glass;
mod certificate_requests;
mod client;
mod collector;
mod encryption;
mod etcd;
mod failover;
mod history;
mod host_down;
mod host_mirror;
mod impersonation;
mod join;
mod key_rotation;
mod keystone;
mod metrics;
mod oidc;
mod outage;
mod process;
mod quotas;
mod recorded_admission;
mod revocation;
mod roles;
mod rolling_restart;
mod service_accounts;
mod service_manager;
mod storage_maintenance;
mod stored_form;
mod token_client;
mod traces;
mod webhook_server;
mod webhooks;
