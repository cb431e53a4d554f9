//! The signal handler: what is carried out, and how, without anything that a handler must not do. It allocates nothing,
//! takes no lock, calls nothing of libc's but thin wrappers around system calls, and keeps `errno`.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::behind::Disposition;
use super::decode::{Decoded, How, LENGTH_MAX, Op, Store, decode};
use super::execute::{Action, End, Model, Registers, Wait, execute, flags_after};
use super::memory::{first_page_end, is_readable, read_64, segment_base, store_64};
use super::submit::{self, Addresses, Deed, Place};
use super::{Behaviour, Counts, Fault, Moment, behind, maps, portals};
use crate::arch::ticks;
use crate::offload::dsa::abi::Descriptor;
use crate::sim::dsa::Enqcmd;

/// Held by the scene that lasts.
pub(super) static ONE_SCENE: Mutex<()> = Mutex::new(());

/// Installs the handler of what a cpu does not know, unless it is.
pub(super) fn install() -> io::Result<()> {
    static ONCE: OnceCell<()> = OnceCell::new();
    ONCE.get_or_try_init(|| install_one(libc::SIGILL, &HAS_SIGILL, on_sigill)).copied()
}

/// Whether a signal's handler is this file's.
static HAS_SIGILL: AtomicBool = AtomicBool::new(false);
static HAS_SIGSEGV: AtomicBool = AtomicBool::new(false);
static HAS_SIGBUS: AtomicBool = AtomicBool::new(false);

/// Whether the traps handle a signal, as far as they are installed. Async-signal-safe.
pub(super) fn handles(signal: c_int) -> bool {
    // Acquire: what is behind the handler. Partner: the Release in `install_one`.
    match signal {
        libc::SIGILL => HAS_SIGILL.load(Acquire),
        libc::SIGSEGV => HAS_SIGSEGV.load(Acquire),
        libc::SIGBUS => HAS_SIGBUS.load(Acquire),
        _ => false,
    }
}

/// Installs the handlers of what goes to portals, unless they are.
pub(super) fn install_for_portals() -> io::Result<()> {
    static ONCE: OnceCell<()> = OnceCell::new();
    ONCE.get_or_try_init(|| {
        install_one(libc::SIGSEGV, &HAS_SIGSEGV, on_fault)?;
        install_one(libc::SIGBUS, &HAS_SIGBUS, on_fault)
    })
    .copied()
}

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn install_one(signal: c_int, has: &AtomicBool, handler: Handler) -> io::Result<()> {
    // Relaxed: one thread at a time is here.
    if has.load(Relaxed) {
        return Ok(()); // a call before this one got half way
    }
    // Asked for first: a trap may come as soon as the handler is in.
    let before = action_of(signal)?;
    let mask = word(&before.sa_mask);
    behind::replace(signal, Disposition { handler: before.sa_sigaction, flags: before.sa_flags, mask })?;
    // SAFETY: all zeroes is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // NODEFER: a handler that calls on may raise the signal itself. ONSTACK: the stack may be what is short.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    // Others wait until the instruction is over, as they would for one of the cpu's. Their handlers would find the alternate stack in use, and a trap
    // of their own none left on it. Faults cannot wait: a fault in here has to be told.
    const NEVER_PUT_OFF: [c_int; 6] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
    // SAFETY: fills a set, and takes signals that exist out of it.
    unsafe {
        libc::sigfillset(&mut action.sa_mask);
        for signal in NEVER_PUT_OFF {
            libc::sigdelset(&mut action.sa_mask, signal);
        }
    }
    // SAFETY: the action is complete and its handler has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(signal, &action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Release: partner of the Acquires in `handles`.
    has.store(true, Release);
    Ok(())
}

