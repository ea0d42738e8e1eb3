//! `longshore nvme attach`: a namespace as an NBD export.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::driver::{Driver, choose_namespace};
use super::initiator::Initiator;
use super::nbd::{self, Export, Memory, Server};
use super::options::Attach;
use crate::control::{self, Answer, CounterGroup, Request};
use crate::signals::Interrupted;

/// How long requests under way may take when we are told to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the control socket is looked at when it never sleeps.
const LOOK: Duration = Duration::from_millis(50);

/// Serves until it is told to end.
pub(super) fn run(options: &Attach) -> Result<()> {
    let listening = nbd::listen(&options.nbd)?;
    let mut readiness = options.background.begin()?;
    let mut control = options
        .control
        .as_deref()
        .map(control::Server::bind)
        .transpose()?;
    let mut driver = Driver::new(&options.disk.peer)?;
    let mut initiator = driver.connect_disk(&options.disk)?;
    let namespace = choose_namespace(&options.disk, &initiator)?;
    let controller = initiator.controller();
    let Some(info) = controller.info() else {
        bail!("the target closed the connection at once; try again");
    };
    let export = Export::new(&namespace, info, controller.limits(), options.read_only);
    let memory = Memory::new(&mut driver, &initiator, export.most_data())?;
    let mut server = Server::new(listening, export, memory)?;
    eprintln!(
        "longshore: namespace {} of {}, {} bytes{}, is at nbd+unix:///?socket={}",
        namespace.nsid,
        options.disk.nqn,
        namespace.size(),
        if export.is_read_only() {
            ", read-only"
        } else {
            ""
        },
        options.nbd.display()
    );
    readiness.tell()?;
    let ended = serve(&mut driver, &mut initiator, &mut server, control.as_mut());
    drop(control);
    match ended {
        Err(error) if error.is::<Interrupted>() => {
            finish(&mut driver, &mut initiator, &mut server)?;
            drop(server);
            driver.disconnect(initiator)?;
            driver.end()
        }
        other => other,
    }
}

fn serve(
    driver: &mut Driver,
    initiator: &mut Initiator,
    server: &mut Server,
    mut control: Option<&mut control::Server>,
) -> Result<()> {
    let mut looked = Instant::now();
    let mut slept = false;
    loop {
        let mut progress = driver.turn(initiator)?;
        driver.take_events(initiator)?;
        while let Some(done) = initiator.poll_completion() {
            server.complete(&done);
            progress = true;
        }
        progress |= server.poll(initiator)?;
        if let Some(control) = control.as_deref_mut()
            && (slept || looked.elapsed() >= LOOK)
        {
            looked = Instant::now();
            control.poll(|request| answer(driver, initiator, request));
        }
        slept = !progress;
        if !progress {
            let mut fds = vec![server.fd()];
            fds.extend(control.iter().flat_map(|control| control.fds()));
            driver.wait(initiator, &fds)?;
        }
    }
}

/// Lets requests under way come to their ends.
fn finish(driver: &mut Driver, initiator: &mut Initiator, server: &mut Server) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    server.leave();
    while server.is_busy() && Instant::now() < until {
        let mut progress = match driver.turn(initiator) {
            // Asked to end again: at once.
            Err(error) if error.is::<Interrupted>() => return Ok(()),
            other => other?,
        };
        while let Some(done) = initiator.poll_completion() {
            server.complete(&done);
            progress = true;
        }
        progress |= server.poll(initiator)?;
        if !progress {
            driver.wait(initiator, &[server.fd()])?;
        }
    }
    Ok(())
}

fn answer(driver: &mut Driver, initiator: &Initiator, request: Request) -> Answer {
    match (driver.attached(), initiator, request) {
        (Ok(attached), _, request) => attached.answer(request, || []),
        (_, Initiator::Linux(initiator), Request::Stat) => {
            let counters = initiator.counters().iter();
            Answer::Stat(vec![CounterGroup::new("initiator", counters)])
        }
        (Err(error), ..) => Answer::Error(error.to_string()),
    }
}
