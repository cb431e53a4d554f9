//! Instructions that wait, and what the OS lets them.

use super::finding::{About, Finding, Topic};
use super::lane_waits::{ENABLE_C02, LaneWaits, MAX_TIME};
use super::processor::Family;
use super::seen::Seen;
use crate::wait::WaitWith;

const ABOUT: About = About(Topic::Waits);

/// What there is to say about waiting in user mode.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut findings = vec![pause(seen.processor.family)];
    if seen.processor.instructions.waitpkg {
        findings.push(waitpkg());
        findings.extend(umwait_limits(seen));
    } else if seen.processor.family == Family::Intel {
        findings.push(no_waitpkg(seen));
    }
    if seen.processor.instructions.mwaitx {
        findings.push(mwaitx());
    } else if seen.processor.family == Family::Amd {
        findings.push(no_mwaitx(seen));
    }
    findings.extend(seen.lane_waits.iter().flat_map(tested));
    findings
}

/// What a lane would wait with, and what it was told.
fn tested(waits: &LaneWaits) -> Vec<Finding> {
    let LaneWaits { wanted, cpu, report } = waits;
    let finding = ABOUT
        .info("waits.lanes", format!("Lanes here wait with {}.", report.instructions))
        .why(format!("By the test that a lane runs when it starts, run now on cpu {cpu}: {report}."));
    // PAUSE was seen at work, everything else only under emulation.
    let finding = if report.why_pause.is_some() { finding } else { finding.unseen() };
    let told = match wanted {
        WaitWith::Auto => None,
        WaitWith::Pause => Some("PAUSE is all that lanes may wait with (TWOLANE_WAIT=pause)."),
        WaitWith::Light => Some("Lanes may wait no deeper than C0.1 (TWOLANE_WAIT=light)."),
        WaitWith::Deep => Some("Lanes wait as deep as C0.2, however short the wait (TWOLANE_WAIT=deep)."),
    };
    let told = told.map(|told| {
        ABOUT
            .info("waits.told", told)
            .why("The environment of the service has to say so, too.")
            .mend("unset TWOLANE_WAIT")
    });
    [Some(finding), told].into_iter().flatten().collect()
}

fn pause(family: Family) -> Finding {
    match family {
        Family::Arm => ABOUT
            .ok("waits.pause", "Lanes wait with ISB, which every such cpu has.")
            .why("It takes about as long as PAUSE does on x86.")
            .unseen(),
        Family::Intel | Family::Amd | Family::OtherX86 => ABOUT
            .ok("waits.pause", "Lanes wait with PAUSE, which every cpu has.")
            .why("How long one takes differs by model, from 10 to 190 cycles: it is measured when lanes start."),
        Family::Unknown => ABOUT
            .info("waits.pause", "Nothing says what cpu this is.")
            .why("Lanes wait with the standard library's spin hint; how long it takes is measured when lanes start."),
    }
}

/// What lanes do with an instruction that is there.
const TRIED_FIRST: &str = "Lanes doze with them from about 100 ns on, after a lane has seen at its start that they really wait; else with PAUSE. \
     TWOLANE_WAIT=pause does without.";

fn waitpkg() -> Finding {
    ABOUT.info("waits.waitpkg", "TPAUSE, UMONITOR and UMWAIT are there.").why(TRIED_FIRST).unseen()
}

fn mwaitx() -> Finding {
    ABOUT.info("waits.mwaitx", "MONITORX and MWAITX are there.").why(TRIED_FIRST).unseen()
}

fn no_waitpkg(seen: &Seen) -> Finding {
    let finding = ABOUT.info("waits.no-waitpkg", "TPAUSE, UMONITOR and UMWAIT are not there, or hidden.").why(
        "Intel's newer cpus have them (Alder Lake, 4th-generation Xeons and later), but hypervisors often take them \
         away, and then they trap. PAUSE serves instead; nothing is wrong.",
    );
    match seen.hypervisor() {
        Some(_) => finding.mend("qemu-system-x86_64 ... -cpu host,+waitpkg -overcommit cpu-pm=on"),
        None => finding,
    }
}

fn no_mwaitx(seen: &Seen) -> Finding {
    let finding = ABOUT
        .info("waits.no-mwaitx", "MONITORX and MWAITX are not there, or hidden.")
        .why("Hypervisors often take them away, and then they trap. PAUSE serves instead; nothing is wrong.");
    match seen.hypervisor() {
        Some(_) => finding.mend("qemu-system-x86_64 ... -cpu host"),
        None => finding,
    }
}

/// The limit that Linux sets when it starts, in ticks of the TSC: 30 to 50 us.
const MAX_TIME_DEFAULT: i64 = 100_000;

/// Below this many ticks (about 1 us) a limited wait is hardly longer than a few PAUSEs.
const MAX_TIME_SHORT: i64 = 2_000;

/// The OS's limits on UMWAIT and TPAUSE, which hold for the whole machine.
fn umwait_limits(seen: &Seen) -> Vec<Finding> {
    let restore = format!("echo {MAX_TIME_DEFAULT} > /{MAX_TIME}");
    let time = match seen.tree.number(MAX_TIME) {
        Some(0) => ABOUT
            .warning("umwait.unlimited", "The OS does not limit how long UMWAIT and TPAUSE wait (max_time is 0).")
            .why(
                "Their deadline is a reading of the TSC. If the TSC jumps, as it may when a virtual machine is moved, \
                 nothing but an interrupt ends the wait. The limit is the machine's, for all programs.",
            )
            .mend(restore),
        Some(ticks) if ticks < MAX_TIME_SHORT => ABOUT
            .info("umwait.short", format!("The OS ends UMWAIT and TPAUSE after {ticks} ticks of the TSC."))
            .why("So short a wait gives the sibling hardly more than PAUSE does.")
            .mend(restore),
        Some(ticks) => {
            ABOUT.ok("umwait.limit", format!("The OS ends UMWAIT and TPAUSE after {ticks} ticks of the TSC."))
        }
        None => ABOUT.info("umwait.unread", format!("/{MAX_TIME} cannot be read.")).why(
            "The OS's limit on UMWAIT and TPAUSE is unknown. Linux has the file from 5.4 on, where the cpu has them.",
        ),
    };
    let mut findings = vec![time.unseen()];
    if seen.tree.number(ENABLE_C02) == Some(0) {
        let finding = ABOUT.warning("umwait.no-c02", "The OS forbids the deeper wait C0.2 (enable_c02 is 0).");
        findings.push(
            finding
                .why("C0.2 is the wait that is documented to speed up the sibling; C0.1, which serves instead, is not.")
                .mend(format!("echo 1 > /{ENABLE_C02}"))
                .unseen(),
        );
    }
    findings
}
