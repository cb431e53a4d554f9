//! One thing worth knowing: how grave it is, what it means, and what to type.

use std::fmt;

/// How much a finding matters. Ordered from the least to the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing is wrong. Absent hardware is of this kind.
    Info,
    /// Lanes work, but worse than they could, or worse than somebody may expect.
    Warning,
    /// A runtime with default options cannot be built.
    Error,
}

impl Severity {
    /// In one lower-case word, as in the program's JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Topic {
    /// Cpus, cores, siblings, hypervisor.
    Machine,
    /// What this process may use, and the lanes that come of it.
    Process,
    /// Cpus that the kernel keeps ordinary tasks, ticks and callbacks off.
    Isolation,
    /// Instructions that wait, and the limits the OS puts on them.
    Waits,
    /// Reading the time.
    Clock,
    /// The kernel's scheduler.
    Scheduler,
    /// Work queues of data-streaming accelerators.
    WorkQueues,
    /// What this code was never run on.
    Unseen,
}

impl Topic {
    /// In one or two lower-case words, as in the program's JSON and as a heading.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Process => "process",
            Self::Isolation => "isolation",
            Self::Waits => "waits",
            Self::Clock => "clock",
            Self::Scheduler => "scheduler",
            Self::WorkQueues => "work queues",
            Self::Unseen => "never seen",
        }
    }
}

/// One thing worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// A name for programs that stays the same when the words change: `siblings.hidden`. Several devices or queues of
    /// which the same is to be said share one.
    pub id: &'static str,
    /// What it is about.
    pub topic: Topic,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, in one line.
    pub what: String,
    /// What it means for lanes. May be empty.
    pub why: String,
    /// What to type or edit, a line each, to be carried out in order; a line that begins with `or: ` is an alternative
    /// to the one before. Empty where nothing is to be mended, or nothing can be.
    pub remedy: Vec<String>,
    /// Whether twolane was run on such hardware. `false`: what is said of it comes from manuals, and the code for it was
    /// run on models only.
    pub seen_on_hardware: bool,
}

/// Makes findings of one topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct About(pub Topic);

impl About {
    pub(super) fn ok(self, id: &'static str, what: impl Into<String>) -> Finding {
        self.say(id, Severity::Ok, what)
    }

    pub(super) fn info(self, id: &'static str, what: impl Into<String>) -> Finding {
        self.say(id, Severity::Info, what)
    }

    pub(super) fn warning(self, id: &'static str, what: impl Into<String>) -> Finding {
        self.say(id, Severity::Warning, what)
    }

    pub(super) fn error(self, id: &'static str, what: impl Into<String>) -> Finding {
        self.say(id, Severity::Error, what)
    }

    fn say(self, id: &'static str, severity: Severity, what: impl Into<String>) -> Finding {
        let Self(topic) = self;
        Finding {
            id,
            topic,
            severity,
            what: what.into(),
            why: String::new(),
            remedy: Vec::new(),
            seen_on_hardware: true,
        }
    }
}

impl Finding {
    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds a line to the remedy.
    pub(super) fn mend(mut self, line: impl Into<String>) -> Self {
        self.remedy.push(line.into());
        self
    }

    /// Adds lines to the remedy.
    pub(super) fn mend_all<L: Into<String>>(mut self, lines: impl IntoIterator<Item = L>) -> Self {
        self.remedy.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Nobody ran twolane on this.
    pub(super) fn unseen(mut self) -> Self {
        self.seen_on_hardware = false;
        self
    }
}
