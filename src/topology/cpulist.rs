//! Lists of cpus as the kernel writes them: `0-3,8,10-11`.

/// A set of cpu numbers that reads and prints the kernel's list format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(std::collections::BTreeSet<usize>);

/// Why a text is no list of cpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuListError(String);
