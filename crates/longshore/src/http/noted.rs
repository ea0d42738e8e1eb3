//! What a log tells of a request, as it came.

use super::find_head::MAX_EMPTY;

/// Bytes of the line, and of each field, that are kept at most.
const MOST: [usize; 2] = [8192, 1024];

/// The first line of a head, and two of its fields. Its memory is used again for the next request.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    text: Vec<u8>,
    /// Where the line ends, and where the first field ends.
    ends: [usize; 2],
}

impl Noted {
    /// Notes a head, or as much of it as came.
    pub fn note(&mut self, head: &[u8]) {
        self.text.clear();
        let begin = head.iter().position(|byte| !b"\r\n".contains(byte));
        let head = &head[begin.unwrap_or(0).min(MAX_EMPTY)..];
        let mut lines = head
            .split(|&byte| byte == b'\n')
            .map(<[u8]>::trim_ascii_end);
        let line = lines.next().unwrap_or_default();
        self.text
            .extend_from_slice(&line[..line.len().min(MOST[0])]);
        self.ends[0] = self.text.len();
        let fields = lines.filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        });
        let value = |name: &str| {
            let mut fields = fields.clone();
            let found = fields.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
            found.map_or(&[][..], |(_, value)| &value[..value.len().min(MOST[1])])
        };
        self.text.extend_from_slice(value("referer"));
        self.ends[1] = self.text.len();
        self.text.extend_from_slice(value("user-agent"));
    }

    /// What was noted came by HTTP/2, whatever its line says.
    pub fn set_http2(&mut self) {
        let line = &mut self.text[..self.ends[0]];
        if let Some(version) = line
            .len()
            .checked_sub(3)
            .filter(|_| line.ends_with(b"HTTP/1.1"))
        {
            line[version..].copy_from_slice(b"2.0");
        }
    }

    /// Notes a request that came as `fields` and in other words than a head's: its line, made of these.
    pub fn note_words<'a>(&mut self, words: [&str; 3], field: impl Fn(&str) -> Option<&'a [u8]>) {
        self.text.clear();
        for (word, space) in words.iter().zip(["", " ", " "]) {
            self.text.extend_from_slice(space.as_bytes());
            self.text.extend_from_slice(word.as_bytes());
        }
        self.text.truncate(MOST[0]);
        self.ends[0] = self.text.len();
        let value = |name| {
            let value = field(name).unwrap_or_default();
            &value[..value.len().min(MOST[1])]
        };
        self.text.extend_from_slice(value("referer"));
        self.ends[1] = self.text.len();
        self.text.extend_from_slice(value("user-agent"));
    }

    /// `GET /path HTTP/1.1`; empty if nothing came.
    pub fn line(&self) -> &[u8] {
        &self.text[..self.ends[0]]
    }

    /// `Referer`; empty without one.
    pub fn referer(&self) -> &[u8] {
        &self.text[self.ends[0]..self.ends[1]]
    }

    /// `User-Agent`; empty without one.
    pub fn user_agent(&self) -> &[u8] {
        &self.text[self.ends[1]..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(head: &[u8]) -> [Vec<u8>; 3] {
        let mut noted = Noted::default();
        noted.note(
            b"GET /longer/than/what/comes/next HTTP/1.1\r\nReferer: a\r\nUser-Agent: b\r\n\r\n",
        );
        noted.note(head);
        [noted.line(), noted.referer(), noted.user_agent()].map(<[u8]>::to_vec)
    }

    #[test]
    fn a_head_is_noted_as_it_came() {
        let head =
            b"GET /a%20b HTTP/1.1\r\nHost: x\r\nuser-AGENT: curl/8 (x) \r\nReferer:http://b/\r\n\r\n";
        let expected: [&[u8]; 3] = [b"GET /a%20b HTTP/1.1", b"http://b/", b"curl/8 (x)"];
        assert_eq!(noted(head), expected);
    }

    #[test]
    fn a_request_of_a_stream_is_noted_as_a_line() {
        let mut noted = Noted::default();
        let field = |name: &str| (name == "user-agent").then_some(&b"curl"[..]);
        noted.note_words(["GET", "/a", "HTTP/2.0"], field);
        assert_eq!(noted.line(), b"GET /a HTTP/2.0");
        assert_eq!(
            (noted.referer(), noted.user_agent()),
            (&b""[..], &b"curl"[..])
        );
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = "x".repeat(20_000);
        let head = format!("GET /{long} HTTP/1.1\r\nReferer: {long}\r\nUser-Agent: {long}\r\n\r\n");
        let lens = noted(head.as_bytes()).map(|text| text.len());
        assert_eq!(lens, [8192, 1024, 1024]);
    }

    #[test]
    fn what_is_no_head_is_noted_as_far_as_it_came() {
        let expected: [&[u8]; 3] = [b"GET / HTT", b"", b""];
        assert_eq!(noted(b"\r\nGET / HTT"), expected);
        assert_eq!(noted(b""), [b"", b"", b""]);
        let expected: [&[u8]; 3] = [b"\x00\xff", b"", b""];
        assert_eq!(noted(b"\x00\xff\nno field\n"), expected);
    }
}
