//! Functions that open, write, duplicate and close files: work queues among them.

use std::ffi::{c_char, c_int};

use twolane::sim::dsa::ModelPortal;

use super::super::next::{self, Next, fail};
use super::super::opened::Quiet;
use super::super::{opened, settings, world};
use super::paths::elsewhere;

/// Declares functions that open the path in argument `$at`.
macro_rules! opening {
    ($($name:ident($at:literal);)*) => {$(
        /// As libc's; a work queue's node is a queue of the model.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: usize, b: usize, c: usize, d: usize) -> c_int {
            static NEXT: Next = Next::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeros"),
            });
            let mut arguments = [a, b, c, d, 0, 0];
            // SAFETY: the program's duty towards libc: a path or null.
            let elsewhere = unsafe { elsewhere(arguments[$at] as *const c_char) };
            if let Some(path) = &elsewhere {
                arguments[$at] = path.as_ptr() as usize;
            }
            // SAFETY: the program's arguments, one of them perhaps replaced by a path that outlives the call.
            let fd = unsafe { NEXT.call(arguments) } as c_int;
            // SAFETY: as above.
            unsafe { adopt(arguments[$at] as *const c_char, fd) }
        }
    )*};
}

opening! {
    open(0);
    open64(0);
    openat(1);
    openat64(1);
    __open_2(0);
    __open64_2(0);
    __openat_2(1);
    __openat64_2(1);
}

/// Makes a descriptor that was just opened a queue, if it is one.
///
/// # Safety
/// The path is null or a string.
unsafe fn adopt(path: *const c_char, fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { next::path(path) }) else { return fd };
    if fd < 0 || Quiet::is_on() {
        return fd;
    }
    let Some(place) = place_of_node(path) else { return fd };
    let Some(settings) = settings::get() else { return fd };
    if !world::is_at(fd, &settings.tree.join(place)) {
        return fd;
    }
    // A number that was a queue's, closed without our knowing.
    opened::closed(fd);
    match world::get_or_make(settings).and_then(|world| world.adopt(fd)) {
        Ok(()) => fd,
        Err(errno) => {
            next::close(fd);
            fail(errno) as c_int
        }
    }
}

/// Where in the tree the node is that a path's last part is the name of: `wq0.1`, or `235:1` as `/dev/char` has it. `None`, for any other file, costs no more than this look.
fn place_of_node(path: &[u8]) -> Option<String> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let (numbers, between, dir) = match name.strip_prefix(b"wq") {
        Some(rest) => (rest, b'.', "dsa"),
        None => (name, b':', "char"),
    };
    let mut parts = numbers.split(|byte| *byte == between);
    let number = |part: Option<&[u8]>| part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    let is_node = number(parts.next()) && number(parts.next()) && parts.next().is_none();
    is_node.then(|| format!("dev/{dir}/{}", String::from_utf8_lossy(name)))
}

/// As libc's; a work queue takes descriptors.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const u8, len: usize) -> isize {
    static NEXT: Next = Next::new(c"write");
    match opened::behind(fd) {
        // SAFETY: the program's arguments.
        None => unsafe { NEXT.call([fd as usize, from as usize, len, 0, 0, 0]) },
        Some(Err(errno)) => fail(errno),
        Some(Ok(queue)) => {
            // SAFETY: the program's duty towards a device: it answers for what its descriptors say.
            unsafe { submit(queue.portal(), from as usize, len) }.map_or_else(fail, |bytes| bytes as isize)
        }
    }
}

/// Declares `pwrite` and its twin: the kernel's driver does not look at the offset.
macro_rules! writing_at {
    ($($name:ident = $symbol:literal;)*) => {$(
        /// As libc's; a work queue takes descriptors.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, from: *const u8, len: usize, at: usize) -> isize {
            static NEXT: Next = Next::new($symbol);
            match opened::behind(fd) {
                // SAFETY: the program's arguments.
                None => unsafe { NEXT.call([fd as usize, from as usize, len, at, 0, 0]) },
                Some(Err(errno)) => fail(errno),
                // SAFETY: as in `write`.
                Some(Ok(queue)) => unsafe { submit(queue.portal(), from as usize, len) }.map_or_else(fail, |bytes| bytes as isize),
            }
        }
    )*};
}

writing_at! {
    pwrite = c"pwrite";
    pwrite64 = c"pwrite64";
}

