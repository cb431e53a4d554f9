//! What is mapped at an address? Asked of the kernel, out of a signal handler: `/proc/self/maps`, by the query that Linux 6.11 has (a microsecond or
//! two), else by reading its text (longer, the more mappings a process has). System calls alone, and half a kilobyte of stack.
//!
//! Nothing is remembered from one trap to the next: a page that was unmapped and mapped again, as drivers do when they reopen a queue, may be
//! another queue's portal at the same address.

use std::io;

use libc::c_int;

/// A mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) writable: bool,
    pub(super) file: Identity,
}

/// Which file is mapped, as the kernel names it in this list (which on some file systems is not what `stat` says). All zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) inode: u64,
}

/// The mapping of an address, if there is one. Async-signal-safe.
///
/// # Errors
/// The list cannot be had: no descriptor left, no `/proc`.
pub(super) fn find(address: u64) -> io::Result<Option<Mapping>> {
    let list = List::open()?;
    match list.query(address) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => list.read_for(address),
        answer => answer,
    }
}

/// The opened list. (Not a `File`: that would be as good here, but says nowhere that it allocates nothing.)
struct List(c_int);

/// `struct procmap_query` of Linux's `include/uapi/linux/fs.h`.
#[derive(Default)]
#[repr(C)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<Query>() == 104);

impl List {
    fn open() -> io::Result<Self> {
        // SAFETY: a path that ends with a zero; makes a descriptor and touches no memory.
        let list = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if list < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(list)) }
    }

    /// `Err` with ENOTTY: the kernel is older.
    fn query(&self, address: u64) -> io::Result<Option<Mapping>> {
        /// `_IOWR('f', 17, struct procmap_query)`.
        const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
        const WRITABLE: u64 = 1 << 1;
        let mut query = Query { size: size_of::<Query>() as u64, query_addr: address, ..Query::default() };
        // SAFETY: the kernel reads and writes one query, of the size that stands in it.
        if unsafe { libc::ioctl(self.0, PROCMAP_QUERY, &raw mut query) } < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
        }
        let file = Identity { major: query.dev_major, minor: query.dev_minor, inode: query.inode };
        let Query { vma_start: start, vma_end: end, vma_flags, .. } = query;
        Ok(Some(Mapping { start, end, writable: vma_flags & WRITABLE != 0, file }))
    }

    fn read_for(&self, address: u64) -> io::Result<Option<Mapping>> {
        /// Little: the stack of a signal handler has a few kilobytes.
        const BYTES: usize = 512;
        let mut bytes = [0_u8; BYTES];
        let mut line = Line::default();
        loop {
            // SAFETY: reads into `bytes`, at most as many as there are.
            let read = unsafe { libc::read(self.0, bytes.as_mut_ptr().cast(), BYTES) };
            let Ok(read) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
            if read == 0 {
                return Ok(None);
            }
            for byte in &bytes[..read] {
                match line.take(*byte) {
                    Some(mapping) if (mapping.start..mapping.end).contains(&address) => return Ok(Some(mapping)),
                    // In order of addresses.
                    Some(mapping) if mapping.start > address => return Ok(None),
                    _ => {}
                }
            }
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and nobody else's.
        unsafe { libc::close(self.0) };
    }
}

/// A line of the list's text as it comes: `start-end perms offset major:minor inode path`, numbers in base 16, the inode in base 10.
#[derive(Debug, Default)]
struct Line {
    field: u8,
    number: u64,
    mapping: Mapping,
}

impl Line {
    /// Takes a byte. A mapping when the line is over.
    fn take(&mut self, byte: u8) -> Option<Mapping> {
        const START: u8 = 0;
        const END: u8 = 1;
        const PERMISSIONS: u8 = 2;
        const OFFSET: u8 = 3;
        const MAJOR: u8 = 4;
        const MINOR: u8 = 5;
        const INODE: u8 = 6;
        const PATH: u8 = 7;
        if byte == b'\n' {
            if self.field == INODE {
                self.mapping.file.inode = self.number;
            }
            return Some(std::mem::take(self).mapping);
        }
        let (mapping, number) = (&mut self.mapping, self.number);
        let ends = match (self.field, byte) {
            (START, b'-') => {
                mapping.start = number;
                true
            }
            (END, b' ') => {
                mapping.end = number;
                true
            }
            (PERMISSIONS | OFFSET, b' ') => true,
            (PERMISSIONS, b'w') => {
                mapping.writable = true;
                false
            }
            (MAJOR, b':') => {
                mapping.file.major = number as u32;
                true
            }
            (MINOR, b' ') => {
                mapping.file.minor = number as u32;
                true
            }
            (INODE, b' ') => {
                mapping.file.inode = number;
                true
            }
            _ => false,
        };
        if ends {
            self.field += 1;
            self.number = 0;
        } else if self.field != PERMISSIONS && self.field < PATH {
            let base = if self.field == INODE { 10 } else { 16 };
            let digit = char::from(byte).to_digit(base).unwrap_or(0);
            self.number = number.wrapping_mul(u64::from(base)).wrapping_add(u64::from(digit));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<Mapping> {
        let mut line = Line::default();
        text.bytes().filter_map(|byte| line.take(byte)).collect()
    }

    #[test]
    fn lines_are_read_whatever_their_paths() {
        let text = "\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon
7f8e1c000000-7f8e1c001000 -w-s 00001000 fd:1a 99 /dev/dsa/wq0.0 -w 1:2 (deleted)
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let none = Identity::default();
        let mapping = |start, end, writable, file| Mapping { start, end, writable, file };
        let expected = [
            mapping(0x40_0000, 0x45_2000, false, Identity { major: 8, minor: 2, inode: 173_521 }),
            mapping(0x7f8e_1c00_0000, 0x7f8e_1c00_1000, true, Identity { major: 0xfd, minor: 0x1a, inode: 99 }),
            mapping(0x7ffc_0000_0000, 0x7ffc_0000_1000, true, none),
            mapping(0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_1000, false, none),
        ];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn both_ways_to_ask_answer_alike() {
        let here = 0;
        let stack = std::ptr::from_ref(&here).addr() as u64;
        let code = lines_are_read_whatever_their_paths as *const () as u64;
        for address in [stack, code, 0, 64, u64::MAX] {
            let list = List::open().unwrap();
            let read = list.read_for(address).unwrap();
            match List::open().unwrap().query(address) {
                Ok(asked) => assert_eq!(asked, read, "{address:#x}"),
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "a kernel before 6.11"),
            }
            assert_eq!(find(address).unwrap(), read, "{address:#x}");
        }
        assert!(find(stack).unwrap().unwrap().writable && !find(code).unwrap().unwrap().writable);
        assert_ne!(find(code).unwrap().unwrap().file, Identity::default());
        assert_eq!(find(0).unwrap(), None);
    }
}
