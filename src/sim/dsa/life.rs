//! How does a queue, or the device, die and come back? What was in flight vanishes without a record (SPEC 3.10, 5.7).

use super::config::QueueMode;
use super::queue::{Entry, QueueState};
use super::state::{DeviceState, Origin, Running, Stage, State, operations_in};
use super::trace::Loss;

impl State {
    /// Takes everything of a queue away, as an abort does.
    pub(crate) fn disable_queue(&mut self, queue: usize) {
        self.queues[queue].state = QueueState::Disabled;
        for Entry { id, client, descriptor, .. } in self.take_waiting(queue) {
            let origin = Origin { id, child: None, queue, client };
            self.lose(origin, &descriptor, operations_in(&descriptor), Loss::Vanished);
        }
        let (gone, stay) =
            std::mem::take(&mut self.running).into_iter().partition(|running| running.origin.queue == queue);
        self.running = stay;
        self.vanish(gone);
    }

    fn vanish(&mut self, gone: Vec<Running>) {
        for Running { origin, descriptor, stage, unheard, .. } in gone {
            // Children under way count with their batch.
            if origin.child.is_some() {
                continue;
            }
            let operations = match &stage {
                Stage::Batch(batch, _) => batch.unreported(),
                _ => unheard,
            };
            self.lose(origin, &descriptor, operations, Loss::Vanished);
        }
    }

    /// Lets a queue finish what it has, and take nothing more.
    pub(crate) fn drain_queue(&mut self, queue: usize) {
        if self.queues[queue].state == QueueState::Enabled {
            self.queues[queue].state = QueueState::Draining;
        }
        self.settle(queue);
    }

    /// A new life: whoever opened it before has a dead portal.
    pub(crate) fn enable_queue(&mut self, queue: usize) {
        if self.queues[queue].state != QueueState::Disabled {
            return;
        }
        self.queues[queue].state = QueueState::Enabled;
        self.queues[queue].generation += 1;
        self.queues[queue].holder = None;
    }

    pub(crate) fn stop(&mut self, life: DeviceState) {
        self.life = life;
        for queue in 0..self.queues.len() {
            self.disable_queue(queue);
        }
        let now = self.now;
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.reset(now);
        }
    }

    pub(crate) fn start(&mut self) {
        self.life = DeviceState::Enabled;
        for queue in 0..self.queues.len() {
            self.enable_queue(queue);
        }
    }

    /// Gives a client's queue back. What it submitted goes on; nothing of it is in the way of later clients.
    pub(crate) fn close(&mut self, client: usize) {
        let queue = self.clients[client].queue;
        self.clients[client].is_open = false;
        let dedicated = self.config.queues[queue].mode == QueueMode::Dedicated;
        if dedicated && self.queues[queue].holder == Some(client) {
            self.queues[queue].holder = None;
        }
    }

    /// Whether nothing of a client's is queued or under way.
    pub(crate) fn is_drained(&self, client: usize) -> bool {
        let queue = self.clients[client].queue;
        self.queues[queue].waiting.iter().all(|entry| entry.client != client)
            && self.running.iter().all(|running| running.origin.client != client)
    }
}
