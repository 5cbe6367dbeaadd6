//! The gRPC contract between controller, plugin and agent.
