//! x86-64: PAUSE, the time-stamp counter, Intel's and AMD's waits, and CPUID as the only witness.

use super::{
    Capabilities, Depth, Enqcmd, Instruction, Movdir64b, Mwaitx, Prefetchw, Span, StatedRate, Waitpkg, Watch, Woke,
};
use core::arch::asm;
use core::num::NonZeroU32;
use raw_cpuid::{CpuId, CpuIdReader, CpuIdReaderNative, Hypervisor};

/// PAUSE: 10 to 190 cycles, depending on the model; a hint that frees the core's resources for its sibling meanwhile.
#[inline(always)]
pub(crate) fn pause() {
    // SAFETY: a hint, which cpus that do not know it take for a NOP; no memory, no flags.
    unsafe { asm!("pause", options(nomem, nostack, preserves_flags)) };
}

/// RDTSC, not ordered with the instructions around it: a reading may be early or late by what the cpu reorders (tens of
/// ticks).
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 cpu has RDTSC. Where the kernel is told to make it fault (PR_SET_TSC), so do the vDSO's
    // clocks, without which no thread of Rust's runs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Waits for the span: TPAUSE, or MWAITX on a line that nobody writes, since it does not wait without a monitor.
#[inline]
pub(crate) fn wait(by: Instruction, depth: Depth, span: Span) -> Woke {
    match by {
        Instruction::Waitpkg(token) => until(span, |deadline| tpause(token, depth, deadline)),
        Instruction::Mwaitx(token) => {
            monitorx(token, QUIET_LINE.0.as_ptr());
            match count(span.left(ticks())) {
                Some(count) => mwaitx(token, count),
                None => return Woke::AtOnce,
            }
            Woke::Somehow
        }
        _ => no_such_instruction(),
    }
}

/// Waits for a store to the line of `watch`, or for the span: arm, look again, wait.
#[inline]
pub(crate) fn wait_on(by: Instruction, depth: Depth, watch: &Watch<'_>, span: Span) -> Woke {
    match by {
        Instruction::Waitpkg(token) => {
            umonitor(token, watch.address());
            // A store before the monitor was armed wakes nobody; from here on, every one does.
            if !watch.is_quiet() {
                return Woke::AtOnce;
            }
            until(span, |deadline| umwait(token, depth, deadline))
        }
        Instruction::Mwaitx(token) => {
            monitorx(token, watch.address());
            // As above.
            if !watch.is_quiet() {
                return Woke::AtOnce;
            }
            match count(span.left(ticks())) {
                Some(count) => mwaitx(token, count),
                None => return Woke::AtOnce,
            }
            Woke::Somehow
        }
        _ => no_such_instruction(),
    }
}

/// Tokens of other architectures are not made on this one.
fn no_such_instruction() -> Woke {
    pause();
    Woke::Somehow
}

/// Runs an instruction that takes an absolute deadline and answers with the carry flag: the operating system's limit
/// ended it.
#[inline(always)]
fn until(span: Span, wait: impl FnOnce(u64) -> bool) -> Woke {
    let now = ticks();
    match span.left(now) {
        0 => Woke::AtOnce,
        left if wait(now.saturating_add(left)) => Woke::OsLimit,
        _ => Woke::Somehow,
    }
}

/// The count for MWAITX's timer, in which 0 means "for ever": `None` if there is nothing to wait for, and what does not
/// fit is cut to what does (more than a second).
#[inline(always)]
fn count(left: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(left).unwrap_or(u32::MAX))
}

/// What nobody writes. 128 bytes, since neighbours of a line are fetched with it.
#[repr(align(128))]
struct QuietLine([u8; 128]);
static QUIET_LINE: QuietLine = QuietLine([0; 128]);

/// The operand of TPAUSE and UMWAIT: bit 0, all others reserved (#GP).
#[inline(always)]
fn state(depth: Depth) -> u32 {
    match depth {
        Depth::Light => 1,
        Depth::Deep => 0,
    }
}

/// Waits until the counter passes `deadline`. `true`: the operating system's limit came first.
#[inline(always)]
fn tpause(_: Waitpkg, depth: Depth, deadline: u64) -> bool {
    let (low, high) = halves(deadline);
    let limited: u8;
    // SAFETY: the token says that the cpu has it; the operand has no reserved bit set; it touches the flags and nothing else.
    unsafe {
        asm!("tpause {state:e}", "setc {limited}", state = in(reg) state(depth), in("eax") low, in("edx") high,
            limited = out(reg_byte) limited, options(nostack));
    }
    limited != 0
}

/// Arms this cpu's monitor with the line of `address`, which is readable: ordered, and faulting, like a load of a byte.
#[inline(always)]
fn umonitor(_: Waitpkg, address: *const u8) {
    // SAFETY: the token says that the cpu has it; it reads a byte that the caller keeps readable. Not `nomem`: the look at
    // the word that follows must stay behind it.
    unsafe { asm!("umonitor {address}", address = in(reg) address, options(nostack, preserves_flags)) };
}

