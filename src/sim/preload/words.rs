//! The trace: whose descriptor it was, what it asked for, what it came to, and what was wrong with it.

use crate::sim::dsa::words::describe_entry;
use crate::sim::dsa::{DeviceConfig, TraceEntry};

/// The trace's line for a descriptor, with a newline, and a line more, indented, for each rule that it breaks. `queues` are the names of the device's queues, by their number in the
/// model.
#[must_use]
pub fn line(name: &str, device: &DeviceConfig, queues: &[String], entry: &TraceEntry) -> String {
    let queue = queues.get(entry.queue).map_or("?", |queue| queue);
    format!("process {} {}\n", std::process::id(), describe_entry(entry, device).queue(format!("{name}/{queue}")))
}
