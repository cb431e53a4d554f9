//! Small files of a device or queue: there or not, readable or not, meaningful or not.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::skipped::Why;

/// The directory of a device or queue.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    dir: PathBuf,
}

impl Attributes {
    pub(super) fn of(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What a file says without the blanks around it. `None` where there is no such file, or where it says that it has nothing to tell; an
    /// error where it cannot be read.
    pub(super) fn text(&self, file: &'static str) -> Result<Option<String>, Why> {
        match read(&self.dir.join(file)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(Why::Unreadable { file, error: error.to_string() }),
        }
    }

    /// What a file says, whatever is wrong with it: for people.
    pub(super) fn word(&self, file: &'static str) -> String {
        self.text(file).ok().flatten().unwrap_or_default()
    }

    /// What a file means. An error also where it means nothing.
    pub(super) fn value<T>(&self, file: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Why> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        match parse(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(Why::Nonsense { file, text: text.chars().take(SHOWN_CHARS_MAX).collect() }),
        }
    }

    /// The same of a file that must be there.
    pub(super) fn needed<T>(&self, file: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Why> {
        self.value(file, parse)?.ok_or(Why::Missing { file })
    }

    /// Numbers n of the entries `prefix` n, sorted.
    pub(super) fn numbered(&self, prefix: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> = names(&self.dir)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            // Names that the kernel gives: `dsa1`, not `dsa01` or `dsa+1`.
            .filter(|number: &u32| self.dir.join(format!("{prefix}{number}")).exists())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// The names in a directory, sorted; none where it cannot be listed.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Without waiting: opening a pipe that somebody left in the tree must not hang.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// How attributes of sysfs say that they have nothing to tell on this device: ENXIO (no device node), EOPNOTSUPP (not this mode).
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || matches!(error.raw_os_error(), Some(libc::ENXIO | libc::EOPNOTSUPP | libc::ENODEV))
}

/// A page: sysfs has no longer files.
const FILE_BYTES_MAX: u64 = 4_096;

const SHOWN_CHARS_MAX: usize = 40;