/// As libc's; a work queue takes descriptors, piece by piece.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, pieces: *const libc::iovec, count: c_int) -> isize {
    static NEXT: Next = Next::new(c"writev");
    let queue = match opened::behind(fd) {
        // SAFETY: the program's arguments.
        None => return unsafe { NEXT.call([fd as usize, pieces as usize, count as usize, 0, 0, 0]) },
        Some(Err(errno)) => return fail(errno),
        Some(Ok(queue)) => queue,
    };
    let mut done = 0;
    for n in 0..usize::try_from(count).unwrap_or_default() {
        // SAFETY: the program's duty towards libc: `count` of them are there.
        let piece = unsafe { *pieces.add(n) };
        // SAFETY: as in `write`.
        match unsafe { submit(queue.portal(), piece.iov_base as usize, piece.iov_len) } {
            Ok(bytes) if bytes == piece.iov_len => done += bytes,
            Ok(bytes) => return (done + bytes) as isize,
            Err(errno) if done == 0 => return fail(errno),
            Err(_) => break,
        }
    }
    done as isize
}

/// Descriptors that are looked at together.
const AT_A_TIME: usize = 64;
const DESCRIPTOR_BYTES: usize = 64;

/// What the kernel's driver does with a `write`: whole descriptors, in order, up to the first that fails. `Err`: an errno.
///
/// # Safety
/// As [`ModelPortal::write`].
unsafe fn submit(portal: &ModelPortal, from: usize, len: usize) -> Result<usize, c_int> {
    let mut done = 0;
    while len - done >= DESCRIPTOR_BYTES {
        let wanted = (len - done).min(AT_A_TIME * DESCRIPTOR_BYTES) / DESCRIPTOR_BYTES * DESCRIPTOR_BYTES;
        let mut bytes = [0_u8; AT_A_TIME * DESCRIPTOR_BYTES];
        let readable = copy_in(from + done, &mut bytes[..wanted]) / DESCRIPTOR_BYTES * DESCRIPTOR_BYTES;
        if readable == 0 {
            return if done == 0 { Err(libc::EFAULT) } else { Ok(done) };
        }
        // SAFETY: the caller's promise.
        match unsafe { portal.write(&bytes[..readable]) } {
            Ok(taken) => done += taken,
            Err(error) if done == 0 => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
            Err(_) => return Ok(done),
        }
        if done == 0 || done % (AT_A_TIME * DESCRIPTOR_BYTES) != 0 {
            break;
        }
    }
    Ok(done)
}

/// Copies out of the program's memory as the kernel does: what is not there is no signal. Returns how much there was.
fn copy_in(from: usize, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: writes to `to` alone, which is valid for its length; the other side is read, and checked, by the kernel.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied).unwrap_or_default()
}

/// As libc's; the kernel's driver lets nobody read a work queue.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, to: *mut u8, len: usize) -> isize {
    static NEXT: Next = Next::new(c"read");
    match opened::behind(fd) {
        // SAFETY: the program's arguments.
        None => unsafe { NEXT.call([fd as usize, to as usize, len, 0, 0, 0]) },
        Some(_) => fail(libc::EINVAL),
    }
}

/// As libc's; the last descriptor of a work queue, if nothing is mapped, waits for what is in flight.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    opened::closed(fd);
    next::close(fd) as c_int
}

/// As libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    static NEXT: Next = Next::new(c"dup");
    // SAFETY: the program's argument.
    let new = unsafe { NEXT.call([fd as usize, 0, 0, 0, 0, 0]) } as c_int;
    if new >= 0 {
        opened::duplicated(fd, new);
    }
    new
}

/// As libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    static NEXT: Next = Next::new(c"dup2");
    // SAFETY: the program's arguments.
    let new = unsafe { NEXT.call([fd as usize, to as usize, 0, 0, 0, 0]) } as c_int;
    replaced(fd, new)
}

/// As libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    static NEXT: Next = Next::new(c"dup3");
    // SAFETY: the program's arguments.
    let new = unsafe { NEXT.call([fd as usize, to as usize, flags as usize, 0, 0, 0]) } as c_int;
    replaced(fd, new)
}

fn replaced(fd: c_int, new: c_int) -> c_int {
    if new >= 0 && new != fd {
        opened::closed(new);
        opened::duplicated(fd, new);
    }
    new
}

/// Declares `fcntl` and its twin.
macro_rules! controlling {
    ($($name:ident = $symbol:literal;)*) => {$(
        /// As libc's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: usize) -> c_int {
            static NEXT: Next = Next::new($symbol);
            // SAFETY: the program's arguments.
            let result = unsafe { NEXT.call([fd as usize, command as usize, argument, 0, 0, 0]) } as c_int;
            if result >= 0 && matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
                opened::duplicated(fd, result);
            }
            result
        }
    )*};
}

controlling! {
    fcntl = c"fcntl";
    fcntl64 = c"fcntl64";
}