/// The signals of a set, a bit each: what the kernel knows of it.
fn word(set: &libc::sigset_t) -> u64 {
    const { assert!(size_of::<libc::sigset_t>() >= size_of::<u64>()) };
    // SAFETY: a set begins with the kernel's word of 64 signals, whatever libc has behind it.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}

/// A signal's bit.
const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Changes the thread's mask, by number: a library in between (that of `sim::preload`) may keep signals of the traps out of masks. What is asked of it here it has to
/// be spared.
fn mask(how: c_int, set: u64) {
    // SAFETY: the kernel reads one word, of the size that it is told.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, ptr::null_mut::<u64>(), size_of::<u64>()) };
}

fn action_of(signal: c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only asks; `action` has room for the answer.
    match unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } {
        // SAFETY: the call succeeded, so it has written the action.
        0 => Ok(unsafe { action.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

// How the cpu behaves: words that a scene writes and the handler reads. Relaxed throughout: a trap sees the old behaviour or the
// new one, and the thread that turns it sees its own.
static OS_LIMIT: AtomicU64 = AtomicU64::new(0);
static OVERSHOOT: AtomicU64 = AtomicU64::new(0);
static GRACE: AtomicU64 = AtomicU64::new(0);
static SPURIOUS_EVERY: AtomicU32 = AtomicU32::new(0);
static INSTANT: AtomicBool = AtomicBool::new(false);
static DEAF: AtomicBool = AtomicBool::new(false);
/// Waits so far, for every `n`th.
static WAITS: AtomicU32 = AtomicU32::new(0);

pub(super) fn set(behaviour: Behaviour) {
    OS_LIMIT.store(behaviour.os_limit, Relaxed);
    OVERSHOOT.store(behaviour.overshoot, Relaxed);
    GRACE.store(behaviour.grace, Relaxed);
    SPURIOUS_EVERY.store(behaviour.spurious_every, Relaxed);
    INSTANT.store(behaviour.instant, Relaxed);
    DEAF.store(behaviour.deaf, Relaxed);
}

fn model() -> Model {
    let every = SPURIOUS_EVERY.load(Relaxed);
    Model {
        os_limit: OS_LIMIT.load(Relaxed),
        instant: INSTANT.load(Relaxed),
        spurious: every > 0 && WAITS.load(Relaxed) % every == 0,
        hears: !DEAF.load(Relaxed),
        overshoot: OVERSHOOT.load(Relaxed),
        grace: GRACE.load(Relaxed),
    }
}

/// A new scene: nothing counted, nothing planned.
pub(super) fn restart(behaviour: Behaviour) {
    forget_intrusion();
    set(behaviour);
    // Relaxed: statistics, here and below.
    for counter in &COUNTERS {
        counter.store(0, Relaxed);
    }
}

/// The counters, in the order of [`Count`].
static COUNTERS: [AtomicU64; Count::N] = [const { AtomicU64::new(0) }; Count::N];

#[derive(Clone, Copy)]
enum Count {
    Tpause,
    Umonitor,
    Umwait,
    Monitorx,
    Mwaitx,
    AtOnce,
    ByDeadline,
    ByOsLimit,
    ByStore,
    ByNothing,
    ByInterrupt,
    Endless,
    Light,
    LongestAsked,
    Faults,
    PassedOn,
    Movdir64b,
    Stores,
    Enqcmd,
    EnqcmdRetry,
}

impl Count {
    const N: usize = Self::EnqcmdRetry as usize + 1;

    fn one(self) {
        COUNTERS[self as usize].fetch_add(1, Relaxed);
    }
    fn at_least(self, value: u64) {
        COUNTERS[self as usize].fetch_max(value, Relaxed);
    }
    fn read(self) -> u64 {
        COUNTERS[self as usize].load(Relaxed)
    }
}

pub(super) fn counts() -> Counts {
    Counts {
        tpause: Count::Tpause.read(),
        umonitor: Count::Umonitor.read(),
        umwait: Count::Umwait.read(),
        monitorx: Count::Monitorx.read(),
        mwaitx: Count::Mwaitx.read(),
        at_once: Count::AtOnce.read(),
        by_deadline: Count::ByDeadline.read(),
        by_os_limit: Count::ByOsLimit.read(),
        by_store: Count::ByStore.read(),
        by_nothing: Count::ByNothing.read(),
        by_interrupt: Count::ByInterrupt.read(),
        endless: Count::Endless.read(),
        light: Count::Light.read(),
        longest_asked: Count::LongestAsked.read(),
        faults: Count::Faults.read(),
        passed_on: Count::PassedOn.read(),
        movdir64b: Count::Movdir64b.read(),
        stores: Count::Stores.read(),
        enqcmd: Count::Enqcmd.read(),
        enqcmd_retry: Count::EnqcmdRetry.read(),
    }
}

/// The store that is planned: its moment (0 for none), where, and what.
static PLANNED: AtomicU8 = AtomicU8::new(0);
static PLANNED_WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
static PLANNED_VALUE: AtomicU32 = AtomicU32::new(0);

fn code(moment: Moment) -> u8 {
    match moment {
        Moment::BeforeArm => 1,
        Moment::AfterArm => 2,
        Moment::InWait => 3,
    }
}

pub(super) fn intrude(moment: Moment, word: &'static AtomicU32, value: u32) {
    forget_intrusion();
    // Relaxed: published by the store of the moment.
    PLANNED_WORD.store(ptr::from_ref(word).cast_mut(), Relaxed);
    PLANNED_VALUE.store(value, Relaxed);
    // Release: publishes word and value. Partner: the exchange in `intrude_at`.
    PLANNED.store(code(moment), Release);
}

pub(super) fn forget_intrusion() {
    // Relaxed: whoever took it already stores it, as if it had come a moment earlier.
    PLANNED.store(0, Relaxed);
}

/// Carries the planned store out, if this is its moment.
fn intrude_at(moment: Moment) {
    // Acquire: partner is the store in `intrude`. Only one thread gets it.
    if PLANNED.compare_exchange(code(moment), 0, Acquire, Relaxed).is_ok() {
        let word = PLANNED_WORD.load(Relaxed);
        // SAFETY: a moment is set only after a word that lives for ever.
        let word = unsafe { &*word };
        // Release: it stands for a producer's.
        word.store(PLANNED_VALUE.load(Relaxed), Release);
    }
}

/// A monitor: the line's address, and what was there.
#[derive(Clone, Copy)]
struct Monitor {
    line: *const u64,
    seen: Line,
}

/// A line of 64 bytes.
type Line = [u64; 8];

thread_local! {
    /// The thread's monitor, as if the thread had a cpu for itself. Const and without a destructor, so that reading it is reading
    /// memory.
    static MONITOR: Cell<Option<Monitor>> = const { Cell::new(None) };
    /// A fault that the thread is about to get from this handler. Const and without a destructor, as above.
    static RAISED: Cell<Option<Raised>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Raised {
    at: u64,
    code: c_int,
    address: u64,
}

/// The general registers by number, as the kernel keeps them.
const GENERAL: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The context's beginning and end of every handler: `errno` is kept.
fn keeping_errno(context: *mut c_void, body: impl FnOnce(&mut ucontext_t)) {
    // SAFETY: the thread's own, always there.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel hands a context to handlers that are installed with SA_SIGINFO, alone for as long as they run.
    body(unsafe { &mut *context.cast::<ucontext_t>() });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

extern "C" fn on_sigill(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    keeping_errno(context, |cpu| {
        let at = instruction(cpu);
        let decoded = decode(|n| code_byte(at, n));
        let is_ours = match &decoded {
            Some(decoded @ Decoded { op: Op::Submit(how, store), .. }) => {
                submit(*how, store, decoded, cpu, Cause::Unknown)
            }
            Some(decoded) => carry_out(decoded, cpu),
            None => false,
        };
        if !is_ours {
            pass_on(signal, info, cpu);
        }
    });
}

/// SIGSEGV and SIGBUS: what went to a portal is carried out, and nothing else.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    keeping_errno(context, |cpu| {
        if !fault_is_ours(signal, info, cpu) {
            pass_on(signal, info, cpu);
        }
    });
}

/// `si_code` for #GP, for an address that is not mapped, one that is protected, and for one beyond a file's end.
const SI_KERNEL: c_int = 0x80;
const SEGV_MAPERR: c_int = 1;
const SEGV_ACCERR: c_int = 2;
const BUS_ADRERR: c_int = 2;

/// Carries the instruction out, if it is one that submits and has met a portal. Everything else is told apart before a byte of code is looked at,
/// since that may be what is missing.
fn fault_is_ours(signal: c_int, info: *const siginfo_t, cpu: &mut ucontext_t) -> bool {
    // SAFETY: the kernel hands information to handlers that are installed with SA_SIGINFO; for these signals it has an address (which means nothing
    // where another process has sent it, and then the code says so).
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    let at = instruction(cpu);
    // A fault that this handler raised itself is somebody else's to handle.
    if RAISED.take() == Some(Raised { at, code, address }) || !portals::has_any() {
        return false;
    }
    let cause = match (signal, code) {
        (libc::SIGSEGV, SI_KERNEL) => Cause::GeneralProtection,
        (libc::SIGSEGV, SEGV_MAPERR | SEGV_ACCERR) if portals::has_page(address) => Cause::Access,
        (libc::SIGBUS, BUS_ADRERR) if portals::has_files() => Cause::Access,
        _ => return false,
    };
    if !is_readable(at) {
        return false;
    }
    match decode(|n| code_byte(at, n)) {
        Some(decoded @ Decoded { op: Op::Submit(how, store), .. }) => submit(how, &store, &decoded, cpu, cause),
        _ => false,
    }
}

/// Why an instruction is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The cpu does not know it.
    Unknown,
    /// #GP: an ENQCMD without a PASID, or a fault of the program's.
    GeneralProtection,
    /// An access to a page that lets nobody.
    Access,
}

/// Carries out an instruction that moves 64 bytes. `false`: nothing was done, it is not ours.
fn submit(how: How, store: &Store, decoded: &Decoded, cpu: &mut ucontext_t, cause: Cause) -> bool {
    let registers = registers(cpu);
    let base = decoded.segment.map_or(0, segment_base);
    let addresses = submit::addresses(decoded, store, &registers, instruction(cpu), base);
    // What the cpu itself found wrong is passed on as it came.
    if let Err(fault) = submit::check(how, addresses) {
        return if cause == Cause::Unknown { raise(fault, cpu) } else { false };
    }
    if cause == Cause::GeneralProtection && how != How::Enqcmd {
        return false;
    }
    let Addresses { to, from } = addresses;
    let bytes = match read_64(from) {
        Ok(bytes) => bytes,
        // The access that trapped may be this one.
        Err(_) if cause == Cause::Access => return false,
        Err(address) => return raise(Fault::Page(address), cpu),
    };
    let place = portals::at(to);
    if cause == Cause::Access && matches!(place, Place::Memory | Place::Unknown) {
        return false;
    }
    let descriptor = Descriptor::from_bytes(&bytes);
    match submit::decide(how, place, to, &bytes) {
        Deed::Ask(portal) => {
            Count::Enqcmd.one();
            answer(portal.front().enqcmd(&descriptor) == Enqcmd::Retry, cpu);
        }
        Deed::Refuse => {
            Count::Enqcmd.one();
            answer(true, cpu);
        }
        Deed::Post(portal) => {
            Count::Movdir64b.one();
            portal.front().movdir64b(&descriptor);
        }
        Deed::Store => {
            Count::Stores.one();
            // SAFETY: the program's own store: the address is aligned (checked above) and was mapped for writing a moment ago. If it is not any more, the
            // store faults, as the program's would.
            unsafe { store_64(to, &bytes) };
        }
        Deed::Fault(fault) => return raise(fault, cpu),
        Deed::NotOurs => return false,
    }
    step_over(decoded, cpu);
    true
}

/// ENQCMD's answer.
fn answer(retry: bool, cpu: &mut ucontext_t) {
    if retry {
        Count::EnqcmdRetry.one();
    }
    let flags = &mut cpu.uc_mcontext.gregs[libc::REG_EFL as usize];
    *flags = submit::flags_after(*flags as u64, retry) as i64;
}

fn instruction(cpu: &ucontext_t) -> u64 {
    cpu.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}

fn step_over(decoded: &Decoded, cpu: &mut ucontext_t) {
    cpu.uc_mcontext.gregs[libc::REG_RIP as usize] += i64::from(decoded.length);
}

fn registers(cpu: &ucontext_t) -> Registers {
    Registers { general: GENERAL.map(|register| cpu.uc_mcontext.gregs[register as usize] as u64) }
}

/// A byte of the instruction.
fn code_byte(at: u64, n: usize) -> Option<u8> {
    debug_assert!(n < LENGTH_MAX);
    let address = at.wrapping_add(n as u64);
    // The cpu has fetched the byte that decides what it is, if not those behind it.
    if address >= first_page_end(at) && !is_readable(address) {
        return None;
    }
    // SAFETY: either in a page that the cpu has fetched the instruction's first byte from (or that was just seen to be readable, for faults), or seen to
    // be readable now; memory that can be executed but not read is not made by any compiler or loader here.
    Some(unsafe { ptr::with_exposed_provenance::<u8>(address as usize).read_volatile() })
}

/// Carries out a wait instruction. `false`: it is not ours.
fn carry_out(decoded: &Decoded, cpu: &mut ucontext_t) -> bool {
    let registers = registers(cpu);
    let armed = MONITOR.get().is_some();
    let action = execute(decoded, &registers, ticks(), armed, &model());
    if action == Action::NotOurs {
        return false;
    }
    count_executed(decoded.op, &registers);
    match action {
        Action::Arm { address } => {
            if let Err(fault) = arm(address) {
                return raise(fault, cpu);
            }
        }
        Action::Fault(fault) => return raise(fault, cpu),
        Action::Wait(wait) => {
            let end = sleep(&wait);
            if wait.flags {
                let flags = &mut cpu.uc_mcontext.gregs[libc::REG_EFL as usize];
                *flags = flags_after(*flags as u64, end == Ended::Time(End::OsLimit)) as i64;
            }
        }
        Action::NotOurs => {} // passed on above
    }
    step_over(decoded, cpu);
    true
}

fn count_executed(op: Op, registers: &Registers) {
    let (count, state) = match op {
        Op::Tpause { state } => (Count::Tpause, Some(state)),
        Op::Umwait { state } => (Count::Umwait, Some(state)),
        Op::Umonitor { .. } => (Count::Umonitor, None),
        Op::Monitorx => (Count::Monitorx, None),
        Op::Mwaitx => (Count::Mwaitx, None),
        Op::Submit(..) => return, // counted by what it does
    };
    count.one();
    if state.is_some_and(|register| registers.general[usize::from(register)] & 1 == 1) {
        Count::Light.one();
    }
}

fn arm(address: u64) -> Result<(), Fault> {
    intrude_at(Moment::BeforeArm);
    if !is_readable(address) {
        return Err(Fault::Page(address));
    }
    let line = ptr::with_exposed_provenance::<u64>(address as usize & !(size_of::<Line>() - 1));
    // SAFETY: a line does not cross a page, and a byte of it was readable.
    let seen = unsafe { read_line(line) };
    MONITOR.set(Some(Monitor { line, seen }));
    intrude_at(Moment::AfterArm);
    Ok(())
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Time(End),
    Store,
}

fn sleep(wait: &Wait) -> Ended {
    /// Beyond 1 ms or so, others may run meanwhile, which makes the end of the wait as inexact as they like.
    const YIELD_TICKS: u64 = 2_500_000;
    WAITS.fetch_add(1, Relaxed);
    match wait.asked {
        Some(ticks) => Count::LongestAsked.at_least(ticks),
        None => Count::Endless.one(),
    }
    intrude_at(Moment::InWait);
    let monitor = MONITOR.take().filter(|_| wait.monitored);
    let stored = |monitor: Monitor| {
        // SAFETY: the line was readable when it was armed; whoever waits on a line keeps it mapped (see the module's words).
        unsafe { read_line(monitor.line) != monitor.seen }
    };
    let end = loop {
        if wait.end == End::AtOnce {
            break Ended::Time(End::AtOnce);
        }
        if monitor.is_some_and(stored) {
            break Ended::Store;
        }
        let now = ticks();
        if now >= wait.until {
            break Ended::Time(wait.end);
        }
        if wait.until - now > YIELD_TICKS {
            // SAFETY: no arguments, and nothing to be wrong about.
            unsafe { libc::sched_yield() };
        } else {
            std::hint::spin_loop();
        }
    };
    match end {
        Ended::Store => Count::ByStore,
        Ended::Time(End::AtOnce) => Count::AtOnce,
        Ended::Time(End::Deadline) => Count::ByDeadline,
        Ended::Time(End::OsLimit) => Count::ByOsLimit,
        Ended::Time(End::Interrupt) => Count::ByInterrupt,
        Ended::Time(End::Spurious) => Count::ByNothing,
    }
    .one();
    end
}

/// What a line holds. By instructions of its own, since others write there, and in words of any width.
///
/// # Safety
/// - `line` is readable, and aligned to 64.
unsafe fn read_line(line: *const u64) -> Line {
    let mut words = Line::default();
    for (n, word) in words.iter_mut().enumerate() {
        // SAFETY: within the line; an aligned load of the cpu's, which a store beside it cannot tear.
        unsafe {
            std::arch::asm!("mov {word}, qword ptr [{at}]", word = out(reg) *word, at = in(reg) line.add(n),
                options(nostack, readonly, preserves_flags));
        }
    }
    words
}

/// Raises what the kernel would send for a fault of the instruction: SIGSEGV, at the instruction. It is blocked until the
/// handler returns, so that it finds the thread where the fault was. Always `true`: the instruction is dealt with.
fn raise(fault: Fault, cpu: &mut ucontext_t) -> bool {
    Count::Faults.one();
    /// What the kernel fills in for a fault: the beginning of `siginfo_t`.
    #[repr(C)]
    struct FaultInfo {
        signal: c_int,
        errno: c_int,
        code: c_int,
        address: u64,
        rest: [u64; 13],
    }
    const { assert!(size_of::<FaultInfo>() == size_of::<siginfo_t>()) };
    let (code, address) = match fault {
        Fault::GeneralProtection => (SI_KERNEL, 0),
        Fault::Page(address) if maps::find(address).is_ok_and(|mapping| mapping.is_some()) => (SEGV_ACCERR, address),
        Fault::Page(address) => (SEGV_MAPERR, address),
    };
    let info = FaultInfo { signal: libc::SIGSEGV, errno: 0, code, address, rest: [0; 13] };
    let ignored = action_of(libc::SIGSEGV).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN);
    // SAFETY: asks whether a signal is in a set that the kernel wrote.
    let blocked = unsafe { libc::sigismember(&cpu.uc_sigmask, libc::SIGSEGV) } == 1;
    if ignored || blocked {
        // A fault cannot be ignored or put off: the kernel kills instead.
        die_of(libc::SIGSEGV);
        // SAFETY: takes a signal out of a set that the kernel wrote.
        unsafe { libc::sigdelset(&mut cpu.uc_sigmask, libc::SIGSEGV) };
    }
    // Until the return from the handler, which puts the mask back.
    mask(libc::SIG_BLOCK, bit(libc::SIGSEGV));
    // SAFETY: the information is laid out as the kernel's and lives through the call, and a thread may send itself any.
    unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), libc::SIGSEGV, &raw const info)
    };
    // For the handler here, which is the next to get it if nobody has put another in its place.
    RAISED.set(Some(Raised { at: instruction(cpu), code, address }));
    true
}

