//! End-to-end tests on a real cluster with real pods.

mod e2e {
    mod faults;
}
