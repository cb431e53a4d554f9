//! How often the kernel took the cpu from the calling thread.

use std::mem::MaybeUninit;

/// Involuntary switches so far; 0 where the kernel does not say, so that a slot is judged by its steps alone.
pub(super) fn involuntary() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is valid for the write of one `rusage`, which is all that the call writes.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: the call succeeded, so it has filled the whole structure.
    let usage = unsafe { usage.assume_init() };
    // The width of C's long differs between targets.
    #[allow(clippy::useless_conversion)]
    i64::from(usage.ru_nivcsw)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_only_grows() {
        let before = super::involuntary();
        assert!(before >= 0 && super::involuntary() >= before);
    }
}
