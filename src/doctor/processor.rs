//! What the cpu states about itself: from CPUID on this machine, from `proc/cpuinfo` in a tree.

use super::tree::Tree;
use crate::arch::Capabilities;

/// Instructions that matter for waiting and for work queues; `true` where the cpu states them.
///
/// An instruction that is not stated traps if it is executed, whatever the model's data sheet says: hypervisors take
/// some away on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instructions {
    /// TPAUSE, UMONITOR and UMWAIT.
    pub waitpkg: bool,
    /// MONITORX and MWAITX.
    pub mwaitx: bool,
    /// MOVDIR64B, which fills dedicated work queues.
    pub movdir64b: bool,
    /// ENQCMD, which fills shared work queues.
    pub enqcmd: bool,
}

/// The cpu, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Processor {
    pub family: Family,
    pub brand: String,
    pub hypervisor: Option<String>,
    /// Whether the counter behind the clock runs at one rate for ever; `None` where nothing says.
    pub invariant_counter: Option<bool>,
    pub instructions: Instructions,
}

/// Whose instruction set it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Family {
    Intel,
    /// AMD, and Hygon, which has the same instructions for waiting.
    Amd,
    /// Another maker of x86.
    OtherX86,
    Arm,
    #[default]
    Unknown,
}

impl Processor {
    /// The cpu that runs the calling thread.
    pub(super) fn live() -> Self {
        let cpu = Capabilities::detect();
        let family = if cfg!(target_arch = "aarch64") { Family::Arm } else { Family::of_vendor(&cpu.vendor) };
        Self {
            family,
            brand: cpu.brand,
            hypervisor: cpu.hypervisor,
            invariant_counter: Some(cpu.invariant_tsc),
            instructions: Instructions {
                waitpkg: cpu.waitpkg.is_some(),
                mwaitx: cpu.mwaitx.is_some(),
                movdir64b: cpu.movdir64b.is_some(),
                enqcmd: cpu.enqcmd.is_some(),
            },
        }
    }

    /// The cpu that a tree describes.
    pub(super) fn recorded(tree: &Tree) -> Self {
        Self::from_cpuinfo(&tree.text("proc/cpuinfo").unwrap_or_default())
    }

    fn from_cpuinfo(text: &str) -> Self {
        let value = |key: &str| {
            text.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.trim() == key)
                .map(|(_, v)| v.trim())
        };
        if value("CPU implementer").is_some() {
            return Self { family: Family::Arm, invariant_counter: Some(true), ..Self::default() };
        }
        let Some(flags) = value("flags") else { return Self::default() };
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        Self {
            family: Family::of_vendor(value("vendor_id").unwrap_or_default()),
            brand: value("model name").unwrap_or_default().to_owned(),
            hypervisor: None,
            invariant_counter: Some(has("constant_tsc") && has("nonstop_tsc")),
            instructions: Instructions {
                waitpkg: has("waitpkg"),
                mwaitx: has("mwaitx"),
                movdir64b: has("movdir64b"),
                enqcmd: has("enqcmd"),
            },
        }
    }
}

impl Family {
    fn of_vendor(vendor: &str) -> Self {
        match vendor {
            "GenuineIntel" => Self::Intel,
            "AuthenticAMD" | "HygonGenuine" => Self::Amd,
            "" => Self::Unknown,
            _ => Self::OtherX86,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_is_believed_flag_by_flag() {
        let of = |flags: &str| Processor::from_cpuinfo(&format!("vendor_id\t: GenuineIntel\nflags\t\t: fpu {flags}\n"));
        let none = Instructions::default();
        for (flags, instructions, invariant) in [
            ("", none, false),
            ("waitpkg", Instructions { waitpkg: true, ..none }, false),
            ("mwaitx constant_tsc", Instructions { mwaitx: true, ..none }, false),
            ("constant_tsc nonstop_tsc", none, true),
            ("movdir64b enqcmd", Instructions { movdir64b: true, enqcmd: true, ..none }, false),
            ("nowaitpkg", none, false),
        ] {
            let cpu = of(flags);
            assert_eq!((cpu.instructions, cpu.invariant_counter), (instructions, Some(invariant)), "{flags}");
        }
    }

    #[test]
    fn families() {
        for (text, family) in [
            ("vendor_id : HygonGenuine\nflags : fpu", Family::Amd),
            ("vendor_id : CentaurHauls\nflags : fpu", Family::OtherX86),
            ("processor : 0\nCPU implementer : 0x41\n", Family::Arm),
            ("", Family::Unknown),
        ] {
            assert_eq!(Processor::from_cpuinfo(text).family, family, "{text:?}");
        }
    }

    #[test]
    fn this_cpu_and_its_cpuinfo_agree() {
        let recorded = Processor::recorded(&Tree::new(std::path::Path::new("/")));
        assert_eq!(Processor::live().instructions, recorded.instructions);
    }
}
