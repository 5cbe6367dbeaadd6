//! End-to-end tests on a real cluster with real pods.

mod e2e {
    mod cases_client;
    mod cases_environment;
    mod cases_exec;
    mod cases_objects;
    mod cases_start;
    mod environments;
    mod faults;
    mod quiet;
    mod replicas;
    mod transports;
    mod uninstall;
    mod wait_ends;
    mod wire;
    mod workspace_end;
}
