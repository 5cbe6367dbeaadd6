//! End-to-end tests on a real cluster with real pods.

mod e2e {
    mod environments;
    mod faults;
    mod quiet;
    mod replicas;
    mod transports;
    mod uninstall;
    mod wait_ends;
    mod workspace_end;
}
