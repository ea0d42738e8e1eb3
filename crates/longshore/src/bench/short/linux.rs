//! An epoll server on Linux's TCP, over a TAP in a network namespace of its own, with the very same client.
//!
//! One thread steps the client's host, the TAP and Linux in turns, as a world steps its hosts. What Linux takes is read
//! from the time-stamp counter, as a host's cycles are: the server's code with its system calls; and what Linux's TCP does
//! on the packets that come, which is done inside of the write to the TAP. Of each write, what one of a packet takes that
//! Linux makes nothing of is left out: the system call, the copy, the packet buffer. So Linux is not charged for the driver
//! of a NIC, nor for interrupts, sleeps and wake-ups; nor for what it does later, such as timers and memory that is freed
//! after a grace period.

mod epoll;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host::{StackConfig, read_cycles};
use port::tap::Tap;

use super::case::{ByNic, Latency};
use super::client::Client;
use super::messages::Messages;
use super::settings::Settings;
use super::world::{Round, stack_config};
use crate::bench::clock::Undisturbed;
use crate::bench::cycles_per_second;
use crate::bench::row::Taken;
use crate::bench::tap::{TapHost, namespace};
use epoll::Server;

const PORT: u16 = 80;
/// Longest time without a step forward.
const PATIENCE: Duration = Duration::from_secs(60);
/// The link's delay, there and back, in the clock that latency is told by.
const DELAYS: Duration = Duration::from_micros(2);
/// Headers of a segment with a timestamp: what a request is on the wire beside its bytes.
const HEADERS: usize = 66;

/// Linux's thread.
pub struct Linux {
    orders: Option<SyncSender<Order>>,
    answers: Receiver<anyhow::Result<Round>>,
    latencies: Receiver<Latency>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// So many connections with so many transactions.
    Round(u64, u64),
    /// The latencies until now; they begin anew.
    Latency,
}

impl Linux {
    /// Makes the namespace and the TAP in it; both go away with the thread that uses them.
    ///
    /// # Errors
    /// When they can't be made, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn start(settings: &Settings) -> anyhow::Result<Self> {
        let (orders, take_orders) = sync_channel(1);
        let (give_answers, answers) = sync_channel(1);
        let (give_latencies, latencies) = sync_channel(1);
        let (ready, wait_ready) = sync_channel(1);
        let settings = settings.clone();
        let thread = std::thread::Builder::new()
            .name("linux".into())
            .spawn(move || {
                let rig = namespace::enter()
                    .and_then(|()| namespace::open_tap())
                    .and_then(|tap| Rig::new(&settings, tap));
                let mut rig = match rig {
                    Ok(rig) => rig,
                    Err(error) => {
                        // Whoever waits for it has ended only if the process has.
                        let _ = ready.send(Err(error));
                        return;
                    }
                };
                let mut is_heard = ready.send(Ok(())).is_ok();
                while is_heard && let Ok(order) = take_orders.recv() {
                    is_heard = match order {
                        Order::Round(connections, transactions) => give_answers
                            .send(rig.round(connections, transactions))
                            .is_ok(),
                        Order::Latency => {
                            let latency = Latency::of(rig.client.latency());
                            rig.client.latency().reset();
                            give_latencies.send(latency).is_ok()
                        }
                    };
                }
            })
            .context("the system gives no thread")?;
        wait_ready.recv().context("Linux's thread has panicked")??;
        Ok(Self {
            orders: Some(orders),
            answers,
            latencies,
            thread: Some(thread),
        })
    }

    /// Opens connections and has their transactions done.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self, connections: u64, transactions: u64) -> anyhow::Result<Round> {
        self.order(Order::Round(connections, transactions))?;
        self.answers.recv().context("Linux's thread has panicked")?
    }

    /// The latency of all transactions since this was asked last, by a clock that goes on by what Linux takes and by the
    /// delays of a link.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn latency(&mut self) -> anyhow::Result<Latency> {
        self.order(Order::Latency)?;
        self.latencies.recv().context("Linux's thread has panicked")
    }

    fn order(&mut self, order: Order) -> anyhow::Result<()> {
        let orders = self.orders.as_ref().context("Linux's thread has ended")?;
        orders.send(order).context("Linux's thread has panicked")
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by whoever waited for an answer.
            let _ = thread.join();
        }
    }
}

