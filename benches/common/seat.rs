//! A thread of a reference: bound to one cpu, blocked until it is given something to do.
//!
//! While the library is measured, the references' threads sit blocked on the same cpus, and the other way round.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::cpu;

type Job = Box<dyn FnOnce() + Send>;

/// See the module's documentation. Ends with its owner.
pub struct Seat {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    id: i32,
}

/// What a seat was given to do.
pub struct Working<R>(Receiver<R>);

impl Seat {
    /// A thread on this cpu.
    pub fn on(cpu: usize) -> Result<Self, String> {
        let (jobs, inbox) = channel::<Job>();
        let (tell, hear) = channel();
        let thread = std::thread::spawn(move || {
            let pinned = cpu::pin(cpu).map(|pinned| (pinned, cpu::thread_id()));
            let _pinned = match pinned {
                Ok((pinned, id)) => {
                    let _ = tell.send(Ok(id)); // the other end waits below
                    pinned
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            inbox.into_iter().for_each(|job| job());
        });
        let id = hear.recv().map_err(|_| "a thread of a reference ended at its start".to_owned())??;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), id })
    }

    /// The kernel's number of the thread.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Does `work` on the seat's thread, while the caller goes on.
    pub fn start<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Working<R> {
        let (tell, hear) = channel();
        let job: Job = Box::new(move || {
            let _ = tell.send(work()); // nobody listens if the figure was given up
        });
        self.jobs.as_ref().map(|jobs| jobs.send(job));
        Working(hear)
    }

    /// Does `work` on the seat's thread, while the caller blocks.
    pub fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, String> {
        self.start(work).wait()
    }
}

impl<R> Working<R> {
    /// Blocks until it is done.
    pub fn wait(self) -> Result<R, String> {
        self.0.recv().map_err(|_| "a reference's thread panicked".to_owned())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been reported
        }
    }
}
