//! Which core each host is on, of a NIC with several.

use std::os::fd::OwnedFd;

use anyhow::{Result, ensure};

use super::options::{HostOption, Options, RingsOption, WireOption};
use crate::cores::Cores;

/// The cores of the hosts at sockets, in their order.
#[derive(Clone, Debug)]
pub struct Placement {
    cores: usize,
    hosts: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    core: usize,
    is_guest: bool,
}

impl Placement {
    /// Hosts behind TAP interfaces are on the first core, those that name a core on that one, and each of the others, in their order, on the
    /// core with the fewest.
    pub fn of(options: &Options) -> Placement {
        let cores = options.cores();
        let mut hosts = vec![0; cores];
        hosts[0] = options.taps().count();
        let named = options.rings().filter_map(|option| option.core);
        for core in named.map(usize::from).filter(|core| *core < cores) {
            hosts[core] += 1;
        }
        let places = options.rings().map(|option| {
            let fewest = || (0..cores).min_by_key(|core| hosts[*core]).unwrap_or(0);
            let core = match option.core {
                Some(core) => usize::from(core),
                None => {
                    let core = fewest();
                    hosts[core] += 1;
                    core
                }
            };
            Place {
                core,
                is_guest: option.queues.is_some(),
            }
        });
        Placement {
            hosts: places.collect(),
            cores,
        }
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// The core of each host at a socket.
    pub fn each(&self) -> impl Iterator<Item = usize> {
        self.hosts.iter().map(|place| place.core)
    }

    /// The hosts of one core, of those that the options name in the same order.
    pub fn on<'a>(
        &self,
        core: usize,
        options: &'a Options,
    ) -> impl Iterator<Item = &'a RingsOption> {
        let placed = options.rings().zip(self.each());
        placed.filter_map(move |(option, its)| (its == core).then_some(option))
    }

    /// The channels of each core, from those of all virtual machines, or of all other hosts at sockets, in their order.
    pub fn deal(&self, channels: Vec<OwnedFd>, of_guests: bool) -> Vec<Vec<OwnedFd>> {
        let mut dealt: Vec<_> = (0..self.cores).map(|_| Vec::new()).collect();
        let places = self
            .hosts
            .iter()
            .filter(|place| place.is_guest == of_guests);
        for (place, channel) in places.zip(channels) {
            dealt[place.core].push(channel);
        }
        dealt
    }
}

