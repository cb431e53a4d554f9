//! Numbers with their nouns, for sentences.

use std::collections::BTreeSet;

use crate::topology::CpuList;

/// `1 core`, `2 cores`.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `cpu 3`, `cpus 0-3`.
pub(super) fn cpus(set: &BTreeSet<usize>) -> String {
    let noun = if set.len() == 1 { "cpu" } else { "cpus" };
    format!("{noun} {}", CpuList::from(set.clone()))
}

/// With a capital, for the start of a sentence.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}
