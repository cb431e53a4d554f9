//! Functions that take a path: with `DSA_MODEL_REDIRECT=1`, one of the driver's is looked for in the tree.
//!
//! Those of libc's that open files without calling another interposed one are all here, because libc calls its own directly. Paths that are relative to a directory's descriptor are passed on: the directory was redirected.

use std::ffi::{CString, c_char};

use twolane::sim::preload::redirect;

use super::super::next::{self, Next};
use super::super::settings;

/// Where a path leads. `None`: where it says.
///
/// # Safety
/// Null or a string that ends with a zero.
pub(super) unsafe fn elsewhere(path: *const c_char) -> Option<CString> {
    let tree = settings::get()?.redirect.as_deref()?;
    // SAFETY: the caller's promise; the result is not kept.
    let path = unsafe { next::path(path) }?;
    CString::new(redirect(tree, path)?).ok()
}

/// Declares functions whose argument number `$at` is a path.
macro_rules! redirected {
    ($($name:ident($at:literal);)*) => {$(
        /// As libc's, on the tree's file if the path is one of the driver's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
            static NEXT: Next = Next::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeros"),
            });
            let mut arguments = [a, b, c, d, e, f];
            // SAFETY: the program's duty towards libc: a path or null.
            let elsewhere = unsafe { elsewhere(arguments[$at] as *const c_char) };
            if let Some(path) = &elsewhere {
                arguments[$at] = path.as_ptr() as usize;
            }
            // SAFETY: the program's arguments, one of them replaced by a path that outlives the call.
            unsafe { NEXT.call(arguments) }
        }
    )*};
}

redirected! {
    fopen(0);
    fopen64(0);
    opendir(0);
    scandir(0);
    scandir64(0);
    access(0);
    euidaccess(0);
    faccessat(1);
    stat(0);
    stat64(0);
    lstat(0);
    lstat64(0);
    fstatat(1);
    fstatat64(1);
    statx(1);
    __xstat(1);
    __xstat64(1);
    __lxstat(1);
    __lxstat64(1);
    readlink(0);
    readlinkat(1);
    realpath(0);
    __realpath_chk(0);
    canonicalize_file_name(0);
}