/// Waits for a store to the armed line, or until the counter passes `deadline`. `true`: the operating system's limit came
/// first.
#[inline(always)]
fn umwait(_: Waitpkg, depth: Depth, deadline: u64) -> bool {
    let (low, high) = halves(deadline);
    let limited: u8;
    // SAFETY: as for `tpause`. Not `nomem`: the look at the word stays before it, what the caller reads stays behind.
    unsafe {
        asm!("umwait {state:e}", "setc {limited}", state = in(reg) state(depth), in("eax") low, in("edx") high,
            limited = out(reg_byte) limited, options(nostack));
    }
    limited != 0
}

/// Arms this cpu's monitor with the line of `address`, which is readable.
#[inline(always)]
fn monitorx(_: Mwaitx, address: *const u8) {
    // SAFETY: the token says that the cpu has it; no extension (ECX) and no hint (EDX) is asked for; it reads a byte that
    // the caller keeps readable. Not `nomem`: see `umonitor`.
    unsafe { asm!("monitorx", in("rax") address, in("ecx") 0, in("edx") 0, options(nostack, preserves_flags)) };
}

/// Waits for a store to the armed line, or for `ticks`.
#[inline(always)]
fn mwaitx(_: Mwaitx, ticks: NonZeroU32) {
    /// EAX[7:4] = 0xF: stay in C0, from which the wake is the fastest.
    const STAY_IN_C0: u32 = 0xf0;
    /// ECX[1]: EBX is a timer.
    const TIMER: u32 = 1 << 1;
    // SAFETY: the token says that the cpu has it; hint and extension are valid. LLVM keeps RBX to itself, so the count
    // changes places with it around the instruction, whatever register it is in.
    unsafe {
        asm!("xchg rbx, {count}", "mwaitx", "xchg rbx, {count}", count = inout(reg) u64::from(ticks.get()) => _,
            in("eax") STAY_IN_C0, in("ecx") TIMER, options(nostack, preserves_flags));
    }
}

/// EAX and EDX of a deadline.
#[inline(always)]
fn halves(deadline: u64) -> (u32, u32) {
    // Truncation is meant: the low half.
    (deadline as u32, (deadline >> 32) as u32)
}

pub(crate) fn capabilities() -> Capabilities {
    capabilities_from(CpuIdReaderNative)
}

/// Feature bits that are read from the leaf itself, because `raw-cpuid` has no name for them or gates them by vendor.
mod bits {
    /// Leaf 7, subleaf 0, ECX.
    pub(super) const WAITPKG: u32 = 1 << 5;
    pub(super) const MOVDIR64B: u32 = 1 << 28;
    pub(super) const ENQCMD: u32 = 1 << 29;
    /// Leaf 0x8000_0001, ECX: PREFETCHW, by the name of the set that brought it (3DNow! prefetch).
    pub(super) const PREFETCHW: u32 = 1 << 8;
    /// Leaf 0x8000_0001, ECX. AMD's, and kept by Hygon; elsewhere the bit is reserved.
    pub(super) const MONITORX: u32 = 1 << 29;
}

/// The vendors for whom bit [`bits::MONITORX`] means MONITORX.
const MONITORX_VENDORS: [&str; 2] = ["AuthenticAMD", "HygonGenuine"];

/// The whole detection, from any source of CPUID leaves.
fn capabilities_from<R: CpuIdReader>(leaves: R) -> Capabilities {
    let cpu = CpuId::with_cpuid_reader(leaves.clone());
    let vendor = cpu.get_vendor_info().map(|v| v.as_str().to_owned()).unwrap_or_default();
    // A leaf past the last one answers with the content of another, so raw-cpuid is asked first whether there is one.
    let structured = cpu.get_extended_feature_info().map_or(0, |_| leaves.cpuid2(7, 0).ecx);
    let extended = cpu.get_extended_processor_and_feature_identifiers().map_or(0, |_| leaves.cpuid1(0x8000_0001).ecx);
    let monitorx = MONITORX_VENDORS.contains(&vendor.as_str()) && extended & bits::MONITORX != 0;
    Capabilities {
        brand: cpu.get_processor_brand_string().map(|b| b.as_str().trim().to_owned()).unwrap_or_default(),
        hypervisor: cpu.get_hypervisor_info().map(|h| hypervisor_name(&h.identify())),
        invariant_tsc: cpu.get_advanced_power_mgmt_info().is_some_and(|p| p.has_invariant_tsc()),
        stated_rate: stated_rate(&cpu),
        waitpkg: (structured & bits::WAITPKG != 0).then_some(Waitpkg(())),
        movdir64b: (structured & bits::MOVDIR64B != 0).then_some(Movdir64b(())),
        enqcmd: (structured & bits::ENQCMD != 0).then_some(Enqcmd(())),
        mwaitx: monitorx.then_some(Mwaitx(())),
        prefetchw: (extended & bits::PREFETCHW != 0).then_some(Prefetchw(())),
        vendor,
        ..Capabilities::default()
    }
}

