//! Who this process is, as far as permissions go.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// How it is found out whether a node may be opened.
#[derive(Clone, Debug)]
pub(crate) enum Permission {
    /// The kernel is asked, for the calling thread: it knows of access lists and name spaces.
    AskKernel,
    /// By the node's permission bits, as somebody; nobody known, nothing is said. For trees of other machines.
    Of(Option<Identity>),
}

impl Permission {
    /// Whether the node may be read and written; `None` where that is not known.
    pub(super) fn may_use(&self, node: &Path, owner: Owner) -> Option<bool> {
        match self {
            Self::AskKernel => Some(accessat(CWD, node, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS).is_ok()),
            Self::Of(identity) => identity.as_ref().map(|identity| identity.may_use(owner)),
        }
    }
}

/// Who may do what with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The permission bits.
    pub(crate) mode: u32,
    /// User.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
}

/// The identity that permissions are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    uid: u32,
    groups: Vec<u32>,
    capabilities: Option<u64>,
}

impl Identity {
    /// From the text of `/proc/self/status`; `None` where that does not say.
    pub(crate) fn parse(status: &str) -> Option<Self> {
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let uid = *numbers("Uid")?.get(EFFECTIVE)?;
        let mut groups = numbers("Groups").unwrap_or_default();
        groups.push(*numbers("Gid")?.get(EFFECTIVE)?);
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), HEX).ok());
        Some(Self { uid, groups, capabilities })
    }

    /// Whether permissions let this identity read and write. The first class that fits decides, as in the kernel.
    pub(crate) fn may_use(&self, owner: Owner) -> bool {
        let class = if self.uid == owner.uid {
            OWNER_SHIFT
        } else if self.groups.contains(&owner.gid) {
            GROUP_SHIFT
        } else {
            0
        };
        self.holds(CAP_DAC_OVERRIDE) || (owner.mode >> class) & READ_WRITE == READ_WRITE
    }

    /// Whether it holds CAP_SYS_RAWIO, which the kernel wants of those who map a portal.
    pub(crate) fn may_map_portals(&self) -> bool {
        self.holds(CAP_SYS_RAWIO)
    }

    /// A status that tells no capabilities is that of an old kernel, where root has all of them.
    fn holds(&self, capability: u64) -> bool {
        self.capabilities.map_or(self.uid == 0, |held| held & capability != 0)
    }
}

/// `Uid:` and `Gid:` list the real, effective, saved and file-system identity.
const EFFECTIVE: usize = 1;
/// Bit 1 of the capabilities.
const CAP_DAC_OVERRIDE: u64 = 1 << 1;
/// Bit 17.
const CAP_SYS_RAWIO: u64 = 1 << 17;
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
    fn portals_want_a_capability() {
        for (uid, capabilities, may) in [
            (0, "", true),
            (0, "CapEff:\t00000000a80425fb\n", false),
            (7, "CapEff:\t0000000000020000\n", true),
            (7, "", false),
        ] {
            assert_eq!(identity(uid, uid, "", capabilities).may_map_portals(), may, "{uid} {capabilities}");
        }
    }

    #[test]
    fn what_does_not_say_is_nobody() {
        for status in ["", "Name:\tx\n", "Uid:\t1\nGid:\t1\n", "Uid:\tx\ty\nGid:\t1\t1\n", "Uid:\t1\t1\n"] {
            assert_eq!(Identity::parse(status), None, "{status:?}");
        }
    }
}
