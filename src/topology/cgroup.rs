//! What the control groups allow.
