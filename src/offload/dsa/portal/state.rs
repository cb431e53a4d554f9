//! What sysfs says now about a queue and its device. The only witness of a queue's death: neither a portal nor `write(2)` tells.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Death;

/// Reads anew whether the queue is enabled.
pub(crate) trait StateSource: Send + Sync + fmt::Debug {
    /// `None`: it is enabled, or nobody can say. Costs two reads of sysfs, some microseconds.
    fn death(&self) -> Option<Death>;
}

/// Nothing is known: there is no /sys here (a container), and the queue was described by hand.
#[derive(Debug)]
pub(crate) struct NoState;

impl StateSource for NoState {
    fn death(&self) -> Option<Death> {
        None
    }
}

/// The `state` attributes of a queue and of its device, kept open: a read from the start prints them anew.
#[derive(Debug)]
pub(crate) struct StateFiles {
    queue: File,
    device: File,
}

impl StateFiles {
    /// `queue` and `device`: their directories in sysfs.
    pub(crate) fn open(queue: &Path, device: &Path) -> io::Result<Self> {
        Ok(Self { queue: File::open(queue.join("state"))?, device: File::open(device.join("state"))? })
    }
}

impl StateSource for StateFiles {
    fn death(&self) -> Option<Death> {
        // The device first: a halted device is the better reason, its queues are disabled too.
        judge(&read(&self.device)).or_else(|| judge(&read(&self.queue)))
    }
}

/// What one `state` means, or the error of reading it.
fn judge(state: &Result<String, io::Error>) -> Option<Death> {
    match state {
        Ok(text) => match text.trim() {
            "enabled" => None,
            "halted" => Some(Death::Halted),
            // `disabled`, `unknown`, and whatever a later kernel calls it.
            _ => Some(Death::Disabled),
        },
        // The entry was removed while the file was open.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT | libc::ENXIO)) => {
            Some(Death::Gone)
        }
        // Cannot be read now (EINTR, ENOMEM): says nothing about the queue.
        Err(_) => None,
    }
}

fn read(file: &File) -> io::Result<String> {
    /// Longer than any state's name.
    const STATE_BYTES_MAX: usize = 32;
    let mut bytes = [0; STATE_BYTES_MAX];
    let len = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn states_are_judged_as_the_kernel_names_them() {
        let judge = |text: &str| judge(&Ok(text.to_owned()));
        for (text, death) in [
            ("enabled\n", None),
            ("enabled", None),
            ("disabled\n", Some(Death::Disabled)),
            ("halted\n", Some(Death::Halted)),
            ("unknown\n", Some(Death::Disabled)),
            ("", Some(Death::Disabled)),
        ] {
            assert_eq!(judge(text), death, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_gone_or_unknown() {
        let judge = |errno| judge(&Err(io::Error::from_raw_os_error(errno)));
        assert_eq!(judge(libc::ENODEV), Some(Death::Gone));
        assert_eq!(judge(libc::EINTR), None);
    }

    #[test]
    fn a_change_is_seen_and_the_device_has_the_word() {
        let root = tempfile::tempdir().unwrap();
        let (queue, device) = (root.path().join("wq0.0"), root.path().join("dsa0"));
        for directory in [&queue, &device] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("state"), "enabled\n").unwrap();
        }
        let state = StateFiles::open(&queue, &device).unwrap();
        assert_eq!(state.death(), None);
        fs::write(queue.join("state"), "disabled\n").unwrap();
        assert_eq!(state.death(), Some(Death::Disabled));
        fs::write(device.join("state"), "halted\n").unwrap();
        assert_eq!(state.death(), Some(Death::Halted));
        fs::write(queue.join("state"), "enabled\n").unwrap();
        fs::write(device.join("state"), "enabled\n").unwrap();
        assert_eq!(state.death(), None);
        assert!(StateFiles::open(&root.path().join("wq0.1"), &device).is_err());
    }
}
