//! API types of drydock.dev.
