//! Every other architecture: nothing is stated, so no token is made and nothing here is ever called.

/// Never made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streaming {}

impl Streaming {
    /// `None`: plain stores it is. (AArch64's STNP is a hint that its cores are free to ignore, and most do.)
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    /// # Safety
    /// Nobody can call it.
    pub(crate) unsafe fn copy(self, _: *const u8, _: *mut u8, _: usize) {
        match self {}
    }

    /// # Safety
    /// Nobody can call it.
    pub(crate) unsafe fn fill(self, _: &[u8; super::LINE], _: *mut u8, _: usize) {
        match self {}
    }

    #[cfg(test)]
    pub(super) fn kinds(self) -> Vec<Self> {
        match self {}
    }
}

/// Never made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFlush {}

impl LineFlush {
    /// `None`: caches of these are kept coherent with devices by the kernel, which is asked through its own calls.
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    /// # Safety
    /// Nobody can call it.
    pub(crate) unsafe fn give_up(self, _: *const u8, _: usize) {
        match self {}
    }

    /// # Safety
    /// Nobody can call it.
    pub(crate) unsafe fn write_back(self, _: *const u8, _: usize) {
        match self {}
    }
}

/// `None`: nothing states it here.
pub(crate) fn largest_cache() -> Option<usize> {
    None
}
