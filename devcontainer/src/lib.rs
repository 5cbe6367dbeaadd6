//! The Dev Container Specification, pure.
