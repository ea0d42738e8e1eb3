//! "Statistics", and what is said of them elsewhere. The names are those of `/proc/net/tls_stat`.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use kernel_tls::Counters;

use crate::sockets::*;

cases! {
    "TlsTxSw, TlsRxSw - number of TX and RX sessions opened with host cryptography": opened,
    "TlsDecryptError - record decryption failed": not_decrypted,
    "the number of successful and failed key updates is tracked": rekeyed,
    "a NIC that can't be reached is complained of once, and counted": no_nic,
    "what a program has in the place of standard error gets no complaint": other_file,
    "TlsRxRekeyReceived counts KeyUpdate handshake messages that have been received": updates_received,
}

/// Names the file that the library counts in.
pub const VARIABLE: &str = "LONGSHORE_KTLS_COUNTERS";

/// A file for the counters.
pub struct File(PathBuf);

impl File {
    pub fn create() -> File {
        File::at("linux-documentation")
    }

    fn at(name: &str) -> File {
        let name = format!("{name}.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [0; Counters::LEN]).expect("a file");
        File(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// By how much a counter grows meanwhile.
fn counted<R>(name: &str, what: impl FnOnce() -> R) -> (u64, R) {
    let value = || {
        let path = std::env::var_os(VARIABLE).expect("the counters' file");
        let counters = Counters::from_bytes(&std::fs::read(path).expect("counters"));
        let (_, value) = counters
            .iter()
            .find(|(other, _)| *other == name)
            .expect(name);
        value
    };
    let before = value();
    let result = what();
    (value() - before, result)
}

fn opened() {
    assert_eq!(counted("TlsTxSw", || Pair::keyed(TLS_1_3, 51)).0, 1);
    assert_eq!(counted("TlsRxSw", || Pair::keyed(TLS_1_2, 54)).0, 1);
}

fn not_decrypted() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_3, 51, 1));
    pair.receives(&keys(TLS_1_3, 51, 2));
    send(pair.a(), b"under other keys", 0).unwrap();
    let (more, received) = counted("TlsDecryptError", || recv(pair.b(), 100, 0));
    assert_eq!((more, errno(received)), (1, libc::EBADMSG));
}

fn rekeyed() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let (new, other) = (keys(TLS_1_3, 51, 2), keys(TLS_1_3, 52, 2));
    for (fd, option, ok, error) in [
        (pair.a(), TLS_TX, "TlsTxRekeyOk", "TlsTxRekeyError"),
        (pair.b(), TLS_RX, "TlsRxRekeyOk", "TlsRxRekeyError"),
    ] {
        let (more, taken) = counted(ok, || set(fd, SOL_TLS, option, &new));
        assert_eq!((more, taken.is_ok()), (1, true));
        let (more, taken) = counted(error, || set(fd, SOL_TLS, option, &other));
        assert_eq!((more, errno(taken)), (1, libc::EINVAL));
    }
}

fn other_file() {
    const INNER: &str = "LONGSHORE_KTLS_TEST_INNER";
    if let Some(path) = std::env::var_os(INNER) {
        let file = std::fs::File::create(&path).unwrap();
        // SAFETY: two numbers.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), 2) }, 2);
        Pair::keyed(TLS_1_3, 51);
        return assert_eq!(std::fs::read_to_string(path).unwrap(), "");
    }
    let counters = File::at("no-complaint");
    let of_its_own = File::at("its-own");
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("in the place of standard error")
        .env("LONGSHORE_NIC", "/nowhere/nic.sock")
        .env(VARIABLE, counters.path())
        .env(INNER, of_its_own.path())
        .output()
        .expect("this program");
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
    let counted = Counters::from_bytes(&std::fs::read(counters.path()).unwrap());
    let unreachable = counted.iter().find(|(name, _)| *name == "nic_unreachable");
    assert_eq!(unreachable.unwrap().1, 2);
}

fn no_nic() {
    let (other, counters) = (std::env::current_exe().unwrap(), File::at("no-nic"));
    let ran = std::process::Command::new(other)
        .args([
            "transmit and receive are set separately",
            "a look goes across records",
        ])
        .env("LONGSHORE_NIC", "/nowhere/nic.sock")
        .env(VARIABLE, counters.path())
        .output()
        .expect("this program");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(said.matches("libktls: ").count(), 1, "{said}");
    for part in [
        "/nowhere/nic.sock",
        "No such file",
        "longshore nic",
        "nic_unreachable",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let counted = Counters::from_bytes(&std::fs::read(counters.path()).unwrap());
    let of = |name| counted.iter().find(|(other, _)| *other == name).unwrap().1;
    // One direction in the one case, two in the other.
    assert_eq!(
        (of("nic_unreachable"), of("TlsTxSw"), of("TlsRxSw")),
        (3, 2, 1)
    );
}

fn updates_received() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send_record(pair.a(), HANDSHAKE, &[24, 0, 0, 1, 0]).unwrap();
    let (more, got) = counted("TlsRxRekeyReceived", || recv_record(pair.b(), 100, 0));
    assert_eq!((more, got.unwrap().1), (1, Some(HANDSHAKE)));
}