/// The client's host, the TAP and Linux's server.
struct Rig {
    now: Instant,
    host: TapHost<Tap>,
    client: Client,
    server: Server,
    messages: Messages,
}

impl Rig {
    fn new(settings: &Settings, tap: Tap) -> anyhow::Result<Self> {
        let now = Instant::now();
        let address = (namespace::LINUX, PORT).into();
        let messages = Messages::new(
            settings.seed,
            settings.request_bytes as usize,
            settings.response_bytes as usize,
        );
        let each = settings.transactions_per_connection;
        let config = StackConfig {
            meter: false,
            ..stack_config(settings)
        };
        Ok(Self {
            now,
            host: TapHost::new(now, tap, config)?,
            client: Client::new(address, settings.connections, each, &messages)?,
            server: Server::listen(address, &messages, each)?,
            messages,
        })
    }

    fn round(&mut self, connections: u64, transactions: u64) -> anyhow::Result<Round> {
        let request = HEADERS + self.messages.request_len();
        let unclaimed = self.host.unclaimed_write_cycles(self.now, request)?;
        self.client.ask_for(connections);
        let mut sum = Sum::default();
        let mut undisturbed = Undisturbed::start();
        let mut moved_at = Instant::now();
        loop {
            let began = Instant::now();
            let (moved, cycles) = self.turn(unclaimed)?;
            sum.add(cycles, undisturbed.step());
            if moved {
                let seconds = cycles / cycles_per_second();
                self.now += Duration::from_secs_f64(seconds) + DELAYS;
                moved_at = Instant::now();
            } else if self.client.is_done() {
                break;
            } else {
                self.now += began.elapsed();
                anyhow::ensure!(
                    moved_at.elapsed() < PATIENCE,
                    "nothing has come over the TAP for {PATIENCE:?}"
                );
            }
        }
        let host = undisturbed
            .scale()
            .map_or(sum.all, |scale| sum.clean * scale) as u64;
        Ok(Round {
            transactions,
            taken: Taken {
                host,
                tcp: host,
                ..Taken::default()
            },
            by_nic: ByNic {
                connections,
                ..ByNic::default()
            },
            verified: self.client.verified() && self.server.verified(),
        })
    }

    /// Everybody once. Answers whether anything moved, and the cycles that Linux took.
    fn turn(&mut self, unclaimed: f64) -> anyhow::Result<(bool, f64)> {
        /// Batches of the TAP's, of 64 frames, before Linux's server has its turn.
        const BATCHES: usize = 8;
        let before = self.host.writes();
        let mut moved = false;
        for _ in 0..BATCHES {
            self.client
                .run(self.now, &mut self.host.stack, &self.messages)?;
            if !self.host.poll(self.now)? {
                break;
            }
            moved = true;
        }
        let writes = self.host.writes().since(&before);
        let received = writes.cycles as f64 - writes.frames as f64 * unclaimed;
        let start = read_cycles();
        let aside = self.server.run(&self.messages)?;
        let served = read_cycles() - start;
        // It would sleep where it is told of nothing.
        let served = aside.map_or(0, |aside| served.saturating_sub(aside));
        Ok((moved || aside.is_some(), received.max(0.0) + served as f64))
    }
}

/// Cycles of all turns, and of those in which nobody else had the processor.
#[derive(Default)]
struct Sum {
    all: f64,
    clean: f64,
}

impl Sum {
    fn add(&mut self, cycles: f64, is_clean: bool) {
        self.all += cycles;
        if is_clean {
            self.clean += cycles;
        }
    }
}
