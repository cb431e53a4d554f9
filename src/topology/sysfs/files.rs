//! Small text files under a root: what is missing is `None`, what is odd is `None` and a note.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::topology::cpulist::CpuList;

/// Reads under a root, and remembers what was odd.
#[derive(Debug)]
pub(super) struct Files<'a> {
    root: &'a Path,
    notes: BTreeMap<String, Note>,
    order: usize,
}

/// The first sentence of its kind, and how many more there were: a machine with 2000 broken files deserves one line.
#[derive(Debug)]
struct Note {
    order: usize,
    sentence: String,
    more: usize,
}

impl<'a> Files<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, notes: BTreeMap::new(), order: 0 }
    }

    /// Where `path`, relative to the root, really is. An absolute one, as the process sees it, is moved under the root.
    pub(super) fn place(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The names in a directory, or `None` where it cannot be listed.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.place(path)).ok()?;
        Some(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }

    /// The whole text. A file that is there and cannot be read is noted.
    pub(super) fn text(&mut self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        let mut text = String::new();
        let read = self.open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => {
                // Linux 5.14 ends cpu maps with a NUL after the newline.
                text.truncate(text.trim_end_matches('\0').len());
                Some(text)
            }
            Err(error) => {
                self.unless_missing(path, &error);
                None
            }
        }
    }

    /// The first line that `wanted` makes something of. Stops reading there: `/proc/cpuinfo` is long and slow.
    pub(super) fn first_line<T>(&mut self, path: impl AsRef<Path>, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        let path = path.as_ref();
        let mut lines = match self.open(path) {
            Ok(file) => BufReader::new(file.take(FILE_BYTES_MAX)).lines(),
            Err(error) => {
                self.unless_missing(path, &error);
                return None;
            }
        };
        loop {
            match lines.next()? {
                Ok(line) => {
                    if let Some(found) = wanted(&line) {
                        return Some(found);
                    }
                }
                Err(error) => {
                    self.unless_missing(path, &error);
                    return None;
                }
            }
        }
    }

    /// A list of cpus.
    pub(super) fn list(&mut self, path: impl AsRef<Path>) -> Option<CpuList> {
        let path = path.as_ref();
        let text = self.text(path)?;
        self.understood(path, text.parse())
    }

    /// A whole number; the kernel writes -1 where it does not know.
    pub(super) fn number(&mut self, path: impl AsRef<Path>) -> Option<i64> {
        let path = path.as_ref();
        let text = self.text(path)?;
        let number = text.trim().parse().map_err(|_| format!("{:?} is no number", shortened(text.trim())));
        self.understood(path, number)
    }

    /// What was made of a file's text, or a note that nothing could be.
    pub(super) fn understood<T, E: Display>(&mut self, path: impl AsRef<Path>, made: Result<T, E>) -> Option<T> {
        let path = path.as_ref();
        made.map_err(|why| {
            let place = self.place(path);
            self.note(&kind_of(path), format!("{} makes no sense and is ignored: {why}.", place.display()));
        })
        .ok()
    }

    /// Remembers a sentence. Those of one `kind` are told once, with their number.
    pub(super) fn note(&mut self, kind: &str, sentence: String) {
        self.order += 1;
        let note = Note { order: self.order, sentence, more: 0 };
        self.notes.entry(kind.to_owned()).and_modify(|note| note.more += 1).or_insert(note);
    }

    /// All sentences in the order of their first appearance.
    pub(super) fn into_notes(self) -> Vec<String> {
        let mut notes: Vec<Note> = self.notes.into_values().collect();
        notes.sort_by_key(|note| note.order);
        notes
            .into_iter()
            .map(|note| match note.more {
                0 => note.sentence,
                more => format!("{} And {more} more like this.", note.sentence),
            })
            .collect()
    }

    fn open(&self, path: &Path) -> io::Result<fs::File> {
        // Without waiting: opening a pipe that somebody left in the tree must not hang.
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.place(path))
    }

    fn unless_missing(&mut self, path: &Path, error: &io::Error) {
        // ENODEV is how some attributes of sysfs say that they have nothing to tell, and NotADirectory is a missing
        // parent.
        let missing = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            || error.raw_os_error() == Some(libc::ENODEV);
        if !missing {
            let place = self.place(path);
            self.note(&kind_of(path), format!("{} cannot be read and is ignored: {error}.", place.display()));
        }
    }
}

/// No file read here is longer on a real machine; what is longer is nonsense, and cut.
const FILE_BYTES_MAX: u64 = 1 << 20;

const SHOWN_CHARS_MAX: usize = 40;

/// The beginning of a text that may be a whole nonsense file.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// The path without its numbers: the same file of another cpu is of the same kind.
fn kind_of(path: &Path) -> String {
    path.to_string_lossy().chars().filter(|char| !char.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_a_kind_are_told_once() {
        let mut files = Files::new(Path::new("/"));
        files.note("b", "Second kind first.".into());
        for cpu in 0..3 {
            files.note("a", format!("Cpu {cpu} is odd."));
        }
        assert_eq!(files.into_notes(), ["Second kind first.", "Cpu 0 is odd. And 2 more like this."]);
    }

    #[test]
    fn the_same_file_of_other_cpus_is_one_kind() {
        let of = |path: &str| kind_of(Path::new(path));
        assert_eq!(of("sys/cpu/cpu1/topology/core_id"), of("sys/cpu/cpu12/topology/core_id"));
        assert_ne!(of("sys/cpu/cpu1/topology/core_id"), of("sys/cpu/cpu1/topology/die_id"));
    }

    #[test]
    fn paths_of_the_process_lie_under_the_root() {
        let files = Files::new(Path::new("/tree"));
        assert_eq!(files.place("/sys/x"), Path::new("/tree/sys/x"));
        assert_eq!(files.place("sys/x"), Path::new("/tree/sys/x"));
    }
}