/// The counter's rate: the hypervisor's word first (it may scale the counter), then the crystal's, then the nominal
/// frequency, at which the counters of Intel's cores run when the crystal's rate is left out.
fn stated_rate<R: CpuIdReader>(cpu: &CpuId<R>) -> Option<StatedRate> {
    const HZ_PER_KHZ: u64 = 1_000;
    const HZ_PER_MHZ: u64 = 1_000_000;
    let hypervisor = || {
        let khz = cpu.get_hypervisor_info()?.tsc_frequency()?;
        Some(StatedRate { hz: u64::from(khz) * HZ_PER_KHZ, source: "hypervisor leaf 0x40000010" })
    };
    let crystal = || Some(StatedRate { hz: cpu.get_tsc_info()?.tsc_frequency()?, source: "CPUID leaf 0x15" });
    let nominal = || {
        let mhz = cpu.get_processor_frequency_info()?.processor_base_frequency();
        Some(StatedRate { hz: u64::from(mhz) * HZ_PER_MHZ, source: "CPUID leaf 0x16" })
    };
    // A leaf that is there may still be empty.
    let filled = |rate: &StatedRate| rate.hz > 0;
    hypervisor().filter(filled).or_else(|| crystal().filter(filled)).or_else(|| nominal().filter(filled))
}

fn hypervisor_name(hypervisor: &Hypervisor) -> String {
    match hypervisor {
        Hypervisor::Unknown(ebx, ecx, edx) => {
            let letters: Vec<u8> = [ebx, ecx, edx].into_iter().flat_map(|word| word.to_le_bytes()).collect();
            let name = String::from_utf8_lossy(&letters).trim_matches(['\0', ' ']).to_owned();
            if name.is_empty() { "unnamed".to_owned() } else { name }
        }
        known => format!("{known:?}"),
    }
}

#[cfg(all(test, feature = "sim"))]
#[path = "x86_pretended.rs"]
mod pretended;

#[cfg(test)]
#[path = "x86_golden.rs"]
mod golden;

#[cfg(test)]
mod tests {
    use super::*;
    use raw_cpuid::CpuIdResult;

    /// (leaf, subleaf) and what it answers in EAX, EBX, ECX, EDX.
    type Leaf = ((u32, u32), [u32; 4]);

    /// A cpu as the leaves that it answers; every other leaf is zero.
    fn read(leaves: &[Leaf]) -> Capabilities {
        capabilities_from(move |leaf: u32, subleaf: u32| {
            let [eax, ebx, ecx, edx] =
                leaves.iter().find(|(key, _)| *key == (leaf, subleaf)).map_or([0; 4], |(_, registers)| *registers);
            CpuIdResult { eax, ebx, ecx, edx }
        })
    }

    /// Leaf 0 of each vendor: the highest leaf, then the name in EBX, EDX, ECX.
    const INTEL: [u32; 4] = [0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69];
    const AMD: [u32; 4] = [0x20, 0x6874_7541, 0x444d_4163, 0x6974_6e65];
    const HYGON: [u32; 4] = [0x20, 0x6f67_7948, 0x656e_6975, 0x6e65_476e];
    const EXTENDED: [u32; 4] = [0x8000_0008, 0, 0, 0];
    const HYPERVISOR_BIT: [u32; 4] = [0, 0, 1 << 31, 0];

    #[test]
    fn wait_and_store_instructions_are_what_leaf_7_says() {
        let tokens = |ecx| {
            let cpu = read(&[((0, 0), INTEL), ((7, 0), [0, 0, ecx, 0])]);
            (cpu.waitpkg.is_some(), cpu.movdir64b.is_some(), cpu.enqcmd.is_some())
        };
        assert_eq!(tokens(0), (false, false, false));
        assert_eq!(tokens(1 << 5), (true, false, false));
        assert_eq!(tokens(1 << 28), (false, true, false));
        assert_eq!(tokens(1 << 29), (false, false, true));
        assert_eq!(tokens(!0), (true, true, true));
    }

    #[test]
    fn a_cpu_whose_leaves_end_before_7_has_none_of_them() {
        // Real cpus answer a leaf past the last with the content of the last; the reader must not believe it.
        let cpu = read(&[((0, 0), [5, INTEL[1], INTEL[2], INTEL[3]]), ((7, 0), [0, 0, !0, 0])]);
        assert_eq!((cpu.waitpkg, cpu.movdir64b, cpu.enqcmd), (None, None, None));
    }

