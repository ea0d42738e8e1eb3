//! The host's L2 cache, as far as the state of connections is in it: whole pieces of state, least recently used ones give way.

const NONE: u32 = u32::MAX;

/// A list from the piece used last to the one used longest ago.
#[derive(Debug)]
pub(super) struct Cache {
    nodes: Vec<Node>,
    first: u32,
    last: u32,
    used: u32,
    capacity: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
    /// Lines of it; 0 when it is not there.
    lines: u32,
}

impl Cache {
    /// Of so many lines.
    pub fn new(capacity: u32) -> Self {
        Self {
            nodes: Vec::new(),
            first: NONE,
            last: NONE,
            used: 0,
            capacity,
        }
    }

    /// Uses a piece of so many lines. Returns whether it was there.
    pub fn touch(&mut self, piece: u32, lines: u32) -> bool {
        let at = piece as usize;
        if at >= self.nodes.len() {
            let empty = Node {
                before: NONE,
                after: NONE,
                lines: 0,
            };
            self.nodes.resize(at + 1, empty);
        }
        let hit = self.nodes[at].lines > 0;
        if hit {
            self.unlink(piece);
        }
        self.push_first(piece, lines);
        while self.used > self.capacity && self.last != piece {
            self.unlink(self.last);
        }
        hit
    }

    /// The piece is of no use any more.
    pub fn forget(&mut self, piece: u32) {
        if self
            .nodes
            .get(piece as usize)
            .is_some_and(|node| node.lines > 0)
        {
            self.unlink(piece);
        }
    }

    fn push_first(&mut self, piece: u32, lines: u32) {
        self.nodes[piece as usize] = Node {
            before: NONE,
            after: self.first,
            lines,
        };
        match self.first {
            NONE => self.last = piece,
            first => self.nodes[first as usize].before = piece,
        }
        self.first = piece;
        self.used += lines;
    }

    fn unlink(&mut self, piece: u32) {
        let node = std::mem::replace(
            &mut self.nodes[piece as usize],
            Node {
                before: NONE,
                after: NONE,
                lines: 0,
            },
        );
        match node.before {
            NONE => self.first = node.after,
            before => self.nodes[before as usize].after = node.after,
        }
        match node.after {
            NONE => self.last = node.before,
            after => self.nodes[after as usize].before = node.before,
        }
        self.used -= node.lines;
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn what_was_used_longest_ago_gives_way() {
        let mut cache = Cache::new(32);
        assert!(!cache.touch(0, 16) && !cache.touch(5, 16));
        assert!(cache.touch(0, 16));
        assert!(!cache.touch(2, 16), "in the place of 5");
        assert!(cache.touch(0, 16) && !cache.touch(5, 16));
        cache.forget(0);
        assert!(!cache.touch(0, 16));
    }

    #[test]
    fn more_than_the_cache_takes_is_there_alone() {
        let mut cache = Cache::new(8);
        assert!(!cache.touch(1, 16));
        assert!(cache.touch(1, 16));
        assert!(!cache.touch(2, 4) && !cache.touch(1, 16));
    }
}
