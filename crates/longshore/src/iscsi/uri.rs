//! Names of units, as libiscsi writes them.

use std::fmt;

use anyhow::{Context, Result, anyhow, bail};
use url::Url;
use wire::iscsi::Lun;

use crate::disk::Authority;

/// The port of targets (RFC 7143 §13.8).
const PORT: u16 = 3260;
/// Bytes of a name at most (RFC 7143 §4.2.7.1).
const MAX_NAME: usize = 223;

/// `iscsi://HOST[:PORT]/TARGET/LUN`, or without target and unit a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    server: Authority,
    unit: Option<(String, Lun)>,
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iscsi://{}", self.server)?;
        match &self.unit {
            Some((target, lun)) => write!(f, "/{target}/{lun}"),
            None => Ok(()),
        }
    }
}

impl Uri {
    /// That of a unit.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of_unit(text: &str) -> Result<Uri, String> {
        let uri = Uri::parse(text).map_err(|error| error.to_string())?;
        match uri.unit {
            Some(_) => Ok(uri),
            None => Err(format!(
                "{text} names no unit, as iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 does; `longshore iscsi discover` shows targets"
            )),
        }
    }

    /// That of a server.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of_server(text: &str) -> Result<Uri, String> {
        let uri = Uri::parse(text).map_err(|error| error.to_string())?;
        match uri.unit {
            None => Ok(uri),
            Some(_) => Err(format!(
                "{text} names a unit; give a server's, as in iscsi://10.9.0.1"
            )),
        }
    }

    fn parse(text: &str) -> Result<Uri> {
        let example = "iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1";
        let url = Url::parse(text).with_context(|| format!("{text} is no URI, as in {example}"))?;
        if url.scheme() != "iscsi" {
            bail!("{text} is no unit's URI, as in {example}");
        }
        if !url.username().is_empty() || url.password().is_some() {
            bail!("give --user and --secret instead of a secret that other users could see");
        }
        let server = Authority::of(text, &url, PORT)?;
        let path = percent_encoding::percent_decode_str(url.path())
            .decode_utf8()
            .with_context(|| format!("the target's name in {text} is not UTF-8"))?;
        let unit = match path.trim_start_matches('/') {
            "" => None,
            path => {
                let (target, lun) = path.rsplit_once('/').ok_or_else(|| {
                    anyhow!("{text} names no unit behind the target, as in {example}")
                })?;
                check_name(target)?;
                let number = lun.parse().ok().and_then(Lun::of);
                let lun =
                    number.ok_or_else(|| anyhow!("{lun} is no number of a unit, 0 to 16383"))?;
                Some((target.to_owned(), lun))
            }
        };
        Ok(Uri { server, unit })
    }

    /// The target's name, and the unit.
    pub fn unit(&self) -> Option<(&str, Lun)> {
        let (target, lun) = self.unit.as_ref()?;
        Some((target, *lun))
    }

    /// Where the server is.
    pub(super) fn server(&self) -> &Authority {
        &self.server
    }
}

/// Refuses what is no name of an initiator or a target (RFC 7143 §4.2.7).
pub(super) fn check_name(name: &str) -> Result<()> {
    let is_name = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|kind| name.starts_with(kind));
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | ':');
    if !is_name || name.len() > MAX_NAME || !name.chars().all(allowed) {
        bail!("{name:?} is no iSCSI name, as in iqn.2024-01.org.example:disk");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        let uri = Uri::of_unit("iscsi://10.9.0.1/iqn.2024-01.org.example:a/1").unwrap();
        assert_eq!(
            uri.unit(),
            Some(("iqn.2024-01.org.example:a", Lun::of(1).unwrap()))
        );
        assert_eq!((&uri.server.host[..], uri.server.port), ("10.9.0.1", PORT));
        assert_eq!(
            uri.to_string(),
            "iscsi://10.9.0.1/iqn.2024-01.org.example:a/1"
        );
        let server = Uri::of_server("iscsi://[fd09::1]:3261/").unwrap();
        assert_eq!(server.to_string(), "iscsi://[fd09::1]:3261");
    }

    #[test]
    fn what_is_none_is_told() {
        for (text, words) in [
            ("10.9.0.1", "as in iscsi://"),
            ("nbd://h/iqn.2024-01.a:b/1", "as in iscsi://"),
            ("iscsi://h", "names no unit"),
            ("iscsi://h/iqn.2024-01.a:b", "names no unit behind"),
            ("iscsi://h/disk/1", "no iSCSI name"),
            ("iscsi://h/iqn.2024-01.a:b/x", "no number of a unit"),
            ("iscsi://h/iqn.2024-01.a:b/16384", "no number of a unit"),
            ("iscsi://me%25pw@h/iqn.2024-01.a:b/1", "--secret"),
        ] {
            let error = Uri::of_unit(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(Uri::of_server("iscsi://h/iqn.2024-01.a:b/1").is_err());
    }
}
