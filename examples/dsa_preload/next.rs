//! The functions behind the interposed ones: what the program would have called without us.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A function of the libraries behind this one, looked up when it is first called.
pub struct Next {
    name: &'static CStr,
    /// 0: not looked up yet.
    at: AtomicUsize,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, at: AtomicUsize::new(0) }
    }

    /// Its address; 0 if there is none, as of functions that an older libc lacks.
    fn address(&self) -> usize {
        // Relaxed: code that the loader put there; every lookup finds the same.
        let at = self.at.load(Ordering::Relaxed);
        if at != 0 {
            return at;
        }
        // SAFETY: a name that ends with a zero; the loader looks it up in the libraries behind this one.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.at.store(found, Ordering::Relaxed); // see above
        found
    }

    /// Calls it with up to six arguments, integers or pointers. Variadic functions of libc (`open`, `fcntl`) take theirs in the same registers.
    ///
    /// # Safety
    /// As the function's own duties; `a` has what it takes, in order, and any value beyond.
    pub unsafe fn call(&self, a: [usize; 6]) -> isize {
        match self.address() {
            0 => fail(libc::ENOSYS),
            at => {
                // SAFETY: `at` is the function of that name, which takes at most six arguments of the classes that x86-64 passes in integer registers; more
                // registers than it reads do no harm. A result shorter than `isize` leaves the upper bits undefined, which the callers' C prototypes ignore.
                let function: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize =
                    unsafe { std::mem::transmute(at) };
                // SAFETY: the caller's promise.
                unsafe { function(a[0], a[1], a[2], a[3], a[4], a[5]) }
            }
        }
    }
}

/// Sets `errno`, and is what a function that fails returns.
pub fn fail(errno: c_int) -> isize {
    // SAFETY: every thread has an `errno`.
    unsafe { *libc::__errno_location() = errno };
    -1
}

static CLOSE: Next = Next::new(c"close");
static MUNMAP: Next = Next::new(c"munmap");

/// Closes a descriptor without being interposed.
pub fn close(fd: c_int) -> isize {
    // SAFETY: takes any number; the caller owns it.
    unsafe { CLOSE.call([fd as usize, 0, 0, 0, 0, 0]) }
}

/// Unmaps without being interposed.
///
/// # Safety
/// As `munmap`.
pub unsafe fn munmap(at: *mut c_void, len: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { MUNMAP.call([at as usize, len, 0, 0, 0, 0]) }
}

/// The bytes of a path that a program passed; `None` for a null pointer, which is libc's to answer.
///
/// # Safety
/// Null, or a string that ends with a zero and lives as long as the result is used.
pub unsafe fn path<'a>(path: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, and the caller's promise.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes())
}
