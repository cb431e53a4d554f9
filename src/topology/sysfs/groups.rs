//! Who shares a thing with whom, when every cpu gives its own account of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::files::Files;
use crate::topology::cpulist::CpuList;

/// Reads sets of cpus from files that many cpus repeat word for word: each text is understood once.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    understood: HashMap<String, Rc<CpuList>>,
}

impl Accounts {
    /// The set in `dir/list`, else in the mask `dir/mask` of kernels before the lists; `None` where there is neither.
    pub(super) fn read(&mut self, files: &mut Files<'_>, dir: &str, list: &str, mask: &str) -> Option<Rc<CpuList>> {
        let path = format!("{dir}/{list}");
        if let Some(set) = self.read_one(files, &path, str::parse) {
            return Some(set);
        }
        self.read_one(files, &format!("{dir}/{mask}"), CpuList::from_mask)
    }

    fn read_one<E: std::fmt::Display>(
        &mut self,
        files: &mut Files<'_>,
        path: &str,
        understand: impl Fn(&str) -> Result<CpuList, E>,
    ) -> Option<Rc<CpuList>> {
        let text = files.text(path)?;
        // A mask and a list may have the same text and mean different sets, so the file's name is part of the key.
        let name = path.rsplit('/').next().unwrap_or(path);
        let key = format!("{name} {text}");
        if let Some(set) = self.understood.get(&key) {
            return Some(Rc::clone(set));
        }
        let set = files.understood(path, understand(&text)).filter(|set| !set.is_empty()).map(Rc::new)?;
        self.understood.insert(key, Rc::clone(&set));
        Some(set)
    }
}

/// Groups of cpus, each named by its smallest member.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// The name of each cpu's group.
    pub leader: BTreeMap<usize, usize>,
    /// Cpus whose account others do not confirm.
    pub disputed: BTreeSet<usize>,
}

/// Divides `online` into groups: two cpus are together when both give the same account and are in it.
///
/// Accounts may name cpus that are not online; those do not count. A cpu without an account, or with one that leaves
/// itself out, is alone. So a contradiction can only split a group, never join strangers.
pub(super) fn partition(online: &BTreeSet<usize>, accounts: &BTreeMap<usize, Rc<CpuList>>) -> Groups {
    let mut by_account: BTreeMap<BTreeSet<usize>, BTreeSet<usize>> = BTreeMap::new();
    let mut groups = Groups { leader: BTreeMap::new(), disputed: BTreeSet::new() };
    for &cpu in online {
        let account = accounts.get(&cpu).filter(|account| account.contains(cpu));
        match account {
            Some(account) => {
                let account = account.iter().filter(|member| online.contains(member)).collect();
                by_account.entry(account).or_default().insert(cpu);
            }
            None => {
                groups.leader.insert(cpu, cpu);
                if accounts.contains_key(&cpu) {
                    groups.disputed.insert(cpu);
                }
            }
        }
    }
    for (account, members) in by_account {
        for &cpu in &members {
            groups.leader.insert(cpu, members.first().copied().unwrap_or(cpu));
        }
        if members != account {
            groups.disputed.extend(members);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions() {
        for (online, accounts, leaders, disputed, why) in [
            ("0-3", vec!["0-1", "0-1", "2-3", "2-3"], vec![0, 0, 2, 2], "", "two pairs"),
            ("0-3", vec!["0,2", "1,3", "0,2", "1,3"], vec![0, 1, 0, 1], "", "siblings apart"),
            ("0-1", vec!["0-1", "0-1"], vec![0, 0], "", "one pair"),
            ("0,2", vec!["0-1", "", "2-3"], vec![0, 2], "", "offline siblings do not count"),
            ("0-1", vec!["0-1", "1"], vec![0, 1], "0", "one side denies it"),
            ("0-2", vec!["0-1", "0-2", "2"], vec![0, 1, 2], "0-1", "a chain is no group"),
            ("0-2", vec!["0-2", "0-2", "2"], vec![0, 0, 2], "0-1", "those who agree stay together"),
            ("0-1", vec!["1", "0"], vec![0, 1], "0-1", "accounts that leave out their own cpu"),
            ("0-1", vec!["0"], vec![0, 1], "", "no account at all"),
        ] {
            let online = online.parse::<CpuList>().unwrap().into_set();
            let accounts: BTreeMap<usize, Rc<CpuList>> = accounts
                .iter()
                .enumerate()
                .filter(|(_, text)| !text.is_empty())
                .map(|(cpu, text)| (cpu, Rc::new(text.parse().unwrap())))
                .collect();
            let groups = partition(&online, &accounts);
            assert_eq!(groups.leader.values().copied().collect::<Vec<_>>(), leaders, "{why}");
            assert_eq!(groups.disputed, disputed.parse::<CpuList>().unwrap().into_set(), "{why}");
        }
    }
}
