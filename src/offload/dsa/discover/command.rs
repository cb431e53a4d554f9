//! What the driver's last command came to (sysfs's `cmd_status`), in words.

use std::fmt;

/// The value of `cmd_status`. With bit 31 it is the driver's own (`linux/idxd.h`, `IDXD_SCMD_*`), else the device's.
///
/// Written anything to, the file forgets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommandStatus(pub u32);

impl CommandStatus {
    /// Whether the last command succeeded, or none was given.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// What went wrong, as the end of a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        let known = DRIVER.iter().chain(DEVICE).find(|(code, _)| *code == self.0);
        known.map_or("an error that twolane does not know", |(_, meaning)| meaning)
    }

    /// What to do about it before the command is given again, if there is something. `NAME` stands for the queue.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        match self.0 {
            0x8003_0000 => Some("accel-config config-wq NAME --group-id=0"),
            0x8004_0000 => Some("accel-config config-wq NAME --name=twolane"),
            0x8005_0000 | 0x800c_0000 | 0x8011_0000 => Some(super::advice::SCALABLE_IOMMU),
            0x8006_0000 => Some("accel-config config-wq NAME --threshold=15"),
            0x800e_0000 => Some("accel-config config-wq NAME --wq-size=16"),
            0x8020_0000 => Some("accel-config config-wq NAME --driver-name=user"),
            _ => None,
        }
    }
}

const DRIVER: &[(u32, &str)] = &[
    (0x8000_0010, "the device is enabled already"),
    (0x8000_0020, "the device is not enabled"),
    (0x8000_0021, "the queue is enabled already"),
    (0x8002_0000, "the device could not be registered for DMA"),
    (0x8003_0000, "the queue is in no group"),
    (0x8004_0000, "the queue has no name"),
    (0x8005_0000, "shared virtual memory is not on, which a shared queue needs"),
    (0x8006_0000, "the queue is shared and has no threshold"),
    (0x8007_0000, "the queue's portal could not be mapped"),
    (0x8008_0000, "the queue's resources could not be allocated"),
    (0x8009_0000, "the queue's reference count could not be made"),
    (0x800a_0000, "the queue's DMA channel could not be registered"),
    (0x800b_0000, "the queue's device node could not be made"),
    (
        0x800c_0000,
        "the machine is not set up for shared queues (PASID, ENQCMD; page tables of 5 levels can be the cause)",
    ),
    (0x800d_0000, "no queue of the device is configured"),
    (0x800e_0000, "the queue has no size"),
    (0x800f_0000, "the queue has no privilege for what it is to do"),
    (0x8010_0000, "the queue's interrupt could not be set up"),
    (0x8011_0000, "a queue for user space needs the IOMMU and PASIDs, which are off"),
    (0x8012_0000, "the event log could not be set up"),
    (0x8020_0000, "the queue has no driver name"),
];

const DEVICE: &[(u32, &str)] = &[
    (0x00, "success"),
    (0x01, "the device does not know the command"),
    (0x02, "the device has no such queue"),
    (0x03, "the device reports a hardware error"),
    (0x10, "the device is enabled already"),
    (0x11, "the device refuses its configuration"),
    (0x12, "the device is not a bus master"),
    (0x13, "the PASID is not valid"),
    (0x14, "the sizes of the queues are more than the device has"),
    (0x15, "the configuration of groups is wrong"),
    (0x16, "the configuration of groups is wrong: a queue or engine is in none, or in two"),
    (0x17, "the configuration of groups is wrong: a group has queues without engines, or engines without queues"),
    (0x18, "the configuration of groups is wrong: bandwidth or traffic classes"),
    (0x20, "the device is not enabled"),
    (0x21, "the queue is enabled already"),
    (0x22, "the queue has no size"),
    (0x23, "the queue has no priority"),
    (0x24, "the mode of the queue is wrong: shared queues need PASIDs"),
    (0x25, "block_on_fault is set, and the device does not support it"),
    (0x26, "the PASID setting of the queue is wrong"),
    (0x27, "max_batch_size is more than the device takes"),
    (0x28, "max_transfer_size is more than the device takes"),
    (0x31, "the device is not enabled"),
    (0x32, "the device, or the queue, is not enabled"),
    (0x41, "there is no such interrupt"),
    (0x42, "there is no interrupt handle left"),
];

impl fmt::Display for CommandStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: {}", self.0, self.meaning())
    }
}

impl fmt::Debug for CommandStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_once_and_in_words() {
        let mut codes: Vec<u32> = DRIVER.iter().chain(DEVICE).map(|(code, _)| *code).collect();
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
        for (code, words) in [
            (0x8011_0000, "0x80110000: a queue for user space needs the IOMMU"),
            (0x23, "no priority"),
            (0x8099_0000, "does not know"),
        ] {
            assert!(CommandStatus(code).to_string().contains(words), "{code:#x}");
        }
        assert!(CommandStatus(0x8011_0000).remedy().unwrap().contains("intel_iommu=on,sm_on"));
        assert!(CommandStatus(0x8006_0000).remedy().unwrap().contains("--threshold="));
        assert!(CommandStatus(0).is_success() && CommandStatus(0).remedy().is_none());
    }
}
