//! Counts that outlive the program: a file a device and process, mapped by both sides, so that they are there whatever the program dies of.
//!
//! The device writes them before software can see a descriptor's end ([`Profile::observe`](crate::sim::dsa::Profile::observe)); they are whole even if the next instruction
//! of the program is its last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::offload::dsa::abi::{Opcode, Status};
use crate::sim::dsa::{Counters, End, TraceEntry};

/// What one device did for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// `dsa0`.
    pub device: String,
    /// The process.
    pub pid: u32,
    /// What the device counted.
    pub counters: Counters,
}

// The file: words of 64 bits, of this machine's byte order. A head, the plain counts, and a table of ends by opcode and status.
const MAGIC: u64 = u64::from_le_bytes(*b"dsacount");
const FORMAT: u64 = 1;
const NAME_WORDS: usize = 2;
const PLAIN_AT: usize = 3 + NAME_WORDS;
const PLAIN: usize = 11;
const TABLE_AT: usize = PLAIN_AT + PLAIN;
/// Status bits 6 and 7 are not part of a status.
const STATUSES: usize = 64;
const OPCODES: usize = 256;
const WORDS: usize = TABLE_AT + STATUSES * OPCODES;
const BYTES: usize = WORDS * 8;

fn plain(counters: &Counters) -> [u64; PLAIN] {
    let c = counters;
    [
        c.accepted,
        c.retries,
        c.dropped,
        c.batches,
        c.children,
        c.records,
        c.bytes_written,
        c.bytes_read,
        c.page_requests,
        c.lost,
        c.violations,
    ]
}

fn cell(opcode: Opcode, status: Status) -> usize {
    TABLE_AT + usize::from(opcode.0) * STATUSES + usize::from(status.code()) % STATUSES
}

/// A device's end of the file. It stays when this drops.
#[derive(Debug)]
pub struct Writer {
    words: NonNull<[AtomicU64; WORDS]>,
}

// SAFETY: the mapping is reached through atomics alone, and lives as long as this value.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

impl Writer {
    /// Makes the file of a device in `dir`, for the calling process.
    ///
    /// # Errors
    /// The file cannot be made or mapped; that it exists, of an earlier process of the same number, is no error.
    pub fn create(dir: &Path, device: &str) -> io::Result<Self> {
        let pid = std::process::id();
        let (file, _) = (0..)
            .map(|n| dir.join(format!("{pid}-{n}-{device}.{EXTENSION}")))
            .find_map(|path| match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                other => Some(other.map(|file| (file, path))),
            })
            .ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))??;
        file.set_len(BYTES as u64)?;
        let writer = Self { words: map(&file)? };
        let mut name = [0_u8; NAME_WORDS * 8];
        name.iter_mut().zip(device.bytes()).for_each(|(to, byte)| *to = byte);
        let words =
            name.chunks_exact(8).map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        for (n, word) in [MAGIC, FORMAT, u64::from(pid)].into_iter().chain(words).enumerate() {
            writer.store(n, word);
        }
        Ok(writer)
    }

    /// Writes what changed with a descriptor's end.
    pub fn note(&self, entry: &TraceEntry, counters: &Counters) {
        for (n, count) in plain(counters).into_iter().enumerate() {
            self.store(PLAIN_AT + n, count);
        }
        if let End::Reported(record) | End::Silent(record) = &entry.end {
            let end = (entry.descriptor.opcode(), record.status());
            self.store(cell(end.0, end.1), counters.ended.get(&end).copied().unwrap_or_default());
        }
    }

    /// Writes what there is to write when the device stands still.
    pub fn finish(&self, counters: &Counters) {
        for (n, count) in plain(counters).into_iter().enumerate() {
            self.store(PLAIN_AT + n, count);
        }
    }

    fn store(&self, word: usize, value: u64) {
        // SAFETY: `create` mapped all the words, and `drop` unmaps them.
        let words = unsafe { self.words.as_ref() };
        // Relaxed: whoever reads them does so when this process has ended, or takes counts that are a moment old.
        words[word].store(value, Ordering::Relaxed);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: mapped by `create`, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

fn map(file: &File) -> io::Result<NonNull<[AtomicU64; WORDS]>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at an address of the kernel's choice, of a file that was just made as long as that.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    let at = if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) };
    at.ok_or_else(io::Error::last_os_error)
}

const EXTENSION: &str = "dsa-counts";

/// Reads every report in a directory, in the order of devices and processes. Files of another kind are passed over, and so are broken ones.
///
/// # Errors
/// The directory cannot be read.
pub fn read(dir: &Path) -> io::Result<Vec<Report>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let mut bytes = Vec::new();
            File::open(&path)?.take(BYTES as u64).read_to_end(&mut bytes)?;
            reports.extend(decode(&bytes));
        }
    }
    reports.sort_by(|a, b| (&a.device, a.pid).cmp(&(&b.device, b.pid)));
    Ok(reports)
}

