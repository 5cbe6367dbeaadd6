//! End-to-end tests on a real cluster with real pods.

mod e2e {
    mod cases_client;
    mod cases_environment;
    mod cases_exec;
    mod cases_objects;
    mod cases_start;
    mod faults;
    mod wire;
}
