//! hwloc.