/// What is not ours goes where it would have gone.
fn pass_on(signal: c_int, info: *mut siginfo_t, cpu: &mut ucontext_t) {
    Count::PassedOn.one();
    let Disposition { handler, flags, mask: while_it_runs } = behind::disposition(signal);
    if flags & libc::SA_RESETHAND != 0 {
        let _ = behind::replace(signal, Disposition::default()); // which is always there
    }
    // What this handler puts off, that one may not want to; and the other way round. Signals of the traps but its own stay open: it may submit.
    let own = if flags & libc::SA_NODEFER == 0 { bit(signal) } else { 0 };
    mask(libc::SIG_SETMASK, word(&cpu.uc_sigmask) | while_it_runs & !TRAPS | own);
    // SAFETY: the kernel's information, for as long as the handler runs.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match (handler, flags) {
        (libc::SIG_IGN, _) if was_sent => {}
        (libc::SIG_DFL, _) if was_sent => {
            die_of(signal);
            // It comes when this returns: until then it is blocked (see above: no flags go with the default).
            // SAFETY: as above; a thread may send itself any.
            unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info) };
        }
        // The instruction is executed again when this returns, and then kills. (A fault that is ignored does, too.)
        (libc::SIG_DFL | libc::SIG_IGN, _) => die_of(signal),
        (handler, flags) if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: it was installed as a handler of three arguments.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
            handler(signal, info, ptr::from_mut(cpu).cast());
        }
        (handler, _) => {
            // SAFETY: it was installed as a handler of one argument.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

const TRAPS: u64 = bit(libc::SIGILL) | bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// From now on the signal kills the process. By number, as [`mask`]: what is behind the traps is not meant.
fn die_of(signal: c_int) {
    /// The kernel's `struct sigaction` of x86-64: handler, flags, restorer, mask.
    static DEFAULT: [u64; 4] = [0; 4];
    // SAFETY: all zeroes is the default action, which needs no restorer; the old one is not asked for.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, &raw const DEFAULT, ptr::null_mut::<u64>(), size_of::<u64>())
    };
}
