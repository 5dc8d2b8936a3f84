//! Drills.