/// `None`: these are no counts, or not of this format.
fn decode(bytes: &[u8]) -> Option<Report> {
    let word = |n: usize| Some(u64::from_ne_bytes(bytes.get(n * 8..n * 8 + 8)?.try_into().ok()?));
    if word(0)? != MAGIC || word(1)? != FORMAT || bytes.len() < BYTES {
        return None;
    }
    let name = bytes[24..24 + NAME_WORDS * 8].split(|byte| *byte == 0).next()?;
    let at = |n: usize| word(PLAIN_AT + n).unwrap_or_default();
    let mut counters = Counters {
        accepted: at(0),
        retries: at(1),
        dropped: at(2),
        batches: at(3),
        children: at(4),
        records: at(5),
        bytes_written: at(6),
        bytes_read: at(7),
        page_requests: at(8),
        lost: at(9),
        violations: at(10),
        ..Counters::default()
    };
    for opcode in (0..=u8::MAX).map(Opcode) {
        for status in (0..STATUSES as u8).map(Status::of) {
            match word(cell(opcode, status))? {
                0 => {}
                count => drop(counters.ended.insert((opcode, status), count)),
            }
        }
    }
    Some(Report { device: String::from_utf8_lossy(name).into_owned(), pid: u32::try_from(word(2)?).ok()?, counters })
}

/// All of them together.
#[must_use]
pub fn total(reports: &[Report]) -> Counters {
    let mut total = Counters::default();
    for Report { counters, .. } in reports {
        total.accepted += counters.accepted;
        total.retries += counters.retries;
        total.dropped += counters.dropped;
        total.batches += counters.batches;
        total.children += counters.children;
        total.records += counters.records;
        total.bytes_written += counters.bytes_written;
        total.bytes_read += counters.bytes_read;
        total.page_requests += counters.page_requests;
        total.lost += counters.lost;
        total.violations += counters.violations;
        for (end, count) in &counters.ended {
            *total.ended.entry(*end).or_default() += count;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::Descriptor;
    use crate::sim::dsa::{AddressSpace, Device, DeviceConfig, Profile, QueueConfig};

    #[test]
    fn what_a_device_counts_is_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(dir.path(), "dsa0").unwrap();
        let config = DeviceConfig::v1().queue(QueueConfig::dedicated(8));
        let device =
            Device::new(config, Profile::compat().observe(move |entry, counters| writer.note(entry, counters)))
                .unwrap();
        let portal = device.open(0, &AddressSpace::new().unwrap()).unwrap();
        let (from, mut to) = ([7_u8; 100], [0_u8; 100]);
        let mut record = crate::offload::dsa::abi::CompletionRecord::default();
        let at = std::ptr::from_mut(&mut record) as u64;
        let good = Descriptor::memmove(from.as_ptr() as u64, to.as_mut_ptr() as u64, 100).report_to(at);
        let bad = Descriptor::memmove(from.as_ptr() as u64, 0, 100).report_to(at);
        for descriptor in [good, bad, good] {
            // SAFETY: its buffers and record outlive `run_until_idle`, and nobody looks at them before.
            unsafe { portal.movdir64b(0, &descriptor) }.unwrap();
            device.run_until_idle();
        }
        let reports = read(dir.path()).unwrap();
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((&*report.device, report.pid), ("dsa0", std::process::id()));
        assert_eq!(report.counters, device.counters());
        assert_eq!(report.counters.ended[&(Opcode::MEMMOVE, Status::SUCCESS)], 2);
        let doubled = total(&[report.clone(), report.clone()]);
        assert_eq!(doubled.bytes_written, 2 * report.counters.bytes_written);
        assert_eq!(doubled.with_opcode(Opcode::MEMMOVE), 6);
    }

    #[test]
    fn what_are_no_counts_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a.dsa-counts", vec![]), ("b.dsa-counts", vec![1; BYTES]), ("c", vec![0; 8])] {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let mut cut = MAGIC.to_ne_bytes().to_vec();
        cut.extend(FORMAT.to_ne_bytes());
        fs::write(dir.path().join("d.dsa-counts"), cut).unwrap();
        assert_eq!(read(dir.path()).unwrap(), []);
    }

    #[test]
    fn a_second_device_of_the_same_name_has_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let _both = [Writer::create(dir.path(), "dsa0").unwrap(), Writer::create(dir.path(), "dsa0").unwrap()];
        assert_eq!(read(dir.path()).unwrap().len(), 2);
    }
}
