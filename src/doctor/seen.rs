//! What was read of the machine, once, for all topics.

use super::Roots;
use super::lane_waits::LaneWaits;
use super::processor::Processor;
use super::queues;
use super::tree::Tree;
use crate::offload::dsa::discover::identity::Identity;
use crate::offload::dsa::discover::survey::Survey;
use crate::topology::{Topology, TopologyError};

/// The machine as the topics see it.
#[derive(Debug)]
pub(super) struct Seen {
    pub tree: Tree,
    pub topology: Result<Topology, TopologyError>,
    pub processor: Processor,
    /// With what lanes would wait, where that can be tried.
    pub lane_waits: Option<LaneWaits>,
    /// Devices and work queues.
    pub survey: Survey,
    /// Who this process is; `None` where that is not told.
    pub identity: Option<Identity>,
    pub command_line: CommandLine,
}

impl Seen {
    pub(super) fn read(roots: &Roots) -> Self {
        let tree = Tree::new(&roots.root);
        let (topology, processor) = if roots.live {
            (Topology::read(), Processor::live())
        } else {
            (Topology::read_from(&roots.root), Processor::recorded(&tree))
        };
        let lane_waits = roots.live.then(|| LaneWaits::test(roots.wait_with, &tree));
        let identity = tree.text("proc/self/status").and_then(|status| Identity::parse(&status));
        let survey = queues::read(&roots.dsa, identity.as_ref(), roots.live);
        let command_line = CommandLine(tree.text("proc/cmdline").unwrap_or_default());
        Self { tree, topology, processor, lane_waits, survey, identity, command_line }
    }

    /// The machine, if it could be read.
    pub(super) fn machine(&self) -> Option<&Topology> {
        self.topology.as_ref().ok()
    }

    /// The name of the hypervisor beneath, as far as it gives one; `None` where there is none.
    pub(super) fn hypervisor(&self) -> Option<&str> {
        let beneath = self.machine().is_some_and(|machine| machine.hypervisor);
        self.processor.hypervisor.as_deref().or(beneath.then_some("unnamed"))
    }
}

/// The kernel's command line.
#[derive(Debug)]
pub(super) struct CommandLine(String);

impl CommandLine {
    /// The value of the last `name=value`, which is the one that the kernel takes.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut values = self.0.split_whitespace().filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_names_are_whole() {
        let line = CommandLine("quiet nohz_full=1 nohz=off nohz_full=2-3 x.nohz_full=9 rcu_nocbs".into());
        assert_eq!(line.value("nohz_full"), Some("2-3"));
        assert_eq!(line.value("nohz"), Some("off"));
        assert_eq!(line.value("rcu_nocbs"), None);
    }
}
