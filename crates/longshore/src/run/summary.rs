//! What a program's TLS sockets have sent and received.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use indicatif::{HumanBytes, HumanCount};
use kernel_tls::{Counter, Counters};

/// A file that the program and its children count in; it goes when this is dropped. It is its user's alone.
#[derive(Debug)]
pub struct CountersFile {
    path: PathBuf,
    file: File,
}

/// Names that are tried, should they be in use.
const TRIES: usize = 16;

impl CountersFile {
    /// The environment variable that names it to the library.
    pub const VARIABLE: &str = "LONGSHORE_KTLS_COUNTERS";

    /// In the directory for temporary files.
    ///
    /// # Errors
    /// Those of making it.
    pub fn create() -> io::Result<CountersFile> {
        // Other users may write there: a name that they could know beforehand they could take.
        let names = (0..TRIES).map(|_| RandomState::new().build_hasher().finish());
        CountersFile::create_as(names.map(|number| format!("longshore-run.{number:016x}")))
    }

    /// By the first of these names that is free.
    pub(super) fn create_as(names: impl Iterator<Item = String>) -> io::Result<CountersFile> {
        let mut options = OpenOptions::new();
        // A new file, and not what a symbolic link points to.
        options.read(true).write(true).create_new(true).mode(0o600);
        let directory = std::env::temp_dir();
        let mut failed = io::ErrorKind::AlreadyExists.into();
        for name in names {
            let path = directory.join(name);
            match options.open(&path) {
                Ok(file) => {
                    let made = CountersFile { path, file };
                    made.file.set_len(Counters::LEN as u64)?;
                    return Ok(made);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was counted.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn read(&self) -> io::Result<Counters> {
        let mut bytes = [0; Counters::LEN];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(Counters::from_bytes(&bytes))
    }
}

impl Drop for CountersFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A few lines for a user. A program that `goes_on` in the background has more to count.
pub fn text(program: &str, counters: &Counters, goes_on: bool) -> String {
    let of_kernel = [
        Counter::TlsTxSw,
        Counter::TlsTxDevice,
        Counter::TlsRxSw,
        Counter::TlsRxDevice,
    ];
    let is_used = of_kernel.iter().any(|counter| counters.get(*counter) > 0);
    if !is_used && goes_on {
        return format!("longshore: {program} goes on in the background\n");
    }
    if !is_used {
        return format!(
            "longshore: {program} used no kernel TLS; turn it on in OpenSSL with the option KTLS (nginx: `ssl_conf_command Options \
             KTLS;`), and use AES-GCM or ChaCha20-Poly1305\n"
        );
    }
    let so_far = if goes_on { " so far" } else { "" };
    format!("longshore: TLS records of {program}{so_far}:\n")
        + &sent(counters)
        + &received(counters)
        + &remarks(counters)
}

fn sent(counters: &Counters) -> String {
    let get = |counter| counters.get(counter);
    let (device, software) = (get(Counter::TlsTxDevice), get(Counter::TlsTxSw));
    let (records, bytes) = (get(Counter::TxRecords), get(Counter::TxBytes));
    let by_nic = match device {
        0 => ", in software\n".to_owned(),
        _ => format!(
            "\n  {:<9}{:>12} in {} records by the NIC (TlsTxDevice {}, TlsTxSw {})\n",
            "",
            HumanBytes(get(Counter::TxDeviceBytes)).to_string(),
            HumanCount(get(Counter::TxDeviceRecords)),
            HumanCount(device),
            HumanCount(software),
        ),
    };
    line("sent", device + software, records, bytes) + &by_nic
}

fn received(counters: &Counters) -> String {
    let get = |counter| counters.get(counter);
    let (device, software) = (get(Counter::TlsRxDevice), get(Counter::TlsRxSw));
    let (records, bytes) = (get(Counter::RxRecords), get(Counter::RxBytes));
    let by_nic = match device {
        0 => ", in software\n".to_owned(),
        _ => format!(
            "\n  {:<9}{:>12} {} of the records by the NIC (TlsRxDevice {}, TlsRxSw {})\n",
            "",
            "",
            HumanCount(get(Counter::RxDeviceRecords)),
            HumanCount(device),
            HumanCount(software),
        ),
    };
    line("received", device + software, records, bytes) + &by_nic
}

fn line(what: &str, sockets: u64, records: u64, bytes: u64) -> String {
    format!(
        "  {what:<9}{:>12} in {} records, on {} socket{}",
        HumanBytes(bytes).to_string(),
        HumanCount(records),
        HumanCount(sockets),
        if sockets == 1 { "" } else { "s" }
    )
}

/// What is told only if there was any.
fn remarks(counters: &Counters) -> String {
    let get = |counter| counters.get(counter);
    let mut text = String::new();
    let told = [
        (Counter::TxZerocopyBytes, "tx_zerocopy_bytes"),
        (Counter::TxDeviceRefused, "tx_device_refused"),
        (Counter::TxDeviceResumed, "tx_device_resumed"),
        (Counter::TxDeviceStopped, "tx_device_stopped"),
        (Counter::RxDevicePartialRecords, "rx_device_partial_records"),
        (Counter::RxDeviceEitherRecords, "rx_device_either_records"),
        (Counter::RxDeviceRefused, "rx_device_refused"),
        (Counter::TlsRxDeviceResync, "TlsRxDeviceResync"),
    ];
    for (counter, name) in told.into_iter().filter(|(counter, _)| get(*counter) > 0) {
        text += &format!("  {name} {}\n", HumanCount(get(counter)));
    }
    let rekeyed = get(Counter::TlsTxRekeyOk) + get(Counter::TlsRxRekeyOk);
    if rekeyed > 0 {
        text += &format!("  keys changed {} times\n", HumanCount(rekeyed));
    }
    let broken = get(Counter::TlsDecryptError);
    if broken > 0 {
        text += &format!("  {} records failed to decrypt\n", HumanCount(broken));
    }
    text
}