/// Whether the hosts can be on these cores, and the wire be that of several.
///
/// # Errors
/// They can't; the message says what to do.
pub fn check(options: &Options) -> Result<()> {
    let cores = options.cores();
    let beyond = |option: &RingsOption| option.core.filter(|core| usize::from(*core) >= cores);
    if let Some(core) = options.rings().find_map(beyond) {
        anyhow::bail!(
            "core={core} of a --host is beyond the last core, {}; give --cores more, or another core=",
            cores - 1
        );
    }
    options.cores.iter().try_for_each(Cores::check)?;
    if cores == 1 {
        return Ok(());
    }
    ensure!(
        options.pcap.is_none(),
        "--pcap does not go with several --cores, each of which has a wire; capture on the interface, or use one core"
    );
    ensure!(
        !matches!(options.wire, WireOption::Xdp(_)),
        "--cores does not go with --wire xdp:, which has one thread; use packet: or one core"
    );
    let at_sockets = |host: &&HostOption| !matches!(host, HostOption::Tap(_));
    let taps = options.taps().count();
    let useful = options.hosts.iter().filter(at_sockets).count() + usize::from(taps > 0);
    ensure!(
        cores <= useful,
        "{cores} cores have nothing to do for these hosts; give at most {useful}: each host at a socket is on one core, and all tap: hosts are on the first"
    );
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::fd::AsRawFd;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        options: Options,
    }

    /// Those of a command line with these hosts, and more of it.
    pub fn options(hosts: &[&str], more: &[&str]) -> Options {
        let hosts = hosts.iter().flat_map(|host| ["--host", *host]);
        let line = ["nic", "--control", "/run/c"].into_iter();
        let line = line.chain(hosts).chain(more.iter().copied());
        Parsed::parse_from(line).options
    }

    fn placed(hosts: &[&str], cores: &str) -> Vec<usize> {
        let options = options(hosts, &["--wire", "mem", "--cores", cores]);
        Placement::of(&options).each().collect()
    }

    #[test]
    fn hosts_are_dealt_out_in_their_order() {
        let four = ["rings:a", "rings:b", "vfio-user:c", "rings:d"];
        assert_eq!(placed(&four, "1"), [0, 0, 0, 0]);
        assert_eq!(placed(&four, "2"), [0, 1, 0, 1]);
        assert_eq!(placed(&four, "3"), [0, 1, 2, 0]);
        assert_eq!(placed(&four, "2-4"), [0, 1, 2, 0], "by number, not name");
    }

    #[test]
    fn hosts_behind_taps_are_on_the_first_core_and_count_there() {
        assert_eq!(placed(&["tap:a", "rings:b"], "2"), [1]);
        assert_eq!(placed(&["rings:b", "tap:a", "rings:c"], "2"), [1, 0]);
        assert_eq!(
            placed(&["tap:a", "tap:b", "rings:c", "rings:d"], "2"),
            [1, 1]
        );
    }

    #[test]
    fn a_host_that_names_a_core_is_there() {
        assert_eq!(placed(&["rings:a,core=1", "rings:b,core=1"], "2"), [1, 1]);
        assert_eq!(placed(&["rings:a", "rings:b,core=0"], "2"), [1, 0]);
    }

    #[test]
    fn each_core_gets_the_channels_of_its_hosts() {
        let hosts = ["rings:a", "vfio-user:b", "rings:c", "rings:d"];
        let options = options(&hosts, &["--wire", "mem", "--cores", "2"]);
        let placement = Placement::of(&options);
        assert_eq!(placement.each().collect::<Vec<_>>(), [0, 1, 0, 1]);
        let channels: Vec<_> = (0..3)
            .map(|_| super::super::link::pair().unwrap().0)
            .collect();
        let numbers: Vec<_> = channels.iter().map(AsRawFd::as_raw_fd).collect();
        let dealt = placement.deal(channels, false);
        let of = |core: usize| {
            dealt[core]
                .iter()
                .map(AsRawFd::as_raw_fd)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (of(0), of(1)),
            (numbers[..2].to_vec(), numbers[2..].to_vec())
        );
        let guest = super::super::link::pair().unwrap().0;
        let dealt = placement.deal(vec![guest], true);
        assert_eq!((dealt[0].len(), dealt[1].len()), (0, 1));
        let on: Vec<_> = placement
            .on(1, &options)
            .map(|it| it.socket.clone())
            .collect();
        assert_eq!(on, ["b", "d"].map(std::path::PathBuf::from));
    }

    #[test]
    fn what_cannot_be_on_several_cores_is_told() {
        let two = ["rings:a", "rings:b"];
        for (hosts, more, told) in [
            (
                &two[..],
                &["--wire", "mem", "--cores", "3"][..],
                "at most 2",
            ),
            (
                &["tap:a", "tap:b"],
                &["--wire", "mem", "--cores", "2"],
                "at most 1",
            ),
            (&two, &["--wire", "xdp:eth0", "--cores", "2"], "packet:"),
            (&["rings:a,core=1"], &["--wire", "mem"], "core=1"),
            (
                &["rings:a"],
                &["--wire", "mem", "--cores", "1023,"],
                "processor 1023",
            ),
            (
                &two,
                &["--wire", "mem", "--cores", "2", "--pcap", "f"],
                "--pcap",
            ),
            (
                &two,
                &["--wire", "mem", "--cores", "0,1023"],
                "processor 1023",
            ),
        ] {
            let error = check(&options(hosts, more)).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        check(&options(&two, &["--wire", "mem", "--cores", "2"])).unwrap();
        check(&options(
            &["tap:a", "rings:b"],
            &["--wire", "mem", "--cores", "2"],
        ))
        .unwrap();
    }
}
