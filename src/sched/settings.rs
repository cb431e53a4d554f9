//! What the lanes are told: the builder's knobs, checked, in the form in which lanes use them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::placement::LaneInfo;
use crate::wait::policy::Settings as WaitSettings;

/// A hook around the life of a lane.
pub(crate) type LaneHook = Arc<dyn Fn(&LaneInfo) + Send + Sync>;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct LaneSettings {
    pub wait: WaitSettings,
    /// Tasks that may wait in one queue.
    pub backlog_max: usize,
    /// How long a compute lane stays awake for the next hand-off at most.
    pub linger_max: Duration,
    /// Cpus' worth of time that the control group grants, and cpus that the process may use.
    pub quota: Option<f64>,
    pub cpus: usize,
    /// How long a quiet peek may keep a lane from calling a poller.
    pub peek_refresh: Duration,
    pub on_lane_start: Option<LaneHook>,
    pub on_lane_stop: Option<LaneHook>,
}

impl fmt::Debug for LaneSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneSettings")
            .field("wait", &self.wait)
            .field("backlog_max", &self.backlog_max)
            .field("linger_max", &self.linger_max)
            .field("peek_refresh", &self.peek_refresh)
            .finish_non_exhaustive()
    }
}
