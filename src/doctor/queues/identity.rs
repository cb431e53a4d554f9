//! Who this process is, as far as permissions go.

use crate::doctor::tree::{Owner, Tree};

/// The identity that permissions are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    uid: u32,
    groups: Vec<u32>,
    /// Permissions do not bind it (CAP_DAC_OVERRIDE).
    overrides: bool,
}

impl Identity {
    /// From `proc/self/status`; `None` where that does not say.
    pub(super) fn read(tree: &Tree) -> Option<Self> {
        Self::parse(&tree.text("proc/self/status")?)
    }

    fn parse(status: &str) -> Option<Self> {
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let uid = *numbers("Uid")?.get(EFFECTIVE)?;
        let mut groups = numbers("Groups").unwrap_or_default();
        groups.push(*numbers("Gid")?.get(EFFECTIVE)?);
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), HEX).ok());
        let overrides = capabilities.map_or(uid == 0, |held| held & CAP_DAC_OVERRIDE != 0);
        Some(Self { uid, groups, overrides })
    }

    /// Whether permissions let this identity read and write. The first class that fits decides, as in the kernel.
    pub(super) fn may_use(&self, owner: Owner) -> bool {
        let class = if self.uid == owner.uid {
            OWNER_SHIFT
        } else if self.groups.contains(&owner.gid) {
            GROUP_SHIFT
        } else {
            0
        };
        self.overrides || (owner.mode >> class) & READ_WRITE == READ_WRITE
    }
}

/// `Uid:` and `Gid:` list the real, effective, saved and file-system identity.
const EFFECTIVE: usize = 1;
/// Bit 1 of the capabilities.
const CAP_DAC_OVERRIDE: u64 = 1 << 1;
const HEX: u32 = 16;
const READ_WRITE: u32 = 0o6;
const OWNER_SHIFT: u32 = 6;
const GROUP_SHIFT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: u32, gid: u32, groups: &str, capabilities: &str) -> Identity {
        let status =
            format!("Name:\tx\nUid:\t7\t{uid}\t7\t7\nGid:\t7\t{gid}\t7\t7\nGroups:\t{groups} \n{capabilities}");
        Identity::parse(&status).unwrap()
    }

    #[test]
    fn permissions_are_read_as_the_kernel_does() {
        let node = |mode| Owner { mode, uid: 0, gid: 50 };
        let (stranger, member) = (identity(5, 5, "", ""), identity(5, 5, "40 50", ""));
        for (who, mode, may) in [
            (&identity(0, 0, "", ""), 0o600, true),
            (&identity(0, 0, "", "CapEff:\t0000000000000000\n"), 0o600, true),
            (&identity(0, 0, "", "CapEff:\t0000000000000000\n"), 0o066, false),
            (&identity(5, 5, "", "CapEff:\t0000000000000002\n"), 0o600, true),
            (&stranger, 0o600, false),
            (&stranger, 0o660, false),
            (&stranger, 0o666, true),
            (&stranger, 0o664, false),
            (&member, 0o660, true),
            (&member, 0o640, false),
            (&member, 0o606, false),
            (&identity(5, 50, "", ""), 0o660, true),
        ] {
            assert_eq!(who.may_use(node(mode)), may, "{who:?} {mode:o}");
        }
    }

    #[test]
    fn what_does_not_say_is_nobody() {
        for status in ["", "Name:\tx\n", "Uid:\t1\nGid:\t1\n", "Uid:\tx\ty\nGid:\t1\t1\n", "Uid:\t1\t1\n"] {
            assert_eq!(Identity::parse(status), None, "{status:?}");
        }
    }
}
