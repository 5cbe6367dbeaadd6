//! A real Kubernetes cluster from pinned sources.
