//! Whether a queue is still there: its state, asked again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::files::Attributes;
use super::{WorkQueue, parse};
use crate::offload::dsa::abi::SwError;

/// How a queue does. Nothing in user space tells of a change: a portal that is mapped stays mapped, and takes what it is given for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Queue and device are enabled.
    Enabled,
    /// The queue or the device is disabled, or in a state that the driver does not tell. What was in flight may be finished or not.
    Disabled,
    /// The device is halted. What was in flight is lost.
    Halted,
    /// It cannot be told: the files are gone, as when the driver is unloaded.
    Gone,
}

/// The files `state` of a queue and its device, kept open: asking costs two system calls.
#[derive(Debug)]
pub struct HealthFile {
    queue: File,
    device: File,
}

impl HealthFile {
    /// Opens them. `None` for a queue that was described by hand: nobody tells how it does.
    ///
    /// # Errors
    /// What the kernel said, for example that the queue is gone.
    pub fn open(queue: &WorkQueue) -> Option<io::Result<Self>> {
        let dir = queue.sysfs.as_ref()?;
        let open = || Ok(Self { queue: File::open(dir.join("state"))?, device: File::open(dir.join("../state"))? });
        Some(open())
    }

    /// How the queue does now. It may do otherwise by the time that the caller knows.
    #[must_use]
    pub fn read(&self) -> Health {
        let (queue, device) = (word(&self.queue), word(&self.device));
        health(queue.as_ref().map(Word::text), device.as_ref().map(Word::text))
    }
}

impl WorkQueue {
    /// The last error of its device that no completion record told, read now: for the words of an operation that was never answered. It may be
    /// another queue's. `None` for a queue that was described by hand, and where the file is gone or means nothing.
    #[must_use]
    pub fn device_error(&self) -> Option<SwError> {
        let device = Attributes::of(self.sysfs.as_ref()?.join(".."));
        device.value("errors", parse::errors).ok().flatten().filter(SwError::valid)
    }
}

/// The longest state is `disabled`.
const STATE_BYTES_MAX: usize = 16;

/// A short text, without an allocation.
struct Word([u8; STATE_BYTES_MAX], usize);

impl Word {
    fn text(&self) -> &[u8] {
        self.0[..self.1].trim_ascii()
    }
}

/// sysfs makes the text anew for each read at offset 0.
fn word(file: &File) -> Option<Word> {
    let mut bytes = [0; STATE_BYTES_MAX];
    file.read_at(&mut bytes, 0).ok().map(|length| Word(bytes, length))
}

fn health(queue: Option<&[u8]>, device: Option<&[u8]>) -> Health {
    match (queue, device) {
        (_, Some(b"halted")) => Health::Halted,
        (Some(b"enabled"), Some(b"enabled")) => Health::Enabled,
        (Some(_), Some(_)) => Health::Disabled,
        _ => Health::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_states_count() {
        let (on, off, halted) = (Some(&b"enabled"[..]), Some(&b"disabled"[..]), Some(&b"halted"[..]));
        for (queue, device, is) in [
            (on, on, Health::Enabled),
            (off, on, Health::Disabled),
            (on, off, Health::Disabled),
            (Some(&b""[..]), on, Health::Disabled),
            (Some(&b"unknown"[..]), on, Health::Disabled),
            (on, halted, Health::Halted),
            (None, halted, Health::Halted),
            (None, on, Health::Gone),
            (on, None, Health::Gone),
        ] {
            assert_eq!(health(queue, device), is, "{queue:?} {device:?}");
        }
    }
}
