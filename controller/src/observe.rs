//! What each kind reads before it is decided upon, and which changes wake it: one file a kind.
