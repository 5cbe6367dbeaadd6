//! The Drydock controller: observe, decide, act.
