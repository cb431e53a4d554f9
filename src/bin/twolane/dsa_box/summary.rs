//! What became of the program's descriptors? Pure.

use std::fmt::Write;

use serde_json::{Value, json};
use twolane::offload::dsa::abi::{Opcode, Status};
use twolane::sim::dsa::Counters;
use twolane::sim::preload::report::{Report, total};

use super::child::Ended;

/// For people.
pub fn text(reports: &[Report], ended: Ended) -> String {
    let mut text = String::from("twolane: ");
    match ended.signal() {
        Some(signal) => _ = writeln!(text, "the program was killed by signal {signal}"),
        None => _ = writeln!(text, "the program exited with {}", ended.code()),
    }
    if reports.is_empty() {
        text.push_str("  It opened no work queue (if it should have: `--trace FILE`, and does it look where the variables say, or under /dev/dsa?)\n");
        return text;
    }
    for Report { device, pid, counters, .. } in reports {
        _ = writeln!(text, "  {device}, process {pid}: {}", counts(counters));
    }
    let all = total(reports);
    if reports.len() > 1 {
        _ = writeln!(text, "  all: {}", counts(&all));
    }
    for ((opcode, status), count) in &all.ended {
        _ = writeln!(text, "  {count:>10}  {:<12} {}", opcode_name(*opcode), status_words(*status));
    }
    if all.lost > 0 {
        _ = writeln!(text, "  {:>10}  operations whose record never came", all.lost);
    }
    if all.violations > 0 {
        _ = writeln!(text, "  {:>10}  violations of what the specification asks of software", all.violations);
    }
    text
}

fn counts(counters: &Counters) -> String {
    let Counters { accepted, batches, children, retries, dropped, bytes_read, bytes_written, .. } = counters;
    format!(
        "{accepted} descriptors, {batches} batches of {children}, {retries} retries, {dropped} dropped, {bytes_read} bytes read, {bytes_written} written"
    )
}

fn opcode_name(opcode: Opcode) -> String {
    opcode.name().map_or_else(|| format!("opcode {:#04x}", opcode.0), str::to_owned)
}

fn status_words(status: Status) -> String {
    let name = status.name().unwrap_or("?");
    format!("{:#04x} {name}: {}", status.code(), status.meaning())
}

/// For programs. Format 1: names may be added.
pub fn json(reports: &[Report], ended: Ended) -> Value {
    let devices: Vec<Value> = reports
        .iter()
        .map(|Report { device, pid, counters, .. }| {
            let mut value = numbers(counters);
            value["device"] = json!(device);
            value["pid"] = json!(pid);
            value
        })
        .collect();
    json!({ "format": 1, "exit_code": ended.code(), "signal": ended.signal(), "devices": devices, "all": numbers(&total(reports)) })
}

fn numbers(c: &Counters) -> Value {
    let ended: Vec<Value> = c
        .ended
        .iter()
        .map(|((opcode, status), count)| {
            json!({ "opcode": opcode.0, "name": opcode.name(), "status": status.code(), "meaning": status.meaning(), "count": count })
        })
        .collect();
    json!({
        "accepted": c.accepted, "retries": c.retries, "dropped": c.dropped, "batches": c.batches, "children": c.children, "records": c.records,
        "bytes_read": c.bytes_read, "bytes_written": c.bytes_written, "page_requests": c.page_requests, "lost": c.lost, "violations": c.violations,
        "ended": ended,
    })
}
