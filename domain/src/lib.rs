//! Every decision of Drydock, pure.