    #[test]
    fn monitorx_counts_on_amd_and_hygon_only() {
        const FEATURES: Leaf = ((0x8000_0001, 0), [0, 0, 1 << 29, 0]);
        const TOP: Leaf = ((0x8000_0000, 0), EXTENDED);
        let amd = read(&[((0, 0), AMD), TOP, FEATURES]);
        assert_eq!((amd.vendor.as_str(), amd.mwaitx.is_some()), ("AuthenticAMD", true));
        let hygon = read(&[((0, 0), HYGON), TOP, FEATURES]);
        assert_eq!((hygon.vendor.as_str(), hygon.mwaitx.is_some()), ("HygonGenuine", true));
        assert!(read(&[((0, 0), INTEL), TOP, FEATURES]).mwaitx.is_none());
        assert!(read(&[((0, 0), AMD), TOP]).mwaitx.is_none(), "a template of the hypervisor clears the bit");
    }

    #[test]
    fn prefetchw_is_what_the_extended_leaf_says() {
        let stated = |ecx| {
            let leaves = [((0, 0), INTEL), ((0x8000_0000, 0), EXTENDED), ((0x8000_0001, 0), [0, 0, ecx, 0])];
            read(&leaves).prefetchw.is_some()
        };
        assert!(stated(1 << 8));
        assert!(!stated(!(1 << 8)));
    }

    #[test]
    fn the_rate_is_taken_from_the_best_witness() {
        const HOST: Leaf = ((1, 0), HYPERVISOR_BIT);
        const VMWARE: Leaf = ((0x4000_0000, 0), [0x4000_0010, 0x6177_4d56, 0x4d56_6572, 0x6572_6177]);
        const CRYSTAL: Leaf = ((0x15, 0), [2, 184, 25_000_000, 0]);
        const NOMINAL: Leaf = ((0x16, 0), [2_200, 3_000, 100, 0]);
        let hz = |leaves: &[Leaf]| read(leaves).stated_rate.map(|rate| (rate.hz, rate.source));

        assert_eq!(hz(&[((0, 0), INTEL)]), None);
        assert_eq!(hz(&[((0, 0), INTEL), NOMINAL]), Some((2_200_000_000, "CPUID leaf 0x16")));
        assert_eq!(hz(&[((0, 0), INTEL), CRYSTAL, NOMINAL]), Some((2_300_000_000, "CPUID leaf 0x15")));
        // The ratio alone, without the crystal's rate, says nothing.
        assert_eq!(
            hz(&[((0, 0), INTEL), ((0x15, 0), [2, 184, 0, 0]), NOMINAL]),
            Some((2_200_000_000, "CPUID leaf 0x16"))
        );
        let guest = read(&[((0, 0), INTEL), HOST, VMWARE, ((0x4000_0010, 0), [2_400_000, 0, 0, 0]), CRYSTAL]);
        assert_eq!(guest.hypervisor.as_deref(), Some("VMware"));
        assert_eq!(guest.stated_rate.map(|rate| rate.hz), Some(2_400_000_000));
        // A hypervisor that leaves its leaf empty does not hide the crystal's.
        assert_eq!(hz(&[((0, 0), INTEL), HOST, VMWARE, CRYSTAL]).map(|(hz, _)| hz), Some(2_300_000_000));
    }

    #[test]
    fn unknown_hypervisors_are_named_by_their_own_letters() {
        let cpu = read(&[
            ((0, 0), INTEL),
            ((1, 0), HYPERVISOR_BIT),
            ((0x4000_0000, 0), [0x4000_0000, u32::from_le_bytes(*b"Acme"), u32::from_le_bytes(*b"Visr"), 0]),
        ]);
        assert_eq!(cpu.hypervisor.as_deref(), Some("AcmeVisr"));
    }

    #[test]
    fn invariance_is_its_own_bit() {
        let invariant = |edx| {
            read(&[((0, 0), INTEL), ((0x8000_0000, 0), EXTENDED), ((0x8000_0007, 0), [0, 0, 0, edx])]).invariant_tsc
        };
        assert!(invariant(1 << 8));
        assert!(!invariant(!(1 << 8)));
    }

    #[test]
    fn a_count_for_mwaitx_is_never_0_and_always_fits() {
        let counts = |left| count(left).map(NonZeroU32::get);
        assert_eq!(counts(0), None, "0 would be for ever");
        assert_eq!(counts(1), Some(1));
        assert_eq!(counts(u64::from(u32::MAX)), Some(u32::MAX));
        // The low half of these would be 0, and 5.
        assert_eq!(counts(1 << 32), Some(u32::MAX));
        assert_eq!(counts((1 << 32) + 5), Some(u32::MAX));
        assert_eq!(counts(u64::MAX), Some(u32::MAX));
    }
}
