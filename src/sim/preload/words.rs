//! One line a descriptor, for the trace: whose it was, what it asked for, what it came to.

use std::fmt::Write;

use crate::sim::dsa::{End, TraceEntry};

/// The trace's line for a descriptor, with a newline. `queues` are the names of the device's queues, by their number in the model.
#[must_use]
pub fn line(device: &str, queues: &[String], entry: &TraceEntry) -> String {
    let TraceEntry { id, child, queue, descriptor, end, .. } = entry;
    let queue = queues.get(*queue).map_or("?", |name| name);
    let child = child.map(|child| format!(".{child}")).unwrap_or_default();
    let mut line = format!("{} {device}/{queue} #{id}{child} {descriptor:?}", std::process::id());
    let _ = match end {
        End::Reported(record) => write!(line, " -> {record:?}"),
        End::Silent(record) => write!(line, " -> {record:?} (no record was asked for)"),
        End::Lost(why) => write!(line, " -> lost: {why:?}"),
    };
    line.push('\n');
    line
}
